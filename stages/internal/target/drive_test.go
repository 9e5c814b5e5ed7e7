package target

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/internal/engine"
	"anvil/stages/internal/load"
	"anvil/stages/internal/prompt"
	"anvil/stages/record"
)

// questions are so many prompts, all alike but for the marker.
type questions struct {
	n      int
	marker string
}

func (q questions) Len() int { return q.n }

func (q questions) At(i int) prompt.Prompt {
	if i >= q.n {
		panic("a prompt that there is not was asked for")
	}
	return prompt.Prompt{Text: "hello", Marker: q.marker}
}

// newDrive is a phase against a server at the other end of a pipe: answer is
// called for each request, counted from 0, once it was read whole.
func newDrive(t *testing.T, answer func(conn net.Conn, n int)) *Drive {
	t.Helper()
	base, model := "http://engine.test/v1", "m"
	e := engine.Endpoint{Name: "target", BaseURL: &base, Model: &model, IncludeUsage: true}
	p, err := engine.Open(e)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	dial := func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			in := bufio.NewReader(there)
			for {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return
				}
				answer(there, int(n.Add(1))-1)
			}
		}()
		return here, nil
	}
	return &Drive{
		Target: &Target{
			Endpoint: e, Protocol: p, Header: http.Header{}, url: to, dialer: load.Dialer{Target: to, Dial: dial},
			env: stage.Env{Secrets: &stage.Secrets{}, Progress: &stage.Progress{}}, limits: DefaultLimits(),
		},
		Ask: Ask{MaxTokens: 8, StoreText: true, ListTries: true}, Source: questions{n: -1},
		Plan: load.Plan{Workers: make([]int64, 1), Requests: 1, Drain: 10 * time.Second},
	}
}

// run runs a phase and decodes what had begun of it.
func run(t *testing.T, d *Drive, planned int) (load.Result, []*record.Attempt) {
	t.Helper()
	if q := d.Source.(questions); q.n < 0 {
		d.Source = questions{n: max(planned, 1000), marker: q.marker}
	}
	if err := d.Prepare(t.Context(), nil, planned); err != nil {
		t.Fatal(err)
	}
	r := d.Run(t.Context(), nil, func() {})
	if err := d.Seal(); err != nil {
		t.Fatal(err)
	}
	var out []*record.Attempt
	for i := range r.Begun {
		a, err := d.Attempt(i)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return r, out
}

func sayTo(conn net.Conn, texts ...string) {
	for _, s := range texts {
		_, _ = io.WriteString(conn, s)
	}
}

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func content(text string) string {
	return chunk(fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", text))
}

const (
	streamed = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	stopped  = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	busy     = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n"
)

func good(conn net.Conn) { sayTo(conn, streamed, content("hi"), chunk(stopped)+"0\r\n\r\n") }

// A dataset that is used up ends the issuing; nothing is asked twice.
func TestADatasetThatIsUsedUpEndsThePhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(t, func(conn net.Conn, _ int) { good(conn) })
		d.Source = questions{n: 3}
		d.Plan = load.Plan{Workers: make([]int64, 2), Duration: time.Hour, Drain: time.Second}
		r, attempts := run(t, d, 0)
		if r.Begun != 3 || r.Interrupted || r.End >= int64(time.Hour) {
			t.Errorf("%+v", r)
		}
		for _, a := range attempts {
			if a.Outcome != record.OutcomeOK {
				t.Errorf("%s %+v", a.Outcome, a.Error)
			}
		}
	})
}

// A server that asks for a pause is given it, also a long one.
func TestARetryAfterIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(t, func(conn net.Conn, n int) {
			if n == 0 {
				sayTo(conn, busy+"Retry-After: 300\r\n\r\n")
				return
			}
			good(conn)
		})
		d.Retries = 1
		_, as := run(t, d, 1)
		a := as[0]
		if a.Outcome != record.OutcomeOK || len(a.Tries) != 2 || *a.T.Start-*a.Tries[0].T.End != int64(300*time.Second) {
			t.Errorf("%s, tries %+v", a.Outcome, a.Tries)
		}
		if d.Started(0) != *a.Tries[0].T.Start || d.Started(0) == *a.T.Start {
			t.Errorf("started at %d, first try at %d", d.Started(0), *a.Tries[0].T.Start)
		}
	})
}

// A pause that is longer than a request may take at all is none: the plan's limit
// stands, and the record says why there was no further try.
func TestARetryAfterOverTheTotalEndsTheTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(t, func(conn net.Conn, _ int) { sayTo(conn, busy+"Retry-After: 3600\r\n\r\n") })
		d.Retries = 5
		r, as := run(t, d, 1)
		a := as[0]
		if a.Outcome != record.OutcomeRefusedLoad || len(a.Tries) != 1 || r.End != 0 || !slices.Contains(a.Notes, "retry_after_exceeds_total") {
			t.Errorf("%s, %d tries, ended at %v, notes %v", a.Outcome, len(a.Tries), time.Duration(r.End), a.Notes)
		}
	})
}

// A pause between two tries outlives neither the drain nor the phase.
func TestAPauseEndsWithThePhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(t, func(conn net.Conn, _ int) { sayTo(conn, busy+"Retry-After: 1000\r\n\r\n") })
		d.Retries = 5
		d.Plan = load.Plan{Workers: make([]int64, 1), Duration: time.Second, Drain: 10 * time.Second}
		if r, as := run(t, d, 0); r.End != int64(11*time.Second) || as[0].Outcome != record.OutcomeRefusedLoad {
			t.Errorf("ended at %v, %s", time.Duration(r.End), as[0].Outcome)
		}
	})
}

// What the worker waits for after an answer is the server's time: the next
// request is due when it is over.
func TestWaitingForTheServersEndIsNoLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(t, func(conn net.Conn, _ int) {
			sayTo(conn, streamed, content("hi"), chunk(stopped))
			time.Sleep(20 * time.Millisecond) // of the bubble
			sayTo(conn, "0\r\n\r\n")
		})
		d.Plan.Requests = 3
		_, as := run(t, d, 3)
		for i, a := range as[1:] {
			if *a.T.Due != *as[i].T.End+int64(20*time.Millisecond) || *a.T.Start != *a.T.Due {
				t.Errorf("request %d: due at %d, started at %d; the answer before ended at %d", i+1, *a.T.Due, *a.T.Start, *as[i].T.End)
			}
		}
	})
}

// A capture that takes no more ends the phase: nothing more is sent for nothing.
func TestAFullDiskEndsThePhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(t, func(conn net.Conn, _ int) {
			time.Sleep(time.Second) // of the bubble
			good(conn)
		})
		d.Source = questions{n: 1 << 20}
		d.Plan = load.Plan{Workers: make([]int64, 4), Duration: time.Hour, Drain: time.Minute}
		if err := d.Prepare(t.Context(), nil, 0); err != nil {
			t.Fatal(err)
		}
		if err := d.file.Close(); err != nil { // as good as full
			t.Fatal(err)
		}
		if r := d.Run(t.Context(), nil, func() {}); !r.Interrupted || r.Begun > 4 || r.End != 0 {
			t.Errorf("%+v", r)
		}
		time.Sleep(time.Second) // of the bubble: the server's requests end
		if err := d.Seal(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("error %v", err)
		}
	})
}

// The bubble ends only when every goroutine in it has: a capture that nobody
// closed would show.
func TestAPreparationThatFailsLeavesNothingOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(t, func(net.Conn, int) {})
		d.Source, d.Warm = questions{n: 10}, 1
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := d.Prepare(ctx, nil, 10); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if err := d.file.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("the file was left open: %v", err)
		}
	})
}

// What would make another phase of it is refused before anything is sent, where
// it stands in the plan.
func TestAPhaseThatCannotBeThePlansIsRefused(t *testing.T) {
	secret := func(n int) *stage.Secrets {
		s := &stage.Secrets{}
		s.Hide(strings.Repeat("k", n))
		return s
	}
	for name, tc := range map[string]struct {
		change func(d *Drive)
		want   string
	}{
		"a huge key":  {func(d *Drive) { d.Target.env.Secrets = secret(20_000) }, "endpoint target: a secret is 2"},
		"few prompts": {func(d *Drive) { d.Plan = load.Plan{Due: make([]int64, 11)} }, "11 arrivals are due and there are 10 prompts"},
		"a usual key": {func(d *Drive) { d.Target.env.Secrets = secret(4096) }, ""},
	} {
		d := newDrive(t, func(net.Conn, int) {})
		d.Source = questions{n: 10}
		tc.change(d)
		err := d.Prepare(t.Context(), nil, 1)
		if got := fmt.Sprint(err); tc.want == "" && err != nil || tc.want != "" && !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if err == nil {
			d.letGo()
			if err := errors.Join(d.Seal(), d.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// broken is a connection that breaks as a reset does once what it holds was read.
type broken struct{ net.Conn }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("read: %w", errReset)
	}
	return n, err
}

var errReset = errors.New("connection reset by peer")

// The transport comes first (streams.md 5): what the answer had said before is a
// note, and a complete answer stays one.
func TestAResetOutranksWhatTheAnswerSaid(t *testing.T) {
	inBand := chunk("data: {\"error\":{\"message\":\"killed\"}}\n\n")
	finished := chunk("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
	for name, tc := range map[string]struct {
		text string
		want record.Outcome
		note string
	}{
		"nothing":            {"", record.OutcomeTransport, ""},
		"an error in band":   {inBand, record.OutcomeTransport, "in_band_error"},
		"a malformed event":  {chunk("data: {\"a\n\n"), record.OutcomeTransport, "malformed"},
		"a finish reason":    {finished, record.OutcomeOK, "unclean_end"},
		"no chunk but words": {"zz\r\n", record.OutcomeCut, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrive(t, func(conn net.Conn, _ int) {
					sayTo(conn, streamed, content("hi"), tc.text)
					_ = conn.Close()
				})
				dial := d.Target.dialer.Dial
				d.Target.dialer.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := dial(ctx, network, address)
					return broken{conn}, err
				}
				_, as := run(t, d, 1)
				a := as[0]
				if a.Outcome != tc.want || tc.note != "" && !slices.Contains(a.Notes, tc.note) || slices.Contains(a.Notes, string(a.Outcome)) {
					t.Errorf("%s, notes %v, want %s and %q", a.Outcome, a.Notes, tc.want, tc.note)
				}
				if tc.want == record.OutcomeTransport && (a.Error == nil || a.Error.Class != "reset" || slices.Contains(a.Notes, "cut")) {
					t.Errorf("error %+v, notes %v", a.Error, a.Notes)
				}
			})
		})
	}
}

// A model that thinks in tags begins its answer behind them.
func TestACanaryIsLookedForInWhatIsVisible(t *testing.T) {
	const marker = "ANVIL_REQ_7_00000"
	for text, want := range map[string]record.Outcome{
		"<think>hm</think>\n\n" + marker + " hello":   record.OutcomeOK,
		"hm</think> " + marker:                        record.OutcomeOK, // the template opened the tag
		marker + " hello":                             record.OutcomeOK,
		"<think>" + marker + "</think> hello":         record.OutcomeCanaryFailed,
		"<think>" + marker:                            record.OutcomeCanaryFailed,
		"<think>hm</think>hello " + marker:            record.OutcomeCanaryFailed,
		"<think>ANVIL_REQ_7_00009</think>\n" + marker: record.OutcomeOK,
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDrive(t, func(conn net.Conn, _ int) { sayTo(conn, streamed, content(text), chunk(stopped)+"0\r\n\r\n") })
			d.Source = questions{n: -1, marker: marker}
			if _, as := run(t, d, 1); as[0].Outcome != want {
				t.Errorf("%q: %s, %+v", text, as[0].Outcome, as[0].Canary)
			}
		})
	}
}

// Of a killed phase the protocol is that of the answers, whatever was asked for,
// and its connections are those that its requests name.
func TestARecoveredPhaseKnowsItsProtocol(t *testing.T) {
	for _, want := range []string{"HTTP/1.1", "HTTP/2.0"} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, stopped)
		}))
		server.EnableHTTP2 = want == "HTTP/2.0"
		server.StartTLS()
		t.Cleanup(server.Close)
		to, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		d := newDrive(t, nil)
		d.Target.Endpoint.HTTP2 = true
		d.Target.url, d.Target.dialer = to, load.Dialer{Target: to, TLS: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // its own server
		d.Plan.Requests, d.Source = 3, questions{n: 3}
		folder, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = folder.Close() })
		if err := d.Prepare(t.Context(), folder, 3); err != nil {
			t.Fatal(err)
		}
		d.Run(t.Context(), nil, func() {})
		if err := errors.Join(d.Seal(), d.file.Close()); err != nil {
			t.Fatal(err)
		}
		later := &Drive{Target: d.Target, Source: d.Source}
		if _, _, err := later.Recover(folder); err != nil {
			t.Fatal(err)
		}
		if c := later.Connections(); c.Protocol != want || d.Client.Connections().Protocol != want || c.Opened != 1 || c.Reused != 2 {
			t.Errorf("%s: %+v, before %+v", want, c, d.Client.Connections())
		}
		if err := later.file.Close(); err != nil {
			t.Error(err)
		}
	}
}
