package measure

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"anvil/stages/record"
)

const completion = `{"id":"1","model":"anvil-sim","choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`

// An answer that was not streamed is a success without a moment at which its
// content began. The kinds that count only such moments are not written of it.
func TestARecordThatCountsStreamsIsNotWrittenOfWholeAnswers(t *testing.T) {
	whole := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, completion)
	}
	s := serverWith(t, map[string]http.HandlerFunc{"/v1/chat/completions": whole})
	for name, load := range map[string]map[string]any{
		benchmarkName: closed(1, 2),
		liveName:      {"mode": "open", "arrival": "constant", "rate": 1000, "requests": 2},
	} {
		var log bytes.Buffer
		b := newBench(t, map[string]any{"base_url": s.URL + "/v1", "sim": nil, "extra_body": map[string]any{"stream": false}}, map[string]any{"load": load, "max_tokens": 8})
		b.Env.Log = zerolog.New(&log)
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if p.measurement.Accounting.Outcomes[record.OutcomeOK] != 2 {
			t.Errorf("%s: outcomes %v", name, p.measurement.Accounting.Outcomes)
		}
		if raw, written := p.Streams[name]; written {
			t.Errorf("%s is written: %s", name, raw)
		}
		if why := p.measurement.Unpublished[name]; !strings.Contains(why, "not streamed") || !strings.Contains(log.String(), name) {
			t.Errorf("%s: reason %q, log %q", name, why, log.String())
		}
	}
}

func TestCompressionAndRoomForConnectionsAreRecorded(t *testing.T) {
	zipped := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Header.Get("Accept-Encoding") != "gzip" {
			_, _ = io.WriteString(w, delta("a")+finish("stop")+done)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		_, _ = io.WriteString(z, delta("a")+finish("stop")+done)
	}
	s := serverWith(t, map[string]http.HandlerFunc{"/v1/chat/completions": zipped})
	for _, asked := range []bool{false, true} {
		b := newBench(t, map[string]any{"base_url": s.URL + "/v1", "sim": nil, "compression": asked}, map[string]any{"load": closed(1, 3), "max_tokens": 8})
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := record.Compression{Asked: asked}
		if asked {
			want.Answers = 3
		}
		if got := p.measurement.Connections.Compression; got != want || p.measurement.Accounting.Outcomes[record.OutcomeOK] != 3 {
			t.Errorf("compression %+v, want %+v; outcomes %v", got, want, p.measurement.Accounting.Outcomes)
		}
		ports := p.measurement.Connections.LocalPorts
		if runtime.GOOS != "linux" {
			continue
		}
		if ports == nil || ports.Range < 1 || ports.Opened != p.measurement.Connections.Opened || ports.Headroom != ports.Range-ports.Opened {
			t.Errorf("ports %+v of %d connections", ports, p.measurement.Connections.Opened)
		}
	}
}

// extra_body is merged last: what goes out is what answers are held against.
func TestWhatExtraBodySaysIsWhatWasAsked(t *testing.T) {
	s := serverWith(t, map[string]http.HandlerFunc{"/v1/chat/completions": answering(delta("a"), usage(300, 0))})
	p, err := newBench(t, map[string]any{
		"base_url": s.URL + "/v1", "sim": nil, "model": "other", "extra_body": map[string]any{"model": "anvil-sim", "max_tokens": 500},
	}, map[string]any{"load": closed(1, 2), "max_tokens": 8}).run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := p.Limits["model.name-differs"]; ok {
		t.Errorf("the model that was asked answers, and yet: %s", text)
	}
	a := p.attempts[0]
	if a.MaxOutputTokens != 500 || a.Usage.Output == nil || *a.Usage.Output != 300 || p.header.Endpoint.Model != "anvil-sim" || p.header.Request.MaxTokens != 500 {
		t.Errorf("cap %d, output %v (%v), model %s", a.MaxOutputTokens, a.Usage.Output, a.Usage.Reason, p.header.Endpoint.Model)
	}
}
