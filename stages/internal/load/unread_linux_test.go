package load

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"
)

const shortAnswer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n" +
	"9\r\ndata: a\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"

// closer serves one request a connection and then, when the next has come,
// closes: with the request read or not.
func closer(t *testing.T, readIt bool) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go closeAfterOne(conn.(*net.TCPConn), readIt)
		}
	}()
	return &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/v1/chat/completions"}
}

func closeAfterOne(conn *net.TCPConn, readIt bool) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	take := func() bool {
		req, err := http.ReadRequest(in)
		if err != nil {
			return false
		}
		_, err = io.ReadAll(req.Body)
		return err == nil
	}
	if !take() {
		return
	}
	_, _ = io.WriteString(conn, shortAnswer)
	if readIt {
		take()
		return
	}
	// One byte of the next request shows that it is there; the rest stays unread.
	var one [1]byte
	_, _ = conn.Read(one[:])
	_ = conn.CloseWrite()
}

func askTwice(t *testing.T, to *url.URL) [2]Sample {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c := NewClient(Config{Dialer: Dialer{Target: to}, URL: to})
	w := c.NewWorker(NewCapture(&memory{}, 2, nil, 0), &lineWatcher{})
	defer w.Close()
	var samples [2]Sample
	for i := range samples {
		samples[i] = NewSample(0)
		w.Do(ctx, Job{Request: i, Payload: []byte(`{"prompt": "two bytes and more"}`)}, &samples[i])
	}
	return samples
}

func TestAConnectionClosedOnAnUnreadRequestIsReplaced(t *testing.T) {
	s := askTwice(t, closer(t, false))
	if s[1].Ending != EndMark || !s[1].Replaced || s[1].Connected == None {
		t.Errorf("second request: ending %v, replaced %v, connected %d, want an answer on a new connection", s[1].Ending, s[1].Replaced, s[1].Connected)
	}
}

func TestARequestThatWasReadIsNotSentAgain(t *testing.T) {
	s := askTwice(t, closer(t, true))
	if s[1].Ending != EndBroken || s[1].Replaced {
		t.Errorf("second request: ending %v, replaced %v, want a broken connection and no second send", s[1].Ending, s[1].Replaced)
	}
}
