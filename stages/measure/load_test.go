package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/internal/kindtest"
	"anvil/stages/internal/load"
	"anvil/stages/internal/prompt"
	"anvil/stages/internal/target"
	"anvil/stages/record"
)

// An open loop without a cap of its own has as many streams open as the server
// makes it: each needs its place in the capture.
func TestAnOpenLoopWithoutACapOpensAllItOwes(t *testing.T) {
	const n = 300
	var all sync.WaitGroup
	all.Add(n)
	h := serveRaw(t, func(c net.Conn, _ int) {
		_, _ = io.WriteString(c, sse+chunks(delta("a")))
		all.Done()
		all.Wait() // every stream is open, and has begun, before one ends
		_, _ = io.WriteString(c, chunks(delta("b"), finish("stop"), done)+last)
	})
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{
		"load": map[string]any{"mode": "open", "arrival": "burst", "size": n, "rate": 1000, "requests": n}, "max_tokens": 8,
		"limits":   map[string]any{"total": "20s"},
		"workload": map[string]any{"source": "synthetic", "context_tokens": 16},
	})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 40*time.Second, stage.ErrAborted)
	defer cancel()
	p, err := b.run(ctx)
	if err != nil || p.measurement.Accounting.Outcomes[record.OutcomeOK] != n {
		t.Fatalf("error %v, outcomes %v", err, p.measurement.Accounting.Outcomes)
	}
}

// dataset is a bench whose prompts are so many rows of a file.
func dataset(t *testing.T, url string, rows int, load map[string]any) *bench {
	t.Helper()
	var file strings.Builder
	for i := range rows {
		fmt.Fprintf(&file, "{\"id\":\"r%d\",\"prompt\":\"x\"}\n", i)
	}
	b := newBench(t, map[string]any{"base_url": url, "sim": nil, "metrics": "off"}, map[string]any{
		"load": load, "max_tokens": 8, "workload": map[string]any{"source": "dataset", "file": "d.jsonl"},
	})
	if err := os.WriteFile(b.Env.PlanDir+"/d.jsonl", []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Files["/workload/file"] = kindtest.Artifact(prompt.RowSchema, "d.jsonl", []byte(file.String()))
	return b
}

// Rows that are used up end a phase that time should have ended, and are what was
// planned; no row goes out twice.
func TestADatasetIsNotSentTwice(t *testing.T) {
	const rows = 5
	for by, load := range map[string]map[string]any{
		"dataset":  {"mode": "closed", "concurrency": 2, "duration": "1h"},
		"duration": {"mode": "open", "arrival": "constant", "rate": 500, "duration": "10ms"},
		"requests": {"mode": "open", "arrival": "constant", "rate": 500, "requests": rows},
	} {
		t.Run(by, func(t *testing.T) {
			h := serveRaw(t, func(c net.Conn, _ int) {
				_, _ = io.WriteString(c, sse+chunks(delta("a"), finish("stop"), done)+last)
			})
			p, err := dataset(t, h.url, rows, load).run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var items []string
			for _, a := range p.attempts {
				items = append(items, *a.Item)
				if a.PlannedInputTokens == nil { // benchmark.json follows from the attempts
					t.Errorf("request %d has no size", a.Index)
				}
			}
			slices.Sort(items)
			if want := []string{"r0", "r1", "r2", "r3", "r4"}; !slices.Equal(items, want) || h.requests.Load() != rows {
				t.Errorf("items %v, %d requests", items, h.requests.Load())
			}
			if a := p.measurement.Accounting; a.Planned != rows || a.Outcomes[record.OutcomeOK] != rows {
				t.Errorf("accounting %+v", a)
			}
			if got := p.measurement.Phase.EndedBy; got != by {
				t.Errorf("ended by %s, want %s", got, by)
			}
		})
	}
}

// A count is another matter: more than there are is a problem of the plan, and
// an error before the phase where the file was changed since.
func TestMoreRequestsThanRowsAreRefused(t *testing.T) {
	for requests, want := range map[int]int{5: 0, 6: 1} {
		_, problems := dataset(t, "http://127.0.0.1:9/v1", 5, closed(1, requests)).Resolve()
		if len(problems) != want || want > 0 && (problems[0].Pointer != "/load/requests" || !strings.Contains(problems[0].Hint, "raise workload.epochs")) {
			t.Errorf("%d requests: problems %+v", requests, problems)
		}
	}
	twice := dataset(t, "http://127.0.0.1:9/v1", 5, closed(1, 10))
	twice.With["workload"].(map[string]any)["epochs"] = 2
	if _, problems := twice.Resolve(); len(problems) > 0 {
		t.Errorf("two epochs: problems %+v", problems)
	}
	for name, tc := range map[string]struct {
		load map[string]any
		at   string
	}{
		"constant": {map[string]any{"mode": "open", "arrival": "constant", "rate": 10, "duration": "1s"}, "/load/duration"},
		"poisson":  {map[string]any{"mode": "open", "arrival": "poisson", "rate": 100, "duration": "1s"}, "/load/duration"},
		"ramp":     {map[string]any{"mode": "open", "arrival": "ramp", "rate_from": 0, "rate_to": 20, "duration": "1s"}, "/load/duration"},
		"steps":    {map[string]any{"mode": "open", "arrival": "step", "steps": []any{map[string]any{"rate": 20, "duration": "300ms"}}, "duration": "1s"}, "/load/duration"},
		"short":    {map[string]any{"mode": "open", "arrival": "step", "steps": []any{map[string]any{"rate": 10, "duration": "300ms"}}, "requests": 4}, "/load/requests"},
		"enough":   {map[string]any{"mode": "open", "arrival": "step", "steps": []any{map[string]any{"rate": 10, "duration": "300ms"}}, "duration": "1s"}, ""},
	} {
		_, problems := dataset(t, "http://127.0.0.1:9/v1", 5, tc.load).Resolve()
		if (tc.at == "") != (len(problems) == 0) || tc.at != "" && problems[0].Pointer != tc.at {
			t.Errorf("%s: problems %+v", name, problems)
		}
	}
	changed := dataset(t, "http://127.0.0.1:9/v1", 5, closed(1, 5))
	changed.Files["/workload/file"] = kindtest.Artifact(prompt.RowSchema, "d.jsonl", []byte(`{"id":"r0","prompt":"q"}`))
	if _, err := changed.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the dataset has 1 rows") {
		t.Errorf("error %v", err)
	}
}

// The tries that a plan asks for come when they come: the send lag is that of the
// first one.
func TestARetryIsNoSendLag(t *testing.T) {
	h := serveRaw(t, func(c net.Conn, n int) {
		if n%2 == 0 {
			_, _ = io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, sse+chunks(delta("a"), finish("stop"), done)+last)
	})
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{"load": closed(1, 3), "max_tokens": 8, "request_retries": 2})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var most int64
	for _, a := range p.attempts {
		if len(a.Tries) != 2 {
			t.Fatalf("attempt %d: %d tries", a.Index, len(a.Tries))
		}
		most = max(most, *a.Tries[0].T.Start-*a.T.Due)
	}
	raw, err := json.Marshal(p.measurement.Client.SendLag)
	if err != nil {
		t.Fatal(err)
	}
	var lag struct {
		Max float64 `json:"max_us"`
	}
	if err := json.Unmarshal(raw, &lag); err != nil || lag.Max != float64(most)/1e3 {
		t.Errorf("send lag %s, the latest first try was %d ns late (%v)", raw, most, err)
	}
	if text := p.Limits["requests.retried"]; !strings.HasPrefix(text, "3 of 3 requests") {
		t.Errorf("nobody who reads the record would know of the retries: %q", text)
	}
}

// A server that answers with the key where HTTP stands: neither the error nor the
// capture spells a part of it.
func TestAKeyInABrokenHeadIsHidden(t *testing.T) {
	long := secretKey + strings.Repeat("-0123456789abcdef", 4)
	for name, answer := range map[string]string{
		"begins": long + " is no key\r\n\r\n", "status": "HTTP/1.1 Bearer " + long + "\r\n\r\n",
		"length": "HTTP/1.1 200 OK\r\nContent-Length: " + long + "\r\n\r\n",
		"chunk":  sse + long + "\r\n",
	} {
		h := serveRaw(t, func(c net.Conn, _ int) { _, _ = io.WriteString(c, answer); _ = c.Close() })
		b := newBench(t, map[string]any{"base_url": h.url, "sim": nil, "api_key_env": "KEY"}, map[string]any{"load": closed(1, 1), "max_tokens": 8})
		b.Env.Secrets = &stage.Secrets{Env: func(string) (string, bool) { return long, true }}
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for what, raw := range map[string][]byte{"attempt": p.Streams[attemptsName], "error": []byte(p.attempts[0].Error.Message), "capture": b.capture()} {
			if part, ok := holdsPart(raw); ok || bytes.Contains(raw, []byte("0123456789abcdef")) {
				t.Errorf("%s: the %s holds %q", name, what, part)
			}
		}
		if p.attempts[0].Error.Class != "protocol" {
			t.Errorf("%s: %+v", name, p.attempts[0].Error)
		}
	}
}

// What was not observed is null, not 0: no event, no answer.
func TestAPhaseWithoutAnswersKnowsNothingOfThem(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String() + "/v1"
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, http2 := range []bool{false, true} {
		b := newBench(t, map[string]any{"base_url": url, "sim": nil, "http2": http2}, map[string]any{"load": closed(1, 1), "max_tokens": 8})
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if p.measurement.Client.CoalescedShare != nil || p.measurement.Connections.Protocol != "" {
			t.Errorf("HTTP/2 %v: share %v, protocol %q", http2, p.measurement.Client.CoalescedShare, p.measurement.Connections.Protocol)
		}
	}
}

// The remark on a phase is what makes a killed one readable: counters beyond
// measure must not cost it.
func TestARemarkFitsIntoItsFrame(t *testing.T) {
	many := target.Counters{}
	for i := range 40_000 {
		many[fmt.Sprintf("a_counter_with_a_rather_long_name_%05d_total", i)] = 1
	}
	for n, before := range map[int]target.Counters{1: {"x_total": 1}, 0: many} {
		raw := phase{from: time.Unix(0, 7), before: before}.remark()
		var r remark
		if err := json.Unmarshal(raw, &r); err != nil || len(raw) > load.MaxNote || r.StartedAtUnixNS != 7 || len(r.Before) != n {
			t.Errorf("remark of %d bytes with %d counters, %v", len(raw), len(r.Before), err)
		}
	}
}
