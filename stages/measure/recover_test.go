package measure

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"anvil/stages/record"
)

// recovered is what a later process makes of a capture that was cut off at
// size; -1 leaves it whole.
func recovered(t *testing.T, b *bench, size int64) published {
	t.Helper()
	raw, err := b.Env.Folder.ReadFile("capture")
	if err != nil {
		t.Fatal(err)
	}
	if size >= 0 {
		raw = raw[:min(size, int64(len(raw)))]
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "capture"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	later := newBench(t, nil, b.With)
	later.With, later.Inputs, later.Files = b.With, b.Inputs, b.Files
	if later.Env.Folder, err = os.OpenRoot(dir); err != nil {
		t.Fatal(err)
	}
	defer later.Env.Folder.Close()
	out, err := later.Recover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return later.read(out)
}

// A process that was killed after the last byte loses nothing: its attempts are
// those that it would have written itself.
func TestTheCaptureHoldsEverythingThatAttemptsSay(t *testing.T) {
	for name, with := range map[string]map[string]any{
		"closed": {"load": closed(3, 7), "max_tokens": 12, "workload": map[string]any{"source": "synthetic", "context_tokens": 32, "canaries": true}},
		"open": {
			"load":       map[string]any{"mode": "open", "arrival": "poisson", "rate": 100, "requests": 9, "max_in_flight": 1, "shed": true},
			"max_tokens": 30, "workload": map[string]any{"source": "synthetic", "context_tokens": 32},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil, with)
			live, err := b.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			later := recovered(t, b, -1)
			for i := range live.attempts {
				live.attempts[i].EngineTokens = nil // no server is asked later
			}
			if diff := cmp.Diff(live.attempts, later.attempts, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("attempts differ (-live +recovered):\n%s", diff)
			}
			if diff := cmp.Diff(live.Documents[scheduleName], later.Documents[scheduleName]); diff != "" && name == "open" {
				// Their limitation sets differ, nothing else.
				if !cmp.Equal(live.schedule, later.schedule) {
					t.Errorf("schedules differ: %s", diff)
				}
			}
			m := later.measurement
			if m.Phase.Status != "aborted" || later.footer.Status != "aborted" || m.Client.Verdict == "ok" || m.Client.CPU != nil || m.Client.GC != nil {
				t.Errorf("phase %+v, client %+v", m.Phase, m.Client)
			}
			if m.Phase.StartedAtUnixNS != live.measurement.Phase.StartedAtUnixNS {
				t.Errorf("started at %d, want %d", m.Phase.StartedAtUnixNS, live.measurement.Phase.StartedAtUnixNS)
			}
			want := live.measurement.Connections
			want.Opened = m.Connections.Opened // those that nobody used cannot be seen
			want.LocalPorts = nil              // nor how many ports there were
			if diff := cmp.Diff(want, m.Connections); diff != "" {
				t.Errorf("connections (-live +recovered):\n%s", diff)
			}
		})
	}
}

// Wherever the file ends, the outcomes add up to the plan and what is whole is kept.
func TestACaptureThatEndsAnywhereAddsUp(t *testing.T) {
	b := newBench(t, nil, map[string]any{"load": closed(2, 6), "max_tokens": 8, "workload": map[string]any{"source": "synthetic", "context_tokens": 32}})
	live, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	info, err := b.Env.Folder.Stat("capture")
	if err != nil {
		t.Fatal(err)
	}
	first := int64(1024) // after the remark on the phase
	for size, n := first, 0; size < info.Size(); size += (info.Size() - first) / 12 {
		p := recovered(t, b, size)
		ok := p.measurement.Accounting.Outcomes[record.OutcomeTruncated] + p.measurement.Accounting.Outcomes[record.OutcomeOK]
		if ok < n {
			t.Errorf("at %d bytes %d requests had ended, at fewer %d", size, ok, n)
		}
		n = ok
		for _, a := range p.attempts {
			was := live.attempts[indexOf(live.attempts, a.Index)]
			if a.Outcome.Success() && *a.Text != *was.Text {
				t.Errorf("at %d bytes request %d says %q, it said %q", size, a.Index, *a.Text, *was.Text)
			}
		}
	}
}

func indexOf(as []record.Attempt, index int) int {
	for i, a := range as {
		if a.Index == index {
			return i
		}
	}
	return -1
}

// A request that the kill met in mid-answer keeps what had come.
func TestARequestInMidAnswerIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	h := serveRaw(t, func(c net.Conn, n int) {
		_, _ = io.WriteString(c, sse+chunks(delta("so "), delta("far")))
		if n == 1 {
			<-release
		}
		_, _ = io.WriteString(c, chunks(finish("stop"), done)+last)
	})
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{"load": closed(1, 4), "drain": "1s"})
	over := make(chan published)
	go func() {
		p, _ := b.run(t.Context())
		over <- p
	}()
	var p published
	answering := func(a record.Attempt) bool { return a.Outcome == record.OutcomeClientAbort && a.T.FirstOutput != nil }
	for !slices.ContainsFunc(p.attempts, answering) {
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
		if raw, err := b.Env.Folder.ReadFile("capture"); err == nil && len(raw) > 1024 {
			p = recovered(t, b, -1)
		}
	}
	close(release)
	<-over
	got := p.measurement.Accounting.Outcomes
	if got[record.OutcomeOK] != 1 || got[record.OutcomeNotStarted] != 2 {
		t.Errorf("outcomes %v", got)
	}
	for _, a := range p.attempts {
		if a.Outcome == record.OutcomeClientAbort && (!strings.Contains(a.Error.Message, "killed") || *a.Text != "so far" || a.T.End == nil || a.T.Sent == nil) {
			t.Errorf("attempt %d: %+v %+v", a.Index, a.Error, a.T)
		}
	}
}
