//go:build llamaserver

package main

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"anvil/stages/record"
)

const (
	endlessPlanned = 24
	endlessOpen    = 8 // the plan's concurrency
	endlessSlots   = 4 // the server's: half of what is open waits
)

// startEndless starts a server whose streams end only when they are ended.
func startEndless(t *testing.T) *llama {
	t.Helper()
	return startLlama(t, "tiny-script.gguf", endlessSlots, "--context-shift", "--threads-http", "16")
}

func runEndless(s *llama, ws string, set ...string) *running {
	args := []string{"--workspace", ws, "plan", "run", "../../testdata/llama-server/endless.yaml", "--set", "base_url=" + s.base("openai-chat")}
	for _, v := range set {
		args = append(args, "--set", v)
	}
	return begin(args...)
}

// midStream waits until every slot streams and as many requests wait for one.
func (s *llama) midStream(t *testing.T) {
	t.Helper()
	from := -1.0
	s.until(t, "streaming", func() bool {
		c := s.counters(t)
		if c["llamacpp:requests_processing"] != endlessSlots || c["llamacpp:requests_deferred"] != endlessOpen-endlessSlots {
			return false
		}
		steps := c["llamacpp:n_decode_total"]
		if from < 0 {
			from = steps
		}
		return steps > from+100
	})
}

func (s *llama) idle(t *testing.T) {
	t.Helper()
	s.until(t, "idle", func() bool {
		c := s.counters(t)
		return c["llamacpp:requests_processing"] == 0 && c["llamacpp:requests_deferred"] == 0
	})
}

// wantBroken holds that every planned request is there, that its outcome is one
// of those that fit, by whether it had output, and that nothing of a broken
// stream is taken for a count.
func wantBroken(t *testing.T, ws string, withOutput, without []record.Outcome) map[record.Outcome]int {
	t.Helper()
	rows, outcomes := attempts(t, ws, "measure"), map[record.Outcome]int{}
	if len(rows) != endlessPlanned {
		t.Errorf("%d attempts, want %d", len(rows), endlessPlanned)
	}
	for _, a := range rows {
		outcomes[a.Outcome]++
		want := without
		if len(a.Arrivals) > 0 {
			want = withOutput
		}
		if !slices.Contains(want, a.Outcome) {
			t.Errorf("request %d with %d outputs: %s (%+v), want one of %v", a.Index, len(a.Arrivals), a.Outcome, a.Error, want)
		}
		if a.Usage.Output != nil || a.Usage.Reason == nil || len(a.FinishReasons) != 0 || a.DoneMarker {
			t.Errorf("request %d: usage %+v, finish reasons %v, end mark %v of a stream that broke", a.Index, a.Usage, a.FinishReasons, a.DoneMarker)
		}
		if a.Error == nil && a.Outcome != record.OutcomeNotStarted {
			t.Errorf("request %d: %s without an error", a.Index, a.Outcome)
		}
	}
	m := document[record.Measurement](t, ws, "measure/measurement.json")
	sum := 0
	for o, n := range m.Accounting.Outcomes {
		sum += n
		if n != outcomes[o] {
			t.Errorf("%d requests are %s in the accounting, %d in the attempts", n, o, outcomes[o])
		}
	}
	if sum != endlessPlanned || m.Accounting.Planned != endlessPlanned {
		t.Errorf("outcomes of %d requests, planned %d, want %d", sum, m.Accounting.Planned, endlessPlanned)
	}
	return outcomes
}

func outcomes(of ...record.Outcome) []record.Outcome { return of }

func TestLlamaServerStreamsAreAbandonedAsPlanned(t *testing.T) {
	server, ws := startEndless(t), t.TempDir()
	runEndless(server, ws, "cancel=1").end(t, exitOK)
	server.idle(t)
	abandoned := outcomes(record.OutcomeClientAbort)
	if got := wantBroken(t, ws, abandoned, nil); got[record.OutcomeClientAbort] != endlessPlanned {
		t.Errorf("%v, want all abandoned", got)
	}
	wantVerified(t, ws)
	// Nothing of them is left: the next measurement is as exact as the first.
	ws = t.TempDir()
	anvil(t, exitOK, "--workspace", ws, "plan", "run", "../../testdata/llama-server/plan.yaml", "--set", "base_url="+server.base("openai-chat"))
	for _, a := range attempts(t, ws, "measure") {
		wantScripted(t, &a, scriptedText, scriptedTokens)
	}
}

func TestLlamaServerStreamsAreGivenUpOnAnInterrupt(t *testing.T) {
	server, ws := startEndless(t), t.TempDir()
	r := runEndless(server, ws)
	server.midStream(t)
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	r.end(t, exitInterrupted)
	server.idle(t)
	got := wantBroken(t, ws, outcomes(record.OutcomeClientAbort), outcomes(record.OutcomeClientAbort, record.OutcomeNotStarted))
	if got[record.OutcomeClientAbort] != endlessOpen || got[record.OutcomeNotStarted] != endlessPlanned-endlessOpen {
		t.Errorf("%v, want %d given up and the rest not started", got, endlessOpen)
	}
}

func TestLlamaServerKilledInMidStream(t *testing.T) {
	server, ws := startEndless(t), t.TempDir()
	r := runEndless(server, ws)
	server.midStream(t)
	if err := server.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.end(t, exitOK)
	got := wantBroken(t, ws, outcomes(record.OutcomeCut, record.OutcomeTransport), outcomes(record.OutcomeTransport))
	if got[record.OutcomeCut] != endlessSlots {
		t.Errorf("%v, want the %d streams cut", got, endlessSlots)
	}
	wantVerified(t, ws)
}

// Told to stop, the server lets some streams go and leaves others, and what
// waits for a slot, open without a byte: only the client's own limits end those.
func TestLlamaServerTerminatedInMidStream(t *testing.T) {
	server, ws := startEndless(t), t.TempDir()
	r := runEndless(server, ws, "limit=4s")
	server.midStream(t)
	if err := server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.end(t, exitOK)
	got := wantBroken(t, ws, outcomes(record.OutcomeCut, record.OutcomeStalledMid), outcomes(record.OutcomeTransport, record.OutcomeStalledFirst))
	if got[record.OutcomeCut]+got[record.OutcomeStalledMid] != endlessSlots {
		t.Errorf("%v, want the %d streams cut or stalled", got, endlessSlots)
	}
	wantVerified(t, ws)
	select {
	case <-server.exited:
	case <-time.After(30 * time.Second):
		t.Error("the server is still there though every client has gone")
	}
}
