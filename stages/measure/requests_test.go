package measure

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"anvil/pipeline/digest"
	"anvil/stages/internal/kindtest"
	"anvil/stages/internal/prompt"
	"anvil/stages/record"
)

// bodies answers every request and keeps the digests of what it received.
type bodies struct {
	mu  sync.Mutex
	got []digest.Digest
}

func (b *bodies) answer(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.got = append(b.got, digest.FromBytes(raw))
	b.mu.Unlock()
	answering(delta("a"), finish("stop"))(w, r)
}

// lm-eval 3881, 4123, 4166, lighteval 1053: a cache of requests that ignores what
// they ask for. The digest in an attempt is that of the bytes which the server
// received, and another request has another one.
func TestLMEval3881EveryRequestHasItsOwnDigest(t *testing.T) {
	synthetic := func(over map[string]any) map[string]any {
		w := map[string]any{"source": "synthetic", "context_tokens": 16, "seed": 5}
		maps.Copy(w, over)
		return w
	}
	seen := map[digest.Digest]string{}
	for _, change := range []struct {
		name           string
		endpoint, with map[string]any
	}{
		{"as it is", nil, nil},
		{"temperature", nil, map[string]any{"sampling": map[string]any{"temperature": 0.5}}},
		{"top_p", nil, map[string]any{"sampling": map[string]any{"top_p": 0.5}}},
		{"sampling seed", nil, map[string]any{"sampling": map[string]any{"seed": 3}}},
		{"prompt", nil, map[string]any{"workload": synthetic(map[string]any{"context_tokens": 64})}},
		{"prompt seed", nil, map[string]any{"workload": synthetic(map[string]any{"seed": 6})}},
		{"max_tokens", nil, map[string]any{"max_tokens": 9}},
		{"model", map[string]any{"model": "other"}, nil},
		{"extra_body", map[string]any{"extra_body": map[string]any{"min_p": 0.1}}, nil},
		{"max_tokens_field", map[string]any{"max_tokens_field": "max_completion_tokens"}, nil},
		{"include_usage", map[string]any{"include_usage": false}, nil},
	} {
		server := &bodies{}
		s := serverWith(t, map[string]http.HandlerFunc{"/v1/chat/completions": server.answer})
		endpoint := map[string]any{"base_url": s.URL + "/v1", "sim": nil, "metrics": "off"}
		maps.Copy(endpoint, change.endpoint)
		with := map[string]any{"load": closed(1, 3), "max_tokens": 8, "workload": synthetic(nil)}
		maps.Copy(with, change.with)
		p, err := newBench(t, endpoint, with).run(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", change.name, err)
		}
		var told []digest.Digest
		for _, a := range p.attempts {
			if a.RequestSHA256 == nil {
				t.Fatalf("%s: request %d has no digest", change.name, a.Index)
			}
			told = append(told, *a.RequestSHA256)
			if other, known := seen[*a.RequestSHA256]; known {
				t.Errorf("request %d of %q has the digest of one of %q", a.Index, change.name, other)
			}
			seen[*a.RequestSHA256] = change.name
		}
		if !slices.Equal(told, server.got) {
			t.Errorf("%s: the attempts say %v, the server received %v", change.name, told, server.got)
		}
	}
}

// A request that the server reads late is written late: what fits into the
// kernel's buffers is gone at once, the rest when somebody takes it. Here one of
// two workers is left alone in the middle of its request until the other one has
// had an answer and begun its second.
func TestWrittenIsWhenTheServerHasTakenTheRequest(t *testing.T) {
	const size = 6 << 20 // more than the kernel keeps for a sender and this receiver
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		order atomic.Int64
		all   sync.WaitGroup
		begun = make(chan struct{}) // the first byte of the request that has to wait was read
		again = make(chan struct{}) // the first byte of the other worker's second request
	)
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	serve := func(c net.Conn) {
		defer c.Close()
		if err := c.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
			t.Error(err)
		}
		in := bufio.NewReader(c)
		for {
			if _, err := in.Peek(1); err != nil {
				return
			}
			switch order.Add(1) {
			case 1:
				close(begun)
				<-again
			case 2:
				<-begun
			case 3:
				close(again)
			}
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			_, _ = io.WriteString(c, sse+chunks(delta("a"), finish("stop"), done)+last)
		}
	}
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serve(c) })
		}
	})
	b := dataset(t, "http://"+l.Addr().String()+"/v1", 3, closed(2, 3))
	long := fmt.Sprintf("{\"id\":\"r0\",\"prompt\":\"%s\"}\n{\"id\":\"r1\",\"prompt\":\"%[1]s\"}\n{\"id\":\"r2\",\"prompt\":\"x\"}\n", strings.Repeat("x", size))
	b.Files["/workload/file"] = kindtest.Artifact(prompt.RowSchema, "d.jsonl", []byte(long))
	b.With["limits"] = map[string]any{"total": "1m"}
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.attempts) != 3 {
		t.Fatalf("%d attempts", len(p.attempts))
	}
	byStart := slices.Clone(p.attempts)
	slices.SortFunc(byStart, func(a, b record.Attempt) int { return int(*a.T.Sent - *b.T.Sent) })
	second := byStart[2] // sent behind the answer to the one before it
	late := 0
	for _, a := range byStart[:2] {
		if a.T.Written == nil || *a.T.Written < *a.T.Sent {
			t.Errorf("request %d: sent %v, written %v", a.Index, a.T.Sent, a.T.Written)
		} else if *a.T.Written > *second.T.Sent {
			late++
		}
	}
	if late != 1 {
		t.Errorf("%d of two requests were written after %d, want the one that the server left alone", late, *second.T.Sent)
	}
}
