package measure

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"anvil/pipeline/stage"
	"anvil/stages/internal/load"
	"anvil/stages/internal/target"
)

// traceConfig is the plan key load.trace. Of a trace its times are replayed; how
// long prompts and answers are is the workload's.
type traceConfig struct {
	File    string            `json:"file"`
	Format  string            `json:"format"`
	Columns map[string]string `json:"columns"`
	Speed   float64           `json:"speed"`
}

// timeColumn is our name for the column of a csv trace that holds the times in
// seconds.
const timeColumn = "time"

// traceFormats read the times of a trace in seconds, in any order.
var traceFormats = map[string]func(traceConfig, io.Reader) ([]float64, error){
	"anvil": anvilTrace,
	"mooncake": func(_ traceConfig, r io.Reader) ([]float64, error) {
		return lineTimes(r, "timestamp", 1e-3) // milliseconds
	},
	"burstgpt": func(_ traceConfig, r io.Reader) ([]float64, error) { return columnTimes(r, "Timestamp") },
	"csv": func(c traceConfig, r io.Reader) ([]float64, error) {
		column := c.Columns[timeColumn]
		if column == "" {
			column = timeColumn
		}
		return columnTimes(r, column)
	},
}

// read returns when each request of the trace is due, in order, the first at 0.
func (c traceConfig) read(r io.Reader) ([]int64, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(3)
	}
	times, err := traceFormats[c.Format](c, in)
	if err != nil {
		return nil, err
	}
	if len(times) == 0 {
		return nil, errors.New("the trace has no arrivals")
	}
	slices.Sort(times)
	due := make([]int64, len(times))
	for i, at := range times {
		ns := (at - times[0]) / c.Speed * 1e9
		if ns > math.MaxInt64/4 {
			return nil, errors.New("the trace is longer than 70 years")
		}
		due[i] = int64(math.Round(ns))
	}
	return due, nil
}

// anvilTrace reads the schedule of an earlier measurement (schedule.json), or a
// line {"due_ns": N} for each request.
func anvilTrace(_ traceConfig, r io.Reader) ([]float64, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Schema string  `json:"schema"`
		DueNS  []int64 `json:"due_ns"`
	}
	if json.Unmarshal(raw, &doc) != nil || doc.Schema == "" {
		return lineTimes(bytes.NewReader(raw), "due_ns", 1e-9)
	}
	if doc.Schema != string(scheduleSchema) {
		return nil, fmt.Errorf("want a schedule, %s, got %.80q", scheduleSchema, doc.Schema)
	}
	times := make([]float64, len(doc.DueNS))
	for i, ns := range doc.DueNS {
		times[i] = float64(ns) / 1e9
	}
	return times, nil
}

// maxTraceLine bounds a line: a row of a Mooncake trace lists its blocks.
const maxTraceLine = 16 << 20

func lineTimes(r io.Reader, member string, unit float64) (times []float64, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxTraceLine)
	for n := 1; s.Scan(); n++ {
		raw := bytes.TrimSpace(s.Bytes())
		if len(raw) == 0 {
			continue
		}
		var row map[string]json.RawMessage
		if err := json.Unmarshal(raw, &row); err != nil {
			return nil, fmt.Errorf("line %d: want a JSON object: %w", n, err)
		}
		if times, err = addTime(times, string(row[member]), unit); err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", n, member, err)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	return times, nil
}

func columnTimes(r io.Reader, column string) (times []float64, err error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("read the names of the columns: %w", err)
	}
	at := slices.Index(head, column)
	if at < 0 {
		return nil, fmt.Errorf("no column %q; there are %.400q", column, head)
	}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return times, nil
		}
		if err != nil {
			return nil, err
		}
		if times, err = addTime(times, strings.TrimSpace(row[at]), 1); err != nil {
			line, _ := in.FieldPos(at)
			return nil, fmt.Errorf("line %d: %q: %w", line, column, err)
		}
	}
}

func addTime(times []float64, text string, unit float64) ([]float64, error) {
	at, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(at) || math.IsInf(at, 0):
		return nil, fmt.Errorf("want a time as a number, got %.40q", text)
	case len(times) == load.MaxArrivals:
		return nil, fmt.Errorf("more than %d arrivals", load.MaxArrivals)
	}
	return append(times, at*unit), nil
}

// stop cuts a trace where the plan ends the load.
func (l loadConfig) stop(due []int64) ([]int64, error) {
	if l.Requests != nil {
		if *l.Requests > len(due) {
			return nil, fmt.Errorf("%d requests are planned and the trace has %d arrivals; lower load.requests", *l.Requests, len(due))
		}
		return due[:*l.Requests], nil
	}
	if l.Duration != nil {
		n, _ := slices.BinarySearch(due, int64(*l.Duration))
		due = due[:n]
	}
	return due, nil
}

// trace returns the arrivals of the trace; nil where the load is none.
func (m measure) trace(ctx context.Context, in stage.Inputs) ([]int64, error) {
	if m.Load.Trace == nil {
		return nil, nil
	}
	file, ok := in.File("/load/trace/file")
	if !ok {
		return nil, errors.New("load: the trace was not handed in")
	}
	r, err := file.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	defer r.Close()
	due, err := m.Load.Trace.read(r)
	if err == nil {
		_, err = io.Copy(io.Discard, r) // the digest is verified at the end
	}
	if err == nil {
		due, err = m.Load.stop(due)
	}
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", file.Name, err)
	}
	return due, nil
}

// resolveTrace reads a trace while the plan is read, so that a bad one is found
// before anything runs. A file that cannot be opened is the plan's to report.
func resolveTrace(r *stage.Resolution, with map[string]any, prompts int) {
	raw, err := json.Marshal(with)
	if err != nil {
		return
	}
	var l struct {
		Trace    *traceConfig     `json:"trace"`
		Requests *int             `json:"requests"`
		Duration *target.Duration `json:"duration"`
	}
	if json.Unmarshal(raw, &l) != nil || l.Trace == nil || l.Trace.Speed <= 0 {
		return
	}
	for name := range l.Trace.Columns {
		if name != timeColumn || l.Trace.Format != "csv" {
			r.Problem("/load/trace/columns", fmt.Sprintf("column %q is not read", name), `format csv has one: {time: "its name in the file"}, in seconds`)
		}
	}
	if r.Open == nil {
		return
	}
	file, err := r.Open(l.Trace.File)
	if err != nil {
		return
	}
	defer file.Close()
	due, err := l.Trace.read(file)
	if err == nil {
		due, err = loadConfig{Requests: l.Requests, Duration: l.Duration}.stop(due)
	}
	switch {
	case err != nil:
		r.Problem("/load/trace/file", l.Trace.File+": "+err.Error(), "")
	case l.Duration != nil && prompts >= 0 && len(due) > prompts:
		tell(r, "/load/duration", fewRowsInTime(prompts))
	}
}
