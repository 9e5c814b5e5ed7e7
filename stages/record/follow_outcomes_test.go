package record

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reached is a request that began at 1 s and whose answer ended 900 ms later,
// with its first output after 100 ms and visible content after that many.
func reached(o Outcome, contentMS int64) *Attempt {
	const start = int64(1e9)
	a := &Attempt{
		Outcome: o, PlannedInputTokens: new(512), FinishReasons: []string{"stop"}, DoneMarker: true, ArrivalKinds: "rr",
		T: Stamps{
			Start: new(start), Sent: new(start + 1e6), Written: new(start + 2e6), Headers: new(start + 90e6), FirstByte: new(start + 90e6),
			FirstOutput: new(start + 100e6), LastOutput: new(start + 800e6), End: new(start + 900e6),
		},
		Usage: Usage{Input: new(int64(500)), Output: new(int64(40)), Source: "final"},
	}
	if contentMS > 0 {
		a.ArrivalKinds += "cc"
		a.T.FirstContent = new(start + contentMS*1e6)
	}
	return a
}

// broken is a request without an answer that reached its end.
func broken(o Outcome) *Attempt {
	a := reached(o, 200)
	a.FinishReasons, a.DoneMarker, a.Error = nil, false, &AttemptError{Class: "it", Message: "broke"}
	return a
}

// neverBegun is a request that the client kept back.
func neverBegun(o Outcome) *Attempt {
	return &Attempt{Outcome: o, PlannedInputTokens: new(512), Usage: Usage{Source: "none"}}
}

// A booking is what benchmark.json says of one request.
type booking struct {
	class, message string // "" where it has a row
	received       bool
	timing         bool // response_timing is there
	terminal       any  // stream_terminal_observed, nil without response_metadata
}

// cellOf is benchmark.json of one attempt, checked by the rules of the kind.
func cellOf(t *testing.T, a *Attempt) map[string]any {
	t.Helper()
	var f Following
	f.Add(a, true)
	src, err := BuildBenchmark(BenchmarkInput{
		Protocol: "capacity-v4-reasoning", StartedUnixNS: 1789665664_000000000, FinishUnixNS: 1789665668_000000000, WallClockMS: 4000,
		BaseURL: "http://127.0.0.1:9/v1", Model: "m", Concurrency: 1, ContextTokens: new(512), MaxTokens: 64, ControlledOutputPolicy: "strict",
		PromptCacheMode: "unique", ThinkingMode: "default", Rows: f.Rows, Failures: f.Failures,
		RequestCanaries: a.Canary != nil,
		ResponseWords:   wordsAsked(a),
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := CheckReader("cell", bytes.NewReader(src), Options{}); !r.OK {
		t.Errorf("%s", describe(r))
	}
	var doc map[string]any
	if err := json.Unmarshal(src, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func wordsAsked(a *Attempt) int {
	if a.ControlledOutput == nil {
		return 0
	}
	return a.ControlledOutput.RequestedWords
}

func booked(t *testing.T, doc map[string]any) booking {
	t.Helper()
	failures := doc["failures"].([]any)
	if len(failures) == 0 {
		if doc["completed"] != 1.0 || doc["responses_received"] != 1.0 {
			t.Errorf("completed %v, received %v of one row", doc["completed"], doc["responses_received"])
		}
		return booking{received: true}
	}
	f := failures[0].(map[string]any)
	b := booking{class: f["failure_class"].(string), message: f["error_message"].(string)}
	b.received, _ = f["response_received"].(bool)
	_, b.timing = f["response_timing"].(map[string]any)
	if meta, ok := f["response_metadata"].(map[string]any); ok {
		b.terminal = meta["stream_terminal_observed"]
	}
	if f["performance_eligible"] != false {
		t.Errorf("performance_eligible %v of a failure", f["performance_eligible"])
	}
	if got, want := doc["responses_received"], map[bool]float64{true: 1}[b.received]; got != want {
		t.Errorf("responses_received %v, want %v", got, want)
	}
	return b
}

// The table of streams.md 5, for every outcome, as benchmark.json says it.
func TestBenchmarkBooksEachOutcomeByTheTable(t *testing.T) {
	const stream = "stream_validation_failed"
	withoutEndMark := func(a *Attempt) *Attempt { a.DoneMarker = false; return a }
	canary := reached(OutcomeCanaryFailed, 200)
	canary.Canary = &Canary{Marker: "ANVIL_REQ_0_00000", CaptureComplete: true}
	words := reached(OutcomeLengthMismatch, 200)
	words.ControlledOutput = &ControlledOutput{Policy: "strict", RequestedWords: 8, ObservedCodeWords: 7, CaptureComplete: true, ExactAdherence: new(false)}
	rows := []struct {
		name    string
		attempt *Attempt
		want    booking
	}{
		{"ok", reached(OutcomeOK, 200), booking{received: true}},
		{"truncated", reached(OutcomeTruncated, 200), booking{received: true}},
		{"ok without visible content", reached(OutcomeOK, 0), booking{stream, noContent, true, true, true}},
		{"truncated without visible content", reached(OutcomeTruncated, 0), booking{stream, noContent, true, true, true}},
		{"truncated, no end mark", withoutEndMark(reached(OutcomeTruncated, 0)), booking{stream, noContent, true, true, false}},
		{"empty", reached(OutcomeEmpty, 0), booking{stream, noContent, true, true, true}},
		{"in_band_error", broken(OutcomeInBandError), booking{stream, "broke", false, false, nil}},
		{"malformed", broken(OutcomeMalformed), booking{stream, "broke", false, false, nil}},
		{"cut", broken(OutcomeCut), booking{stream, "broke", false, false, nil}},
		{"http_error", broken(OutcomeHTTPError), booking{"request_error", "broke", false, false, nil}},
		{"refused_load", broken(OutcomeRefusedLoad), booking{"request_error", "broke", false, false, nil}},
		{"transport", broken(OutcomeTransport), booking{"request_error", "broke", false, false, nil}},
		{"stalled_first", broken(OutcomeStalledFirst), booking{"request_error", "broke", false, false, nil}},
		{"stalled_mid", broken(OutcomeStalledMid), booking{"request_error", "broke", false, false, nil}},
		{"total_timeout", broken(OutcomeTotalTimeout), booking{"request_error", "broke", false, false, nil}},
		{"canary_failed", canary, booking{"request_canary_failed", "", true, true, true}},
		{"length_mismatch", words, booking{"controlled_output_failed", "", true, true, true}},
		{"client_shed", neverBegun(OutcomeClientShed), booking{"runner_error", "", false, false, nil}},
		{"client_abort", broken(OutcomeClientAbort), booking{"runner_error", "broke", false, false, nil}},
		{"not_started", neverBegun(OutcomeNotStarted), booking{"runner_error", "", false, false, nil}},
	}
	shown := map[Outcome]bool{}
	for _, row := range rows {
		shown[row.attempt.Outcome] = true
		t.Run(row.name, func(t *testing.T) {
			got := booked(t, cellOf(t, row.attempt))
			if got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
	for _, o := range Outcomes() {
		if !shown[o] {
			t.Errorf("no row shows %s", o)
		}
	}
}

// A server that says [DONE] after an error, or where an answer broke, has not
// answered for that.
func TestAnEndMarkAloneIsNoResponseReceived(t *testing.T) {
	for _, o := range []Outcome{OutcomeInBandError, OutcomeMalformed, OutcomeCut} {
		a := broken(o)
		a.DoneMarker = true
		if got, want := booked(t, cellOf(t, a)), (booking{class: "stream_validation_failed", message: "broke"}); got != want {
			t.Errorf("%s after [DONE]: got %+v, want %+v", o, got, want)
		}
	}
}

// inference-perf 559: TTFT null or inflated for thinking models. Reasoning alone
// has a first output and no TTFT, never the end of the answer in its place;
// reasoning before text has both.
func TestInferencePerf559ReasoningAloneHasNoTTFT(t *testing.T) {
	alone := cellOf(t, reached(OutcomeTruncated, 0))
	timing := alone["failures"].([]any)[0].(map[string]any)["response_timing"].(map[string]any)
	text := cellOf(t, reached(OutcomeOK, 600))
	row := text["request_timings"].([]any)[0].(map[string]any)
	for name, c := range map[string]struct {
		got  map[string]any
		ttft any
	}{"reasoning alone": {timing, nil}, "reasoning, then text": {row, 600.0}} {
		want := map[string]any{"time_to_first_output_ms": 100.0, "ttft_ms": c.ttft, "e2e_ms": 900.0}
		got := map[string]any{}
		for key := range want {
			value, there := c.got[key]
			if !there {
				t.Errorf("%s: %s is missing", name, key)
			}
			got[key] = value
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if m := alone["metrics"].(map[string]any); m["ttft_samples"] != 0.0 || m["ttft_p50_ms"] != nil {
		t.Errorf("ttft of no answer: %v samples, p50 %v", m["ttft_samples"], m["ttft_p50_ms"])
	}
}

// An open loop books the same answer with an error and no TTFT.
func TestLiveRunGivesNoTTFTWithoutVisibleContent(t *testing.T) {
	var f Following
	f.Add(reached(OutcomeTruncated, 0), false)
	f.Add(neverBegun(OutcomeClientShed), false)
	got := f.Requests()
	if len(got) != 1 || got[0].Error != noContent || got[0].TTFTMS != 0 || got[0].E2EMS != 900 || f.Shed != 1 {
		t.Errorf("requests %+v, shed %d", got, f.Shed)
	}
	if slices.ContainsFunc(got, func(r LiveRequest) bool { return len(r.EventGapsMS) > 0 }) {
		t.Errorf("gaps of nothing visible: %+v", got)
	}
}
