package load

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ask sends n requests, one after the other, and calls each with what became of them.
func askN(t *testing.T, c *Client, capture *Capture, n int, each func(i int, w *Worker, s Sample, f Fault)) {
	t.Helper()
	w := c.NewWorker(capture, &lineWatcher{})
	c.Begin()
	for i := range n {
		s := NewSample(0)
		f := w.Do(t.Context(), Job{Request: i, Payload: []byte("{}END")}, &s)
		each(i, w, s, f)
	}
	w.Close()
	if err := capture.Close(); err != nil {
		t.Error(err)
	}
}

const wholeAnswer = "e\r\ndata: [DONE]\n\n\r\n"

// A server that ends its answer and not its body is waited for once: a closed
// loop would stand still after each answer. One that only was late is trusted again.
func TestABodyWithoutEndIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := []time.Duration{time.Hour, time.Hour, time.Hour, 0, ms2(40)}
		at := 0
		s := newScript(t, func(int, int) []piece {
			at++
			return []piece{{0, streamHead + wholeAnswer}, {late[at-1], lastChunk}}
		})
		c, capture := newTestClient(t, s.dial, Limits{})
		var got []time.Duration
		var conns []int32
		askN(t, c, capture, len(late), func(_ int, w *Worker, s Sample, _ Fault) {
			got = append(got, time.Duration(w.Settled()))
			conns = append(conns, s.Conn)
		})
		want := []time.Duration{settleLimit, settleShort, settleShort, 0, ms2(40)}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("waited %v, want %v", got, want)
				break
			}
		}
		if conns[3] != 4 || conns[4] != 4 {
			t.Errorf("connections %v: the last two requests share one", conns)
		}
	})
}

func TestAConnectionThatIsNotKeptIsNotSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(int, int) []piece { return []piece{{0, streamHead + wholeAnswer}, {time.Hour, ""}} })
		c, capture := newTestClient(t, s.dial, Limits{})
		c.cfg.Fresh = true
		askN(t, c, capture, 2, func(_ int, w *Worker, s Sample, _ Fault) {
			if w.Settled() != 0 || c.Now() != 0 || s.Ending != EndMark {
				t.Errorf("waited %v, ending %d at %v", w.Settled(), s.Ending, c.Now())
			}
		})
	})
}

// What an error says is for people; without a limit it is bounded all the same.
func TestAnErrorsBodyIsBoundedWithoutALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const head = "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n"
		s := newScript(t, func(int, int) []piece {
			return []piece{{0, head + strings.Repeat(chunk(strings.Repeat("x", 32<<10)), 8)}}
		})
		c, capture := newTestClient(t, s.dial, Limits{})
		askN(t, c, capture, 1, func(_ int, _ *Worker, s Sample, _ Fault) {
			if s.Bytes != usualError || s.Ending != EndCapped {
				t.Errorf("%d bytes, ending %d", s.Bytes, s.Ending)
			}
		})
	})
}

func TestTheProtocolIsThatOfTheAnswers(t *testing.T) {
	for head, want := range map[string]string{
		"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n": "HTTP/1.0",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n": "HTTP/1.1",
		"SSH-2.0-OpenSSH_9.6\r\n":                      "",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScript(t, func(int, int) []piece { return []piece{{0, head}, {0, "close"}} })
			c, capture := newTestClient(t, s.dial, Limits{})
			askN(t, c, capture, 1, func(int, *Worker, Sample, Fault) {})
			if got := c.Connections().Protocol; got != want {
				t.Errorf("%q: protocol %q, want %q", head, got, want)
			}
		})
	}
}

// What a message quotes of a server stands at its end and is cut without a mark:
// there what hides secrets finds the beginning of one.
func TestAFaultEndsWithWhatItQuotes(t *testing.T) {
	const key = "sk-proj-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-and-more"
	hide := func(text string) string {
		for n := len(key); n > 8; n-- {
			if before, ok := strings.CutSuffix(text, key[:n]); ok {
				return before + strings.Repeat("*", n)
			}
		}
		return text
	}
	for _, answer := range []string{
		key + " is no key\r\n\r\n",
		"HTTP/1.1 Bearer " + key + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: " + key + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + key + "\r\n\r\n",
		streamHead + key + "\r\n",
		streamHead + "1\r\na" + key + "\r\n",
		key[:20],
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScript(t, func(int, int) []piece { return []piece{{0, answer}, {0, "close"}} })
			c, unused := newTestClient(t, s.dial, Limits{})
			file := &memory{}
			capture := NewCapture(file, 1, Hiding{Whole: secretly(key), Cut: hide, Longest: len(key)})
			askN(t, c, capture, 1, func(_ int, _ *Worker, _ Sample, f Fault) {
				if f.Class != "protocol" || strings.Contains(f.Message, key[:9]) || !strings.HasSuffix(f.Message, "***") {
					t.Errorf("%.40q: %+v", answer, f)
				}
			})
			if strings.Contains(string(file.b), key[:9]) {
				t.Errorf("%.40q: the capture holds a part of the key", answer)
			}
			if err := unused.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What is no text is named by its first byte.
func TestAQuotationIsPrintable(t *testing.T) {
	for in, want := range map[string]string{"": "nothing", "\x15\x03\x01": "byte 0x15", "SSH-2.0\r\n": "SSH-2.0", "ab\x00c": "ab"} {
		if got := quote([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestAnAlertOfTLSIsTLS(t *testing.T) {
	for _, op := range []string{"remote error", "local error"} {
		err := &net.OpError{Op: op, Err: errors.New("tls: bad record MAC")}
		if f := faultOf(err); f.Class != "tls" {
			t.Errorf("%v: class %s", err, f.Class)
		}
	}
	if f := faultOf(&net.OpError{Op: "read", Err: errors.New("odd")}); f.Class != "reset" {
		t.Errorf("class %s", f.Class)
	}
}

func TestAPlansHostTakesThePlaceOfTheURLs(t *testing.T) {
	c, capture := newTestClient(t, nil, Limits{})
	if err := capture.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := c.cfg
	cfg.Header = http.Header{"Host": {"other.test"}, "X-A": {"1"}}
	head := string(requestHead(cfg))
	if !strings.HasPrefix(head, "POST /v1/chat/completions HTTP/1.1\r\nHost: other.test\r\nX-A: 1\r\n") || strings.Count(head, "Host:") != 1 {
		t.Errorf("head %q", head)
	}
}

// A time that comes to the duration when it is rounded is not before it.
func TestNoArrivalStandsAtTheDuration(t *testing.T) {
	for tenth := 1; tenth < 1000; tenth++ {
		for _, length := range []time.Duration{time.Second, 15 * time.Second, 30 * time.Second, time.Minute} {
			due, err := Arrival{Process: "constant", Rate: float64(tenth) / 10, Duration: length}.Schedule(nil)
			if err != nil {
				t.Fatal(err)
			}
			// Of what is due at i/rate, as long as that is before the duration.
			if want := (tenth*int(length/time.Second) + 9) / 10; len(due) != want || due[len(due)-1] >= int64(length) {
				t.Fatalf("rate %v for %v: %d arrivals, want %d, the last at %d", float64(tenth)/10, length, len(due), want, due[len(due)-1])
			}
		}
	}
}

// Prompts that are used up end the issuing, whatever time is left.
func TestPromptsThatAreUsedUpEndTheIssuing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(Plan{Workers: workers(4), Duration: time.Hour, Prompts: 3}, same(time.Second))
		if r := tr.phase.Run(t.Context(), nil); r.Interrupted || r.Begun != 3 || r.End != int64(time.Second) || len(tr.start) != 3 {
			t.Errorf("%+v, %d began", r, len(tr.start))
		}
	})
}
