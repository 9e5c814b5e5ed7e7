package measure

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"anvil/stages/record"
)

// hostile serves raw bytes on a loopback socket: answer is called for each
// request with the connection, once the request has been read whole.
type hostile struct {
	url      string
	accepted atomic.Int64
	requests atomic.Int64
}

func serveRaw(t *testing.T, answer func(conn net.Conn, n int)) *hostile {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{url: "http://" + l.Addr().String() + "/v1"}
	over := make(chan struct{})
	t.Cleanup(func() { close(over); _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h.accepted.Add(1)
			go func() { <-over; _ = conn.Close() }()
			go h.serve(conn, answer)
		}
	}()
	return h
}

func (h *hostile) serve(conn net.Conn, answer func(net.Conn, int)) {
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		if req.Method == http.MethodGet || req.URL.Path == "/tokenize" { // the server's counters are asked for, or its tokenizer
			_, _ = io.WriteString(conn, "HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		answer(conn, int(h.requests.Add(1))-1)
	}
}

func chunks(texts ...string) string {
	var b strings.Builder
	for _, s := range texts {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(s), s)
	}
	return b.String()
}

func delta(text string) string {
	return fmt.Sprintf("data: {\"id\":\"1\",\"model\":\"anvil-sim\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", text)
}

func finish(reason string) string {
	return fmt.Sprintf("data: {\"id\":\"1\",\"model\":\"anvil-sim\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\n", reason)
}

const (
	sse  = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	done = "data: [DONE]\n\n"
	last = "0\r\n\r\n"
)

// reset closes a connection so that the other side gets a RST.
func reset(conn net.Conn) {
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = conn.Close()
}

// TestEveryOutcome has a hostile server for each class of streams.md 5 that a
// closed loop can meet, over real sockets.
func TestEveryOutcome(t *testing.T) {
	say := func(s string) func(net.Conn, int) {
		return func(c net.Conn, _ int) { _, _ = io.WriteString(c, s) }
	}
	then := func(s string, end func(net.Conn)) func(net.Conn, int) {
		return func(c net.Conn, _ int) { _, _ = io.WriteString(c, s); end(c) }
	}
	status := func(line string, headers ...string) string {
		return "HTTP/1.1 " + line + "\r\n" + strings.Join(append(headers, "Content-Type: application/json", "Content-Length: 27"), "\r\n") +
			"\r\n\r\n" + `{"error":{"message":"no!"}}`
	}
	shut := func(c net.Conn) { _ = c.Close() }
	head := func(lines ...string) func(net.Conn, int) {
		return then("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"+strings.Join(lines, "\r\n")+"\r\n\r\nabcde", shut)
	}
	stay := func(net.Conn) {}
	cases := []struct {
		name   string
		answer func(net.Conn, int)
		want   record.Outcome
	}{
		{"ok", say(sse + chunks(delta("a"), delta("b"), finish("stop"), done) + last), record.OutcomeOK},
		{"finish without DONE", say(sse + chunks(delta("a"), finish("stop")) + last), record.OutcomeOK},
		{"server that keeps the connection after DONE", then(sse+chunks(delta("a"), finish("stop"), done), stay), record.OutcomeOK},
		{"201", say(strings.Replace(sse, "200 OK", "201 Created", 1) + chunks(delta("a"), finish("stop"), done) + last), record.OutcomeOK},
		{"length", say(sse + chunks(delta("a"), finish("length"), done) + last), record.OutcomeTruncated},
		{"empty", say(sse + chunks(finish("stop"), done) + last), record.OutcomeEmpty},
		{"429", say(status("429 Too Many", "Retry-After: 7")), record.OutcomeRefusedLoad},
		{"503", say(status("503 Busy")), record.OutcomeRefusedLoad},
		{"529", say(status("529 Overloaded")), record.OutcomeRefusedLoad},
		{"400", say(status("400 Bad")), record.OutcomeHTTPError},
		{"redirect", say("HTTP/1.1 307 Away\r\nLocation: http://elsewhere.invalid/v1\r\nContent-Length: 0\r\n\r\n"), record.OutcomeHTTPError},
		{"error in band", say(sse + chunks(delta("a"), "data: {\"error\":{\"message\":\"killed\"}}\n\n", done) + last), record.OutcomeInBandError},
		{"error as a text", say(sse + chunks("data: {\"error\":\"killed\"}\n\n", done) + last), record.OutcomeInBandError},
		{"finish reason error", say(sse + chunks(delta("a"), finish("error"), done) + last), record.OutcomeInBandError},
		{"HTML", say("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>"), record.OutcomeMalformed},
		{"one JSON body", say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"), record.OutcomeMalformed},
		{"204", say("HTTP/1.1 204 None\r\n\r\n"), record.OutcomeMalformed},
		{"broken JSON", say(sse + chunks(delta("a"), "data: {\"choices\":[{\"del\n\n", delta("b"), finish("stop"), done) + last), record.OutcomeMalformed},
		{"event too large", say(sse + chunks(delta(strings.Repeat("x", 70_000)))), record.OutcomeMalformed},
		{"body too large", say(sse + chunks(strings.Repeat(delta(strings.Repeat("x", 30_000)), 20))), record.OutcomeMalformed},
		{"DONE before a finish reason", say(sse + chunks(delta("a"), done) + last), record.OutcomeCut},
		{"closed in mid-stream", then(sse+chunks(delta("a")), shut), record.OutcomeCut},
		{"closed inside a chunk", then(sse+"40\r\ndata: {", shut), record.OutcomeCut},
		{"reset in mid-stream", func(c net.Conn, _ int) {
			_, _ = io.WriteString(c, sse+chunks(delta("a")))
			time.AfterFunc(50*time.Millisecond, func() { reset(c) }) // so that the bytes before it can be read
		}, record.OutcomeTransport},
		{"closed without an answer", then("", shut), record.OutcomeTransport},
		{"another protocol", say("220 mail.example ESMTP\r\n"), record.OutcomeTransport},
		{"two lengths", head("Content-Length: 5", "Content-Length: 9"), record.OutcomeTransport},
		{"a length that is none", head("Content-Length: 5x"), record.OutcomeTransport},
		{"a length with a sign", head("Content-Length: +5"), record.OutcomeTransport},
		{"a negative length", head("Content-Length: -5"), record.OutcomeTransport},
		{"an unknown transfer coding", head("Transfer-Encoding: gzip, chunked"), record.OutcomeTransport},
		{"an event that ends in its JSON", say(sse + chunks(delta("a"), "data: {\"choi") + last), record.OutcomeMalformed},
		{"closed in an event without a length", then("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+delta("a")+"data: {\"choi", shut), record.OutcomeCut},
		{"silence", then("", stay), record.OutcomeStalledFirst},
		{"silence after the role", then(sse+chunks("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n", ": ping\n\n"), stay), record.OutcomeStalledFirst},
		{"silence in mid-stream", then(sse+chunks(delta("a")), stay), record.OutcomeStalledMid},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := serveRaw(t, tc.answer)
			b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{
				"load": closed(1, 2), "max_tokens": 8, "workload": map[string]any{"source": "synthetic", "context_tokens": 16},
				"limits": map[string]any{"connect": "2s", "first_output": "300ms", "gap": "300ms", "total": "5s", "max_event": "64KiB", "max_body": "256KiB"},
			})
			p, err := b.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range p.attempts {
				if a.Outcome != tc.want {
					t.Errorf("outcome %s (error %+v, notes %v), want %s", a.Outcome, a.Error, a.Notes, tc.want)
				}
				if !a.Outcome.Success() && a.Outcome != record.OutcomeEmpty && a.Error == nil {
					t.Errorf("a failure without an error")
				}
				if a.Outcome == record.OutcomeTransport && a.HTTPStatus != nil && *a.HTTPStatus == 200 && a.T.FirstByte == nil && a.Error.Class != "protocol" {
					t.Errorf("error %+v, want the fault of the protocol", a.Error)
				}
				if a.T.End == nil || a.T.Start == nil {
					t.Errorf("stamps %+v", a.T)
				}
			}
		})
	}
}

func TestTotalTimeoutEndsAnEndlessStream(t *testing.T) {
	h := serveRaw(t, func(c net.Conn, _ int) {
		_, _ = io.WriteString(c, sse)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(c, chunks(delta("a"))); err != nil {
				return
			}
		}
	})
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{
		"load": closed(1, 1), "limits": map[string]any{"gap": "1s", "total": "400ms"},
	})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := p.attempts[0]
	if a.Outcome != record.OutcomeTotalTimeout || a.T.FirstOutput == nil || *a.T.End < int64(400*time.Millisecond) {
		t.Errorf("outcome %s, stamps %+v", a.Outcome, a.T)
	}
}

// A connection that the server closed while it was idle is replaced: that is no
// failure and no try, and the new connection's set-up shows.
func TestClosedIdleConnectionIsReplaced(t *testing.T) {
	h := serveRaw(t, func(c net.Conn, n int) {
		_, _ = io.WriteString(c, sse+chunks(delta("a"), finish("stop"), done)+last)
		if n == 0 {
			_ = c.Close()
		}
	})
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{
		"load": map[string]any{"mode": "open", "arrival": "constant", "rate": 4, "requests": 2, "max_in_flight": 1},
	})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := p.attempts[1]
	if a.Outcome != record.OutcomeOK || a.T.Connected == nil || !slices.Contains(a.Notes, "reconnected") || len(a.Tries) != 0 {
		t.Errorf("second request: outcome %s, connected %v, notes %v, tries %v, error %+v", a.Outcome, a.T.Connected, a.Notes, a.Tries, a.Error)
	}
	if c := p.measurement.Connections; c.Replaced != 1 || c.Opened != 2 {
		t.Errorf("connections %+v, want 1 of 2 replaced", c)
	}
	if p.attempts[0].T.Connected != nil {
		t.Errorf("the first request opened a connection of its own although one was warm")
	}
}

func TestConnectionModes(t *testing.T) {
	for mode, want := range map[string]record.Connections{
		"warm":  {Opened: 2, Reused: 4},
		"reuse": {Opened: 2, Reused: 4},
		"new":   {Opened: 6},
	} {
		b := newBench(t, nil, map[string]any{"load": closed(2, 6), "max_tokens": 4, "connections": mode})
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want.Protocol, want.LocalPorts = "HTTP/1.1", p.measurement.Connections.LocalPorts
		if diff := cmp.Diff(want, p.measurement.Connections); diff != "" {
			t.Errorf("%s: %s", mode, diff)
		}
		set := 0
		for _, a := range p.attempts {
			if a.T.Connected != nil {
				set++
			}
		}
		if expect := map[string]int{"warm": 0, "reuse": 2, "new": 6}[mode]; set != expect {
			t.Errorf("%s: %d requests show a set-up, want %d", mode, set, expect)
		}
	}
}

func TestOpenLoopShedsWhatFindsNoSlot(t *testing.T) {
	b := newBench(t, map[string]any{"sim": map[string]any{"decode_tok_s": 20.0, "prefill_tok_s": 1e6, "seed": 1}}, map[string]any{
		"load":       map[string]any{"mode": "open", "arrival": "burst", "size": 5, "rate": 100, "requests": 5, "max_in_flight": 2, "shed": true},
		"max_tokens": 8, "workload": map[string]any{"source": "synthetic", "context_tokens": 16},
	})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := p.measurement.Accounting.Outcomes[record.OutcomeClientShed]; n != 3 {
		t.Errorf("outcomes %v, want 3 shed", p.measurement.Accounting.Outcomes)
	}
	for _, a := range p.attempts {
		if a.Outcome == record.OutcomeClientShed && (a.T.Due == nil || a.T.Start != nil || a.RequestSHA256 != nil) {
			t.Errorf("shed request %d: %+v", a.Index, a.T)
		}
	}
	if text := p.Limits["load.shed"]; !strings.Contains(text, "3 of 5") {
		t.Errorf("load.shed says %q", text)
	}
	if p.schedule.Arrival == nil || *p.schedule.Arrival != "burst" || len(p.schedule.DueNS) != 5 {
		t.Errorf("schedule %+v", p.schedule)
	}
}

// Latency from due grows while the server cannot keep up, from start it does
// not: leaving the client's queue out makes 1932 ms look like 506 (vllm 54101).
func TestQueueOfTheClientShowsFromDue(t *testing.T) {
	b := newBench(t, map[string]any{"sim": map[string]any{"decode_tok_s": 200.0, "prefill_tok_s": 1e6, "slots": 1, "seed": 1}}, map[string]any{
		"load":       map[string]any{"mode": "open", "arrival": "constant", "rate": 60, "requests": 24, "max_in_flight": 1},
		"max_tokens": 5, "workload": map[string]any{"source": "synthetic", "context_tokens": 16}, // 25 ms each, 1.5 times the capacity
	})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	firstLag, lastLag := *p.attempts[0].T.Start-*p.attempts[0].T.Due, int64(0)
	for _, a := range p.attempts {
		if a.Index == 23 {
			lastLag = *a.T.Start - *a.T.Due
		}
	}
	// 24 requests of at least 25 ms need 575 ms before the last begins; it was due after 384.
	if lastLag < 150e6 || lastLag < 3*firstLag {
		t.Errorf("send lag of the last request %d ns, of the first %d", lastLag, firstLag)
	}
	for _, code := range []string{"client.lag", "load.rate-not-reached"} {
		if _, ok := p.Limits[code]; !ok {
			t.Errorf("limitation %s is missing of %v", code, p.Limits)
		}
	}
}

func TestGatesOfAMeasurement(t *testing.T) {
	h := serveRaw(t, func(c net.Conn, n int) {
		if n%2 == 0 {
			_, _ = io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, sse+chunks(delta("hello"), finish("stop"), done)+last)
	})
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{
		"load": closed(1, 4), "gate": map[string]any{"min_ok": 0.75},
		"workload": map[string]any{"source": "synthetic", "context_tokens": 64, "canaries": true},
	})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, f := range p.Findings {
		codes = append(codes, f.Code)
	}
	if !slices.Equal(codes, []string{"gate.min_ok", "gate.canary"}) {
		t.Errorf("findings %v", p.Findings)
	}
	got := p.measurement.Accounting.Outcomes
	if got[record.OutcomeRefusedLoad] != 2 || got[record.OutcomeCanaryFailed] != 2 {
		t.Errorf("outcomes %v", got)
	}
	if _, ok := p.Limits["canary.failed"]; !ok {
		t.Errorf("limitations %v", p.Limits)
	}
}

func TestCanariesAndCodeWordsOfTheEmbeddedEngine(t *testing.T) {
	b := newBench(t, nil, map[string]any{
		"load": closed(2, 6), "max_tokens": 256,
		"workload": map[string]any{"source": "synthetic", "context_tokens": 128, "canaries": true, "response_words": 8, "controlled_output": "strict"},
	})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range p.attempts {
		if a.Outcome != record.OutcomeOK || a.Canary == nil || !a.Canary.Passed || a.ControlledOutput == nil || a.ControlledOutput.ObservedCodeWords != 8 {
			t.Errorf("attempt %d: %s, canary %+v, words %+v, text %q", a.Index, a.Outcome, a.Canary, a.ControlledOutput, *a.Text)
		}
	}
}

// Retried until it works and booked as a success without a word (gpustack
// 1677): here every try stands in the attempt, and without retries it is refused.
func TestEveryTryIsRecorded(t *testing.T) {
	serve := func() *hostile {
		return serveRaw(t, func(c net.Conn, n int) {
			if n < 2 {
				_, _ = io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
				return
			}
			_, _ = io.WriteString(c, sse+chunks(delta("a"), finish("stop"), done)+last)
		})
	}
	b := newBench(t, map[string]any{"base_url": serve().url, "sim": nil}, map[string]any{"load": closed(1, 1), "request_retries": 2})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := p.attempts[0]
	var outcomes []record.Outcome
	before := int64(-1)
	for _, try := range a.Tries {
		outcomes = append(outcomes, try.Outcome)
		if try.T.Start == nil || *try.T.Start <= before {
			t.Errorf("a try began at %v, the one before at %d", try.T.Start, before)
		}
		before = *try.T.Start
	}
	if want := []record.Outcome{record.OutcomeRefusedLoad, record.OutcomeRefusedLoad, record.OutcomeOK}; !slices.Equal(outcomes, want) || a.Outcome != record.OutcomeOK {
		t.Errorf("tries %v, outcome %s", outcomes, a.Outcome)
	}
	b = newBench(t, map[string]any{"base_url": serve().url, "sim": nil}, map[string]any{"load": closed(1, 1)})
	if p, err = b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := p.attempts[0]; a.Outcome != record.OutcomeRefusedLoad || len(a.Tries) != 0 {
		t.Errorf("without retries: %s, %d tries", a.Outcome, len(a.Tries))
	}
}

func TestCancelGivesUpAfterOutput(t *testing.T) {
	h := serveRaw(t, func(c net.Conn, _ int) { _, _ = io.WriteString(c, sse+chunks(delta("a"))) })
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{
		"load": closed(2, 4), "cancel": map[string]any{"share": 1, "after_output": "30ms"},
	})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range p.attempts {
		if a.Outcome != record.OutcomeClientAbort || a.T.FirstOutput == nil || *a.T.End-*a.T.FirstOutput < 30e6 || !slices.Contains(a.Notes, "cancelled_by_plan") {
			t.Errorf("attempt %d: %s, stamps %+v, notes %v", a.Index, a.Outcome, a.T, a.Notes)
		}
	}
}

func TestStrictLengthIsAFailure(t *testing.T) {
	h := serveRaw(t, func(c net.Conn, _ int) {
		_, _ = io.WriteString(c, sse+chunks(delta("w00001 w00002"), finish("stop"), done)+last)
	})
	for policy, want := range map[string]record.Outcome{"strict": record.OutcomeLengthMismatch, "observe": record.OutcomeOK} {
		b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{
			"load": closed(1, 1), "workload": map[string]any{"source": "synthetic", "response_words": 3, "controlled_output": policy},
		})
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a := p.attempts[0]; a.Outcome != want || a.ControlledOutput.ObservedCodeWords != 2 {
			t.Errorf("%s: %s %+v", policy, a.Outcome, a.ControlledOutput)
		}
	}
}

func TestSecretsOfAServerThatEchoesThem(t *testing.T) {
	const secret = "sk-very-secret-0123456789"
	h := serveRaw(t, func(c net.Conn, n int) {
		if n == 0 {
			body := fmt.Sprintf(`{"error":{"message":"bad key %s"}}`, secret)
			_, _ = fmt.Fprintf(c, "HTTP/1.1 401 No\r\nX-Echo: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", secret, len(body), body)
			return
		}
		var parts []string
		for _, letter := range secret {
			parts = append(parts, delta(string(letter)))
		}
		_, _ = io.WriteString(c, sse+chunks(append(parts, finish("stop"), done)...)+last)
	})
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil, "api_key_env": "KEY"}, map[string]any{"load": closed(1, 2)})
	b.Env.Secrets.Env = func(string) (string, bool) { return secret, true }
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range p.attempts {
		if a.Error != nil && strings.Contains(a.Error.Message, secret) {
			t.Errorf("the error holds the key: %q", a.Error.Message)
		}
		if a.Text != nil && strings.Contains(*a.Text, secret) {
			t.Errorf("the text holds the key: %q", *a.Text)
		}
	}
	capture, err := b.Env.Folder.ReadFile("capture")
	if err != nil {
		t.Fatal(err)
	}
	if len(capture) == 0 || strings.Contains(string(capture), secret) {
		t.Errorf("the capture of %d bytes holds the key", len(capture))
	}
}
