package load

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Frames of HTTP/2, as far as a server by hand needs them.
const (
	h2Data     = 0
	h2Headers  = 1
	h2Reset    = 3
	h2Settings = 4
	h2GoAway   = 7

	h2EndStream  = 1
	h2EndHeaders = 4
)

type frame2 struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func (f frame2) write(w io.Writer) {
	n := len(f.payload)
	head := []byte{byte(n >> 16), byte(n >> 8), byte(n), f.kind, f.flags}
	_, _ = w.Write(append(binary.BigEndian.AppendUint32(head, f.stream), f.payload...))
}

func readFrame2(r io.Reader) (f frame2, err error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	f = frame2{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:])}
	f.payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(r, f.payload)
	return f, err
}

// serve2 speaks HTTP/2 in the clear, by hand: answer is called with each frame of
// a request, until it says that the connection is over.
func serve2(t *testing.T, answer func(conn net.Conn, f frame2) (over bool)) *url.URL {
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
			go follow2(conn, answer)
		}
	}()
	return &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/v1/chat/completions"}
}

func follow2(conn net.Conn, answer func(net.Conn, frame2) bool) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	if _, err := io.CopyN(io.Discard, in, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	frame2{kind: h2Settings}.write(conn)
	for {
		f, err := readFrame2(in)
		if err != nil {
			return
		}
		switch {
		case f.kind == h2Settings && f.flags == 0:
			frame2{kind: h2Settings, flags: 1}.write(conn)
		case f.kind == h2Headers || f.kind == h2Data:
			if answer(conn, f) {
				// In order: what the client still says is read, else its kernel is told of a reset.
				if tcp, ok := conn.(*net.TCPConn); ok {
					_ = tcp.CloseWrite()
					_, _ = io.Copy(io.Discard, in)
				}
				return
			}
		}
	}
}

// ask2 sends one request over HTTP/2.
func ask2(t *testing.T, d Dialer, l Limits) (s Sample, f Fault, c Connections) {
	t.Helper()
	client := NewClient(Config{Dialer: d, URL: d.Target, HTTP2: true, Limits: l, Header: http.Header{}})
	defer client.Close()
	askN(t, client, NewCapture(&memory{}, 1, Hiding{}), 1, func(_ int, _ *Worker, got Sample, fault Fault) { s, f = got, fault })
	return s, f, client.Connections()
}

// The library would send a refused stream again, up to six times, and no record
// would say so.
func TestARefusedStreamIsNotSentAgain(t *testing.T) {
	var asked atomic.Int64
	to := serve2(t, func(conn net.Conn, f frame2) bool {
		if f.kind == h2Headers {
			asked.Add(1)
			frame2{kind: h2Reset, stream: f.stream, payload: []byte{0, 0, 0, 7}}.write(conn)
		}
		return false
	})
	s, f, c := ask2(t, Dialer{Target: to}, Limits{FirstOutput: 10 * time.Second})
	if asked.Load() != 1 || s.Ending != EndBroken || f.Class != "refused_stream" || !s.Refused() || c.Protocol != "" {
		t.Errorf("asked %d times, ending %d, %+v, %+v", asked.Load(), s.Ending, f, c)
	}
}

// head2 is the header block of an event stream with status 200.
func head2(stream uint32) frame2 {
	const kind = "text/event-stream"
	return frame2{h2Headers, h2EndHeaders, stream, append([]byte{0x88, 0x0f, 0x10, byte(len(kind))}, kind...)}
}

// An orderly close in the middle of an answer is a cut, as over HTTP/1.1: with
// and without a word before. Anything else is a broken connection.
func TestAClosedHTTP2ConnectionCutsTheAnswer(t *testing.T) {
	event := []byte("data: a\n\n")
	goAway := func(code byte) frame2 { return frame2{kind: h2GoAway, payload: []byte{0, 0, 0, 1, 0, 0, 0, code}} }
	for name, tc := range map[string]struct {
		end  []frame2
		want Ending
	}{
		"closed":                        {nil, EndCut},
		"closed after a word":           {[]frame2{goAway(0)}, EndCut},
		"closed after an error":         {[]frame2{goAway(2)}, EndReset},
		"the stream is reset":           {[]frame2{{kind: h2Reset, stream: 1, payload: []byte{0, 0, 0, 2}}}, EndReset},
		"the stream ends, as it should": {[]frame2{{kind: h2Data, flags: h2EndStream, stream: 1}}, EndBody},
	} {
		t.Run(name, func(t *testing.T) {
			to := serve2(t, func(conn net.Conn, f frame2) bool {
				if f.flags&h2EndStream == 0 {
					return false
				}
				head2(f.stream).write(conn)
				frame2{kind: h2Data, stream: f.stream, payload: event}.write(conn)
				for _, f := range tc.end {
					f.write(conn)
				}
				return true
			})
			if s, f, c := ask2(t, Dialer{Target: to}, Limits{}); s.Ending != tc.want || c.Protocol != "HTTP/2.0" {
				t.Errorf("ending %d, %+v, want %d, %+v", s.Ending, f, tc.want, c)
			}
		})
	}
}

// A head that is longer than one of HTTP/1.1 may be is the server's fault, in the
// same words, and no evidence of others is lost for it.
func TestAHeadOverItsLimitIsAFaultOfTheServer(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 80 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 20_000))
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.Protocols.SetHTTP1(true)
	server.Start()
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, http2 := range []bool{false, true} {
		client := NewClient(Config{Dialer: Dialer{Target: to}, URL: to, HTTP2: http2, Header: http.Header{}})
		file := &memory{}
		askN(t, client, NewCapture(file, 1, Hiding{}), 1, func(_ int, _ *Worker, s Sample, f Fault) {
			if s.Ending != EndBroken || f.Class != "protocol" {
				t.Errorf("HTTP/2 %v: ending %d, %+v", http2, s.Ending, f)
			}
		})
		client.Close()
		if r, err := Recover(file); err != nil || r.Lost != 0 {
			t.Errorf("HTTP/2 %v: %+v, %v", http2, r, err)
		}
	}
}

// The limit of a connection holds whatever carries the request, and is not the
// limit of the first output.
func TestTheConnectLimitHoldsOverHTTP2(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			to := &url.URL{Scheme: "http", Host: "engine.test"}
			never := func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			client := NewClient(Config{
				Dialer: Dialer{Target: to, Dial: never}, URL: to, HTTP2: http2, Header: http.Header{},
				Limits: Limits{Connect: 2 * time.Second, FirstOutput: time.Minute},
			})
			askN(t, client, NewCapture(&memory{}, 1, Hiding{}), 1, func(_ int, _ *Worker, s Sample, f Fault) {
				if s.Ending != EndConnect || f.Class != "timeout" && f.Class != "connect" || s.End != int64(2*time.Second) {
					t.Errorf("HTTP/2 %v: ending %d after %v, %+v", http2, s.Ending, time.Duration(s.End), f)
				}
			})
			client.Close()
		})
	}
}

// A TLS handshake that does not end is no connection either: both have one limit.
func TestTheConnectLimitCoversTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &url.URL{Scheme: "https", Host: "engine.test"}
		silent := func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(time.Second) // of the bubble
			here, there := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, there) }()
			return here, nil
		}
		client := NewClient(Config{
			Dialer: Dialer{Target: to, Dial: silent}, URL: to, HTTP2: true, Header: http.Header{},
			Limits: Limits{Connect: 2 * time.Second, FirstOutput: time.Minute},
		})
		askN(t, client, NewCapture(&memory{}, 1, Hiding{}), 1, func(_ int, _ *Worker, s Sample, f Fault) {
			if s.Ending != EndConnect || s.End != int64(2*time.Second) {
				t.Errorf("ending %d after %v, %+v", s.Ending, time.Duration(s.End), f)
			}
		})
		client.Close()
		time.Sleep(time.Minute) // what was begun comes to its own end
	})
}

// The timer of a guard goes off for the connection's limit and for those that
// come after it, earlier or later than they were.
func TestAGuardHoldsEveryLimitInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clock{epoch: time.Now()}
		ctx, cancel := context.WithCancelCause(t.Context())
		g := newGuard(c, int64(10*time.Minute), cancel)
		g.connecting(int64(10 * time.Second))
		time.Sleep(time.Second)
		g.connected()
		time.Sleep(20 * time.Second) // past the connection's limit
		g.move(int64(2 * time.Minute))
		<-ctx.Done()
		if now := time.Duration(c.now()); now != 2*time.Minute || !errors.Is(context.Cause(ctx), errLimit) {
			t.Errorf("ended at %v by %v", now, context.Cause(ctx))
		}
		g.timer.Stop()
	})
}
