package scout

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/internal/kindtest"
	"anvil/stages/record"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// hanging is a server that takes connections and answers nothing.
func hanging(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String() + "/v1"
}

// A probe has a limit of its own, which is longer than a plan may want to wait:
// the error then speaks of a probe that is still open.
func TestReadyTimeoutHoldsWhileAProbeHangs(t *testing.T) {
	b := kindtest.New(t, Kind, at(hanging(t)), map[string]any{"ready": map[string]any{"timeout": "20ms"}})
	_, _, err := run(t, b)
	if err == nil || !strings.Contains(err.Error(), "after 20ms and 1 probes") || !strings.Contains(err.Error(), "no answer from") {
		t.Errorf("error %v, want the timeout before the probe's own", err)
	}
}

// Without a time to wait an endpoint is asked once, and that is enough where it
// is up.
func TestATimeoutOfZeroIsOneProbe(t *testing.T) {
	once := map[string]any{"requests": 1, "canary": "off", "ready": map[string]any{"timeout": "0s"}}
	up := &fake{health: say(http.StatusOK, "ok"), chat: stream(hello, finish, "[DONE]")}
	doc, _, err := run(t, kindtest.New(t, Kind, at(up.serve(t)), once))
	if err != nil || doc.Ready.Probes != 1 || doc.Ready.Status != http.StatusOK {
		t.Errorf("%v, ready %+v, want one probe", err, doc.Ready)
	}
	var asked atomic.Int64
	loads := &fake{health: func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		say(503, "loading")(w, r)
	}}
	_, _, err = run(t, kindtest.New(t, Kind, at(loads.serve(t)), once))
	if err == nil || !strings.Contains(err.Error(), "not ready after one probe: ") || !strings.Contains(err.Error(), "answered 503") || asked.Load() != 1 {
		t.Errorf("error %v after %d probes", err, asked.Load())
	}
}

// Probes without a pause would be a load of their own: thousands a second.
func TestAnIntervalThatIsNoPauseIsAProblem(t *testing.T) {
	for text, bad := range map[string]bool{"0s": true, "9ms": true, "10ms": false, "1m": false} {
		_, problems := kindtest.New(t, Kind, nil, map[string]any{"ready": map[string]any{"interval": text}}).Resolve()
		if (len(problems) == 1) != bad || bad && (problems[0].Pointer != "/ready/interval" || problems[0].Hint == "" || !strings.Contains(problems[0].Message, "must be at least 10ms, got "+text)) {
			t.Errorf("%s: problems %+v", text, problems)
		}
	}
}

// Servers that know no path but the one that is measured answer 404, 405 or 501
// to everything else: none of it says that they are not ready.
func TestAServerThatLacksItsHealthPathIsReady(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				w.WriteHeader(status)
				return
			}
			stream(hello, finish, "[DONE]")(w, r)
		}))
		t.Cleanup(s.Close)
		b := kindtest.New(t, Kind, at(s.URL+"/v1"), map[string]any{"requests": 1, "canary": "off", "ready": map[string]any{"timeout": "1s"}})
		doc, _, err := run(t, b)
		if err != nil || doc.Outcomes[record.OutcomeOK] != 1 || doc.Ready.Status != status {
			t.Errorf("%d: %v, outcomes %v, ready %+v", status, err, doc.Outcomes, doc.Ready)
		}
	}
}

// The first interrupt ends the questions too, not only the requests.
func TestAnInterruptEndsTheQuestions(t *testing.T) {
	reached, over := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(over) })
	var questions, chats atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/health":
		case strings.HasSuffix(r.URL.Path, "/completions"):
			chats.Add(1)
		case questions.Add(1) == 1:
			close(reached)
			select {
			case <-r.Context().Done():
			case <-over:
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	b := kindtest.New(t, Kind, at(s.URL+"/v1"), map[string]any{"cache_reset": "require"})
	ended := make(chan error, 1)
	go func() {
		_, err := b.Run(t.Context())
		ended <- err
	}()
	select {
	case <-reached:
	case <-time.After(patience):
		t.Fatal("no question was asked")
	}
	close(b.Stop)
	select {
	case err := <-ended:
		if !errors.Is(err, stage.ErrAborted) {
			t.Errorf("error %v, want aborted", err)
		}
	case <-time.After(patience):
		t.Fatal("the questions go on")
	}
	if q, c := questions.Load(), chats.Load(); q != 1 || c != 0 {
		t.Errorf("after the interrupt %d more questions and %d requests", q-1, c)
	}
}
