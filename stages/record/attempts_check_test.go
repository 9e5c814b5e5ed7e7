package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/shape"
)

func TestAttemptsHold(t *testing.T) {
	shed := &Attempt{Index: 1, Client: "c0", Outcome: OutcomeClientShed, MaxOutputTokens: 8, Usage: Usage{Source: "none", Reason: new("not sent")}, TextSHA256: sampleAttempt(0).TextSHA256, T: Stamps{Due: new(int64(5))}, ClientDelay: []int64{}}
	h := sampleHeader()
	h.Planned = new(2)
	h.Endpoint.BaseURL = new("http://127.0.0.1:1/v1")
	var out bytes.Buffer
	w, err := NewAttemptsWriter(&out, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []*Attempt{sampleAttempt(0), shed} {
		if err := w.Write(a); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close("aborted"); err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string][]byte{"zstd": out.Bytes(), "plain": plain(t, out.Bytes())} {
		r := CheckReader(name, bytes.NewReader(src), Options{})
		if r.Status != StatusOK || r.Kind == nil || *r.Kind != AttemptsSchema {
			t.Errorf("%s, want ok", describe(r))
		}
		var got any
		if err := json.Unmarshal(r.Recomputed, &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"lines": 2.0, "accounting": map[string]any{"planned": 2.0, "outcomes": map[string]any{"ok": 1.0, "client_shed": 1.0}}}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: recomputed differs (-want +got):\n%s", name, d)
		}
	}
}

// The stamp of the phase's start is what its label spells, as far as that goes.
func TestAttemptsStampsFitTheirLabel(t *testing.T) {
	lines := string(plain(t, writeAttempts(t, sampleAttempt(0), sampleAttempt(1), sampleAttempt(2))))
	for name, c := range map[string]struct {
		label, stamp string
		ok           bool
	}{
		"to the ns":            {"2026-11-30T09:00:00.000000001Z", "1796029200000000001", true},
		"a ns off":             {"2026-11-30T09:00:00.000000001Z", "1796029200000000002", false},
		"another zone":         {"2026-11-30T10:00:00.000000001+01:00", "1796029200000000001", true},
		"zeros left out":       {"2026-11-30T09:00:00.5Z", "1796029200500000000", true},
		"seconds, cut":         {"2026-11-30T09:00:00Z", "1796029200999999999", true},
		"seconds, rounded":     {"2026-11-30T09:00:01Z", "1796029200999999999", true},
		"the next second":      {"2026-11-30T09:00:00Z", "1796029201000000000", false},
		"microseconds":         {"2026-11-30T09:00:00.000001Z", "1796029200000001999", true},
		"the next microsecond": {"2026-11-30T09:00:00.000001Z", "1796029200000002000", false},
		"ages apart":           {"0001-01-01T00:00:00Z", "9223372036854775807", false},
	} {
		src := strings.Replace(lines, `"wall_start_at":"2026-11-30T09:00:00.000000001Z","wall_start_unix_ns":1796029200000000001`, `"wall_start_at":"`+c.label+`","wall_start_unix_ns":`+c.stamp, 1)
		r := CheckReader(name, strings.NewReader(src), Options{})
		if !strings.Contains(src, c.stamp) || r.OK != c.ok || !c.ok && !hasProblem(r, "/line/1/clock/wall_start_unix_ns", "attempts.clock") {
			t.Errorf("%s: want ok %v, got %s", name, c.ok, describe(r))
		}
	}
}

// What was found of a marker and of code words follows from what was counted,
// under each policy.
func TestAttemptsFindingsFollowFromTheirCounts(t *testing.T) {
	a := sampleAttempt(1)
	a.Canary = &Canary{Marker: Marker(7, 1), MarkerAtStart: true, ObservedMarkerCount: 1, CaptureComplete: true, Passed: true}
	words := func(policy string, code int, complete bool, exact *bool, passed bool) *ControlledOutput {
		return &ControlledOutput{Policy: policy, RequestedWords: 8, ObservedCodeWords: code, CaptureComplete: complete, ExactAdherence: exact, Passed: passed}
	}
	for name, o := range map[string]*ControlledOutput{
		"strict": words("strict", 8, true, new(true), true), "strict, one short": words("strict", 7, true, new(false), false),
		"strict, cut": words("strict", 8, false, nil, false), "observe, one short": words("observe", 7, true, new(false), true), "observe, cut": words("observe", 8, false, nil, true),
	} {
		a.ControlledOutput = o
		if r := CheckReader(name, bytes.NewReader(writeAttempts(t, sampleAttempt(0), a, sampleAttempt(2))), Options{}); !r.OK {
			t.Errorf("%s: %s, want ok", name, describe(r))
		}
	}
	a.ControlledOutput = words("strict", 8, true, new(true), true)
	whole := string(plain(t, writeAttempts(t, sampleAttempt(0), a, sampleAttempt(2))))
	for name, c := range map[string]struct{ from, to, pointer, rule string }{
		"not at the start":    {`"marker_at_start":true`, `"marker_at_start":false`, "/canary/passed", "canary.passed"},
		"a foreign marker":    {`"foreign_marker_count":0`, `"foreign_marker_count":1`, "/canary/passed", "canary.passed"},
		"canary, cut":         {`"foreign_marker_count":0,"capture_complete":true`, `"foreign_marker_count":0,"capture_complete":false`, "/canary/passed", "canary.passed"},
		"failed all the same": {`"capture_complete":true,"passed":true`, `"capture_complete":true,"passed":false`, "/canary/passed", "canary.passed"},
		"no marker seen":      {`"observed_marker_count":1`, `"observed_marker_count":0`, "/canary/observed_marker_count", "canary.count"},
		"a word short":        {`"observed_code_words":8`, `"observed_code_words":7`, "/controlled_output/exact_adherence", "controlled.exact"},
		"a word more":         {`"observed_extra_words":0`, `"observed_extra_words":1`, "/controlled_output/exact_adherence", "controlled.exact"},
		"words, cut":          {`"observed_extra_words":0,"capture_complete":true`, `"observed_extra_words":0,"capture_complete":false`, "/controlled_output/exact_adherence", "controlled.exact"},
		"unknown, not cut":    {`"exact_adherence":true`, `"exact_adherence":null`, "/controlled_output/exact_adherence", "controlled.exact"},
		"passed inexactly":    {`"observed_code_words":8,"observed_extra_words":0,"capture_complete":true,"exact_adherence":true`, `"observed_code_words":7,"observed_extra_words":0,"capture_complete":true,"exact_adherence":false`, "/controlled_output/passed", "controlled.passed"},
		"observed to fail":    {`"policy":"strict","requested_words":8,"observed_code_words":8,"observed_extra_words":0,"capture_complete":true,"exact_adherence":true,"passed":true`, `"policy":"observe","requested_words":8,"observed_code_words":8,"observed_extra_words":0,"capture_complete":true,"exact_adherence":true,"passed":false`, "/controlled_output/passed", "controlled.passed"},
	} {
		mutant := strings.Replace(whole, c.from, c.to, 1)
		if mutant == whole {
			t.Fatalf("%s: %q is not in %s", name, c.from, whole)
		}
		r := CheckReader(name, strings.NewReader(mutant), Options{})
		repeatsWhatItsLinesStore(t, mutant, r)
		if !hasProblem(r, "/line/3"+c.pointer, c.rule) {
			t.Errorf("%s: want %s at %s, got %s", name, c.rule, c.pointer, describe(r))
		}
	}
}

// Every fault of a row is found where it stands.
func TestAttemptsFaultsAreNamed(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(string(plain(t, writeAttempts(t, sampleAttempt(0), sampleAttempt(1), sampleAttempt(2)))), "\n"), "\n")
	for name, c := range map[string]struct {
		from, to      string // in the line of request 1, the third
		pointer, rule string
	}{
		"first output moved":   {`"first_output":10800000`, `"first_output":10800001`, "/line/3/t/first_output", "attempts.arrivals"},
		"first content moved":  {`"first_content":16000000`, `"first_content":10800000`, "/line/3/t/first_content", "attempts.arrivals"},
		"last output moved":    {`"last_output":89000000`, `"last_output":88000000`, "/line/3/t/last_output", "attempts.arrivals"},
		"first output is null": {`"first_output":10800000`, `"first_output":null`, "/line/3/t/first_output", "attempts.arrivals"},
		"sent before connect":  {`"sent":1121000`, `"sent":1119999`, "/line/3/t/sent", "attempts.order"},
		"end before output":    {`"end":89100000`, `"end":88999999`, "/line/3/t/end", "attempts.order"},
		"written before sent":  {`"written":1130000`, `"written":1`, "/line/3/t/written", "attempts.order"},
		"a kind too many":      {`"rcc"`, `"rccc"`, "/line/3/arrivals", "attempts.events"},
		"a kind unknown":       {`"rcc"`, `"rxc"`, "/line/3/arrival_kinds", "schema.pattern"},
		"shared arrival":       {`5200000,73000000]`, `78200000,0]`, "/line/3/arrivals/2", "attempts.coalesced"},
		"index twice":          {`"index":1,`, `"index":0,`, "/line/3/index", "attempts.once"},
		"index beyond":         {`"index":1,`, `"index":3,`, "/line/3/index", "attempts.index"},
		"index below":          {`"index":1,`, `"index":-1,`, "/line/3/index", "schema.minimum"},
		"unknown outcome":      {`"outcome":"ok"`, `"outcome":"fine"`, "/line/3/outcome", "schema.enum"},
		"success with error":   {`"error":null`, `"error":{"class":"x","message":"y","retry_after_s":null}`, "/line/3/outcome", "attempts.outcome"},
		"shed with a start":    {`"outcome":"ok"`, `"outcome":"client_shed"`, "/line/3/outcome", "attempts.outcome"},
		"usage without source": {`"source":"final"`, `"source":"none"`, "/line/3/usage/source", "attempts.usage"},
		"usage without reason": {`"output":231`, `"output":null`, "/line/3/usage/reason", "attempts.usage"},
		"negative usage":       {`"output":231`, `"output":-1`, "/line/3/usage/output", "schema.minimum"},
		"fractional usage":     {`"output":231`, `"output":231.5`, "/line/3/usage/output", "schema.type"},
		"reasoning over all":   {`"reasoning":80`, `"reasoning":232`, "/line/3/usage/reasoning", "attempts.usage"},
		"cached over all":      {`"cached":0`, `"cached":4071`, "/line/3/usage/cached", "attempts.usage"},
		"text changed":         {`né`, `ne`, "/line/3/text_sha256", "attempts.text"},
		"a key missing":        {`"notes":[],`, ``, "/line/3/notes", "schema.required"},
		"a list is null":       {`"notes":[]`, `"notes":null`, "/line/3/notes", "schema.type"},
		"duplicate key":        {`"notes":[]`, `"notes":[],"notes":[]`, "/line/3", "json.duplicate-key"},
		"last try differs":     {`"tries":[]`, `"tries":[{"t":` + nullStamps + `,"outcome":"transport","error":null}]`, "/line/3/tries", "attempts.tries"},
		"a stamp beyond int64": {`"end":89100000`, `"end":99999999999999999999`, "/line/3/t/end", "number.int64"},
		"arrivals that wrap":   {`5200000,73000000]`, `9223372036854775807,9223372036854775807]`, "/line/3/arrivals/1", "attempts.arrivals"},
		"client delay is null": {`"client_delay":[3000,2000,900]`, `"client_delay":null`, "/line/3/client_delay", "attempts.events"},
	} {
		changed := strings.Replace(lines[2], c.from, c.to, 1)
		if changed == lines[2] {
			t.Fatalf("%s: %q is not in %s", name, c.from, lines[2])
		}
		src := strings.Join([]string{lines[0], lines[1], changed, lines[3], lines[4], ""}, "\n")
		r := CheckReader(name, strings.NewReader(src), Options{})
		repeatsWhatItsLinesStore(t, src, r)
		if !hasProblem(r, c.pointer, c.rule) {
			t.Errorf("%s: want %s at %s, got %s", name, c.rule, c.pointer, describe(r))
		}
	}
	for name, c := range map[string]struct {
		lines         []string
		pointer, rule string
	}{
		"row lost":    {[]string{lines[0], lines[1], lines[2], lines[4]}, "/line/4/lines", "lines.count"},
		"not planned": {[]string{lines[0], lines[1], lines[2], lines[4]}, "/line/1/planned", "attempts.accounting"},
		"no footer":   {lines[:4], "", "lines.incomplete"},
		"more after":  {append(append([]string{}, lines...), lines[1]), "/line/6", "lines.after-footer"},
		"bad header":  {append([]string{strings.Replace(lines[0], `"stamps":"kernel"`, `"stamps":"sundial"`, 1)}, lines[1:]...), "/line/1/stamps", "schema.enum"},
		"incomplete":  {append(append([]string{}, lines[:4]...), strings.Replace(lines[4], `"complete":true`, `"complete":false`, 1)), "/line/5/complete", "schema.enum"},
		"broken line": {[]string{lines[0], lines[1], `{"index":`, lines[3], lines[4]}, "/line/3", "json.syntax"},
	} {
		src := strings.Join(c.lines, "\n") + "\n"
		r := CheckReader(name, strings.NewReader(src), Options{})
		repeatsWhatItsLinesStore(t, src, r)
		if !hasProblem(r, c.pointer, c.rule) {
			t.Errorf("%s: want %s at %q, got %s", name, c.rule, c.pointer, describe(r))
		}
	}
}

// repeatsWhatItsLinesStore is repeatsWhatIsStored for JSON Lines.
func repeatsWhatItsLinesStore(t *testing.T, src string, r Report) {
	t.Helper()
	lines := strings.Split(src, "\n")
	for _, p := range r.Problems {
		in, found := strings.CutPrefix(p.Pointer, "/line/")
		number, pointer, _ := strings.Cut(in, "/")
		n, err := strconv.Atoi(number)
		if !found || err != nil || p.Rule == "attempts.tries" { // which gives the outcome of the last one
			continue
		}
		doc, err := jsontree.Parse([]byte(lines[n-1]))
		if err != nil {
			continue
		}
		doc = at(doc, "/"+pointer)
		want := []byte("null")
		if doc.Exists() && pointer != "" && len(doc.Raw()) <= maxStored {
			want = doc.Raw()
		}
		if string(p.Stored) != string(want) {
			t.Errorf("%s [%s]: stored %s in the problem, %s in the line", p.Pointer, p.Rule, p.Stored, want)
		}
	}
}

const nullStamps = `{"due":null,"start":null,"connected":null,"sent":null,"written":null,"headers":null,"first_byte":null,"first_output":null,"first_content":null,"last_output":null,"end":null}`

func TestAFileOfBadRowsIsCutShort(t *testing.T) {
	var b strings.Builder
	b.WriteString(strings.SplitAfter(string(plain(t, writeAttempts(t))), "\n")[0])
	for range maxProblems + 500 {
		b.WriteString("{\"index\":true}\n")
	}
	r := CheckReader("bad", strings.NewReader(b.String()), Options{})
	if len(r.Problems) != maxProblems || len(r.Notes) != 1 || !strings.Contains(r.Notes[0].Text, "more problems") {
		t.Errorf("%d problems and %d notes, want %d and one that says that there are more", len(r.Problems), len(r.Notes), maxProblems)
	}
}

var attemptsMiB = flag.Int("attempts-mib", 48, "size of the stream of TestAttemptsAreCheckedInConstantMemory")

// A large file is checked in 64 MiB. The default size is for every run;
// `go test -run ConstantMemory -attempts-mib 1024` is the issue's.
func TestAttemptsAreCheckedInConstantMemory(t *testing.T) {
	const limit = 64 << 20
	path := filepath.Join(t.TempDir(), "attempts.jsonl.zst")
	written := writeLongAttempts(t, path, int64(*attemptsMiB)<<20)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	runtime.GC()
	peak := uint64(0)
	began := time.Now()
	r := CheckReader("stream", &sampled{r: f, every: 256 << 10, sample: func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse+m.StackInuse)
	}}, Options{})
	if !r.OK {
		t.Fatal(describe(r))
	}
	t.Logf("%d MiB of JSON checked in %v, heap and stacks in use at most %d MiB", written>>20, time.Since(began).Round(time.Millisecond), peak>>20)
	if peak == 0 || peak > limit {
		t.Errorf("heap in use reached %d MiB, want at most %d", peak>>20, limit>>20)
	}
}

// writeLongAttempts writes so many bytes of JSON and says how many.
func writeLongAttempts(tb testing.TB, path string, size int64) (written int64) {
	tb.Helper()
	var perRow int64 // rows differ by some bytes
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	w, err := NewAttemptsWriter(f, AttemptsHeader{Client: "c0", Stamps: "kernel", Clock: sampleHeader().Clock})
	for i := 0; err == nil && written < size; i++ {
		a := longAttempt(i)
		if i == 0 {
			row, err := json.Marshal(a)
			if err != nil {
				tb.Fatal(err)
			}
			perRow = int64(len(row))
		}
		err = w.Write(a)
		written += perRow
	}
	if err := errors.Join(err, w.Close("completed"), f.Close()); err != nil {
		tb.Fatal(err)
	}
	return written
}

// sampled looks at the heap now and then while it is read.
type sampled struct {
	r      io.Reader
	n      int
	every  int
	sample func()
}

func (s *sampled) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if s.n += n; s.n >= s.every {
		s.n = 0
		s.sample()
	}
	return n, err
}

// longAttempt has 1,000 events and texts that do not compress to nothing.
func longAttempt(i int) *Attempt {
	a := sampleAttempt(i)
	const events = 1000
	x := uint64(i)*0x9e3779b97f4a7c15 + 1
	next := func() uint64 { x ^= x << 13; x ^= x >> 7; x ^= x << 17; return x }
	at := *a.T.FirstByte
	a.Arrivals, a.SeenEmpty, a.ClientDelay = nil, make([]*int64, events), nil
	for k := range events {
		d := int64(next()%20_000_000) + 1
		if k == 0 {
			a.Arrivals = append(a.Arrivals, at+d)
		} else {
			a.Arrivals = append(a.Arrivals, d)
		}
		at += d
		a.ClientDelay = append(a.ClientDelay, int64(next()%5000))
	}
	a.ArrivalKinds, a.Coalesced = strings.Repeat("c", events), strings.Repeat("0", events)
	a.T.FirstOutput, a.T.FirstContent, a.T.LastOutput, a.T.End = new(a.Arrivals[0]), new(a.Arrivals[0]), new(at), new(at+1)
	a.Text, a.TextTruncated = new(fmt.Sprintf("%x", next())), true
	return a
}

// The validator of this package and that of package schemas agree on every
// mutation of real documents; only number text (4.0 for 4) is stricter here.
func TestBothValidatorsAgree(t *testing.T) {
	row := strings.Split(string(plain(t, writeAttempts(t, sampleAttempt(0)))), "\n")[1]
	for id, sources := range map[string][][]byte{
		string(BenchmarkSchema):      {testdata(t, corpus+"/baseline-capacity-1.json"), testdata(t, corpus+"/v4-2-of-3-warm.json"), testdata(t, corpus+"/v3-ab-tuned-128k-r1.json"), testdata(t, corpus+"/v2-c32-no-rows.json"), testdata(t, corpus+"/pre-protocol-c128-a.json"), testdata(t, corpus+"/alien-same-schema.json")},
		string(ServingCellSchema):    {testdata(t, seeds+"/serving-cell-record.json")},
		string(LiveRunSchema):        {testdata(t, seeds+"/live-http-run.json")},
		string(DerivedSummarySchema): {testdata(t, seeds+"/derived-capacity-summary-v1.json")},
		string(AttemptsSchema):       {[]byte(row)},
	} {
		for _, src := range sources {
			agree(t, id, src)
		}
	}
}

func agree(t *testing.T, id string, src []byte) {
	t.Helper()
	doc, err := jsontree.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	mutants := [][]byte{src}
	for i, p := range scalars(doc, "") {
		if i%9 != 0 && id == string(BenchmarkSchema) {
			continue // the members repeat; a ninth of them hits every rule
		}
		for _, text := range append(others(p.v), `[]`, `{}`, `-123456789`) {
			mutants = append(mutants, splice(src, p.v, text))
		}
	}
	for name := range doc.Members() {
		mutants = append(mutants, bytes.Replace(src, []byte(`"`+name+`":`), []byte(`"x-`+name+`":`), 1))
	}
	quick, err := shape.Compile(schemaID(id))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		v, err := jsontree.Parse(m)
		if err != nil {
			t.Fatalf("%v: %s", err, m)
		}
		ours := quick.Check(v, "", 1000)
		theirs := validate(t, id, v)
		if quick.Accepts(v) != (len(ours) == 0) {
			t.Fatalf("%s: Accepts and Check differ on %s", id, m)
		}
		if (len(ours) == 0) != (len(theirs) == 0) {
			t.Fatalf("%s: ours %v, theirs %v\n%s", id, ours, theirs, m)
		}
	}
}
