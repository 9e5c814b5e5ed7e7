package record

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"

	"anvil/stages/internal/jsontree"
)

// A LiveRunInput is what was declared and measured of one open-loop run. Times
// are exact; what is written has three decimals.
type LiveRunInput struct {
	ClientShed int
	DurationS  float64  // start of the schedule to the last end
	TTFTSLOMS  *float64 // null when the plan sets none
	Requests   []LiveRequest
	Limits     string // "" for LiveLimits; it begins "Simulated engine." for the embedded one
	Context    LiveContext
}

// A LiveRequest is one row, in order of arrival. With Error set it failed.
type LiveRequest struct {
	Error       string
	E2EMS       float64
	TTFTMS      float64
	EventGapsMS []float64 // one less than content events
	Text        *string   // null when texts are not stored

	// LateText, when set, tells Text when the row is written.
	LateText func() (*string, error)
}

// LiveContext says where it was run.
type LiveContext struct {
	Model    string
	Revision *string
	License  *string
	Device   *string
	Command  *string
	Sources  []NamedDigest // in the order in which they are written
	Scope    string
}

// A NamedDigest is a file and its SHA-256.
type NamedDigest struct{ Name, SHA256 string }

// What the figures of a live run do not say.
const (
	LiveLimits          = "TTFT-only goodput; SSE events are not necessarily model tokens. Client saturation and failed responses are disclosed."
	LiveLimitsSimulated = "Simulated engine. " + LiveLimits
	SimulatedDevice     = "simulated"
)

// BuildLiveRun writes a live run in the shape and order of its kind.
func BuildLiveRun(in LiveRunInput) ([]byte, error) {
	var b bytes.Buffer
	err := WriteLiveRun(&b, in)
	return b.Bytes(), err
}

// WriteLiveRun is BuildLiveRun for a run whose texts are too many to hold.
func WriteLiveRun(w io.Writer, in LiveRunInput) error {
	duration := round3(in.DurationS)
	within, rows := 0, []any{}
	for i, r := range in.Requests {
		if r.Error != "" {
			rows = append(rows, jsontree.Obj{{Name: "status", Value: "failed"}, {Name: "error", Value: r.Error}, {Name: "e2e_ms", Value: round3(r.E2EMS)}})
			continue
		}
		if math.IsNaN(r.TTFTMS) {
			return fmt.Errorf("live run: request %d completed without a ttft", i)
		}
		// The record must count what it shows: the rounded time decides.
		ttft := round3(r.TTFTMS)
		if in.TTFTSLOMS != nil && ttft <= *in.TTFTSLOMS {
			within++
		}
		gaps := []any{}
		for _, g := range r.EventGapsMS {
			gaps = append(gaps, round3(g))
		}
		rows = append(rows, jsontree.Obj{
			{Name: "status", Value: "completed"},
			{Name: "ttft_ms", Value: ttft},
			{Name: "event_gaps_ms", Value: gaps},
			{Name: "e2e_ms", Value: round3(r.E2EMS)},
			{Name: "text", Value: r.text()},
			{Name: "content_events", Value: len(gaps) + 1},
		})
	}
	var slo, goodput any
	if in.TTFTSLOMS != nil {
		slo = wholeOrFloat(*in.TTFTSLOMS)
		// A reader has no other duration than the one that is stated.
		if duration > 0 {
			goodput = round3(float64(within) / duration)
		}
	}
	return jsontree.Renderer{}.Write(w, jsontree.Obj{
		{Name: "execution_mode", Value: "live HTTP requests"},
		{Name: "offered_requests", Value: len(in.Requests) + in.ClientShed},
		{Name: "client_shed_requests", Value: in.ClientShed},
		{Name: "duration_s", Value: duration},
		{Name: "ttft_slo_ms", Value: slo},
		{Name: "ttft_goodput_rps", Value: goodput},
		{Name: "requests", Value: rows},
		{Name: "limits", Value: or(in.Limits, LiveLimits)},
		{Name: "run_context", Value: in.Context.object()},
	})
}

func (r LiveRequest) text() any {
	if r.LateText == nil {
		return r.Text
	}
	return jsontree.Late(func() (any, error) { return r.LateText() })
}

func (c LiveContext) object() jsontree.Obj {
	sources := jsontree.Obj{}
	for _, s := range c.Sources {
		sources = append(sources, jsontree.Member{Name: s.Name, Value: s.SHA256})
	}
	return jsontree.Obj{
		{Name: "model", Value: c.Model},
		{Name: "revision", Value: c.Revision},
		{Name: "license", Value: c.License},
		{Name: "device", Value: c.Device},
		{Name: "command", Value: c.Command},
		{Name: "source_sha256", Value: sources},
		{Name: "scope", Value: c.Scope},
	}
}

// round3 rounds the exact value to three decimals, half to even, as the
// original producer does.
func round3(f float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', 3, 64), 64)
	if err != nil {
		return f // NaN or infinite: the renderer refuses it
	}
	return r
}

// wholeOrFloat keeps an objective as a plan writes it: 500, not 500.0.
func wholeOrFloat(f float64) any {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return int64(f)
	}
	return f
}
