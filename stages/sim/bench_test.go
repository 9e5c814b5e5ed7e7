package sim

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func BenchmarkTokenize4K(b *testing.B) {
	text := strings.Repeat("the quiet river carries 12,345 letters toward winter. ", 320)
	b.ReportMetric(float64(CountTokens(text)), "tokens")
	for b.Loop() {
		var p prompt
		p.addText(text)
	}
}

func BenchmarkReadQuestion4K(b *testing.B) {
	text := strings.Repeat("the quiet river carries 12,345 letters toward winter. ", 320) +
		"\n\none JSON object with exactly these keys: span_length, chief_engineer, reopening_date, best_variety, colour"
	for b.Loop() {
		readQuestion(text, text)
	}
}

func BenchmarkChunk(b *testing.B) {
	c := newChunker(&turn{request: &request{chat: true}, id: "chatcmpl-sim-1"}, "anvil-sim", "dev", 1796032406, true)
	b.ReportAllocs()
	for b.Loop() {
		c.buf = c.buf[:0]
		c.tokens([]string{" river"}, false, false)
	}
}

// BenchmarkStreams keeps that many streams at 20 tokens a second each going
// over real sockets and reports how late events leave.
func BenchmarkStreams(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.Slots, cfg.DecodeTokS, cfg.Jitter = n, 20, 0.5
			server, err := Listen(cfg, "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer server.Close()
			var mu sync.Mutex
			var late, write []time.Duration
			server.Engine().Observe(func(s Sent) {
				mu.Lock()
				defer mu.Unlock()
				late, write = append(late, s.Before.Sub(s.Planned)), append(write, s.After.Sub(s.Before))
			})
			transport := &http.Transport{MaxIdleConnsPerHost: n}
			defer transport.CloseIdleConnections()
			for b.Loop() {
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() { drain(b, transport, server.BaseURL()) })
				}
				wg.Wait()
			}
			b.ReportMetric(quantileUS(late, 0.5), "late-p50-us")
			b.ReportMetric(quantileUS(late, 0.99), "late-p99-us")
			b.ReportMetric(quantileUS(write, 0.5), "write-p50-us")
		})
	}
}

// BenchmarkEvents says how many events the engine can send at most.
func BenchmarkEvents(b *testing.B) {
	cfg := DefaultConfig()
	cfg.DecodeTokS, cfg.PrefillTokS = 1e9, 1e9
	server, err := Listen(cfg, "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for b.Loop() {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { drain(b, transport, server.BaseURL()) })
		}
		wg.Wait()
	}
	b.ReportMetric(float64(b.N*4*100)/b.Elapsed().Seconds(), "events/s")
}

func drain(b *testing.B, transport *http.Transport, base string) {
	b.Helper()
	const body = `{"messages":[{"role":"user","content":"x"}],"max_tokens":100,"ignore_eos":true,"stream":true}`
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+"/chat/completions", strings.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		b.Error(err)
	}
}

func quantileUS(d []time.Duration, q float64) float64 {
	slices.Sort(d)
	return float64(d[int(math.Ceil(q*float64(len(d))))-1].Microseconds())
}

// BenchmarkPacer compares how late the two pacers wake one sleeper.
func BenchmarkPacer(b *testing.B) {
	for name, p := range map[string]pacer{"timers": timerPacer{}, "platform": newPacer()} {
		b.Run(name, func(b *testing.B) {
			var late []time.Duration
			r := stream(1, "bench", 0)
			for b.Loop() {
				at := time.Now().Add(time.Duration(100+r.IntN(4900)) * time.Microsecond)
				if err := p.wait(context.Background(), at); err != nil {
					b.Fatal(err)
				}
				late = append(late, time.Since(at))
			}
			b.ReportMetric(quantileUS(late, 0.5), "late-p50-us")
			b.ReportMetric(quantileUS(late, 0.99), "late-p99-us")
		})
		if err := p.close(); err != nil {
			b.Error(err)
		}
	}
}
