package measure

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/record"
)

const secretKey = "sk-TOPSECRET-123456789"

// holdsPart tells whether raw holds more than eight bytes of the key in a row,
// in letters or as JSON escapes.
func holdsPart(raw []byte) (string, bool) {
	for i := range len(secretKey) - 8 {
		part := secretKey[i : i+9]
		if bytes.Contains(raw, []byte(part)) || bytes.Contains(raw, []byte(escaped(part))) {
			return part, true
		}
	}
	return "", false
}

func escaped(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, `\u%04x`, c)
	}
	return b.String()
}

// event is one with the delta of a choice.
func event(choice int, delta string) string {
	return fmt.Sprintf("data: {\"id\":\"1\",\"model\":\"anvil-sim\",\"choices\":[{\"index\":%d,\"delta\":{%s}}]}\n\n", choice, delta)
}

func halves(choice int, before, after string) string {
	const cut = 11
	return event(choice, before+secretKey[:cut]+after) + event(choice, before+secretKey[cut:]+after)
}

// echoes are the ways in which a server says the key, beside the plain one.
func echoes() map[string]string {
	ended := finish("stop") + done
	return map[string]string{
		"plain":                    delta("key "+secretKey) + ended,
		"text in two events":       delta("your key ") + halves(0, `"content":"`, `"`) + ended,
		"text in escapes":          event(0, `"content":"`+escaped(secretKey)+`"`) + ended,
		"escapes in two events":    event(0, `"content":"`+escaped(secretKey[:5])+`"`) + event(0, `"content":"`+escaped(secretKey[5:])+`"`) + ended,
		"text that breaks off":     delta("key "+secretKey[:15]) + ended,
		"reasoning":                halves(0, `"reasoning_content":"`, `"`) + delta("a") + ended,
		"refusal of choice 1":      halves(1, `"refusal":"`, `"`) + delta("a") + ended,
		"arguments of a tool":      halves(0, `"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"`, `"}}]`) + ended,
		"error in escapes":         delta("a") + `data: {"error":{"message":"bad ` + escaped(secretKey) + `"}}` + "\n\n",
		"error in a text":          delta("a") + `data: {"error":{"message":"{\"key\":\"` + strings.ReplaceAll(escaped(secretKey), `\`, `\\`) + `\"}"}}` + "\n\n",
		"a field that nobody asks": `data: {"x":"` + escaped(secretKey) + `","choices":[]}` + "\n\n" + delta("a") + ended,
		"a comment":                ": " + escaped(secretKey) + "\n\n" + delta("a") + ended,
		"a finish reason":          delta("a") + finish("stop "+secretKey) + done,
		"an event cut in it":       delta("a") + `data: {"x":"` + secretKey[:20],
	}
}

// inPieces tells which of them the capture cannot hide by itself.
func inPieces(name string) bool {
	return slices.Contains([]string{
		"text in two events", "escapes in two events", "text that breaks off", "reasoning", "refusal of choice 1", "arguments of a tool",
		"an event cut in it",
	}, name)
}

// quiet is a bench whose key is known, against a server that says answer.
func quiet(t *testing.T, answer string, with map[string]any) *bench {
	t.Helper()
	h := serveRaw(t, func(c net.Conn, _ int) { _, _ = io.WriteString(c, answer) })
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil, "api_key_env": "KEY"}, map[string]any{
		"load": closed(1, 2), "max_tokens": 8, "workload": map[string]any{"source": "synthetic", "context_tokens": 16},
	})
	maps.Copy(b.With, with)
	b.Env.Secrets = knowing()
	return b
}

func knowing() *stage.Secrets {
	return &stage.Secrets{Env: func(string) (string, bool) { return secretKey, true }}
}

func (b *bench) capture() []byte {
	b.t.Helper()
	raw, err := b.Env.Folder.ReadFile("capture")
	if err != nil {
		b.t.Fatal(err)
	}
	return raw
}

// wantSilence holds everything that was published, and the capture, to the rule
// that no value of a secret reaches them.
func wantSilence(t *testing.T, p published, capture []byte) {
	t.Helper()
	for name, raw := range p.Documents {
		if part, held := holdsPart(raw); held {
			t.Errorf("%s holds %q", name, part)
		}
	}
	for name, raw := range p.Streams {
		if part, held := holdsPart(raw); held {
			t.Errorf("%s holds %q", name, part)
		}
	}
	raw, err := json.Marshal(p.attempts)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{raw, capture} {
		if part, held := holdsPart(b); held {
			t.Errorf("%q is left in %.200q", part, b[max(bytes.Index(b, []byte(part))-80, 0):])
		}
	}
}

func TestNoEchoOfAKeyIsKept(t *testing.T) {
	for name, body := range echoes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, store := range []bool{true, false} {
				b := quiet(t, sse+chunks(body)+last, map[string]any{"store_text": store})
				p, err := b.run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				wantSilence(t, p, b.capture())
				for _, a := range p.attempts {
					if wiped := slices.Contains(a.Notes, "secret_wiped"); wiped != inPieces(name) {
						t.Errorf("wiped %v, notes %v", wiped, a.Notes)
					}
					if a.Text != nil && a.TextSHA256 != digest.FromBytes([]byte(*a.Text)) {
						t.Errorf("the digest is not that of %q", *a.Text)
					}
				}
			}
		})
	}
}

// No digest of a text with the key in it is published: it would prove a guess.
func TestTheDigestOfAnEchoIsOfWhatMayBeShown(t *testing.T) {
	text := "your key " + secretKey
	masked := digest.FromBytes([]byte("your key " + strings.Repeat("*", len(secretKey))))
	for _, store := range []bool{true, false} {
		b := quiet(t, sse+chunks(delta(text[:14]), delta(text[14:]), finish("stop"), done)+last, map[string]any{"store_text": store})
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a := p.attempts[0]; a.TextSHA256 != masked || a.Outcome != record.OutcomeOK {
			t.Errorf("store_text %v: digest %s, outcome %s", store, a.TextSHA256, a.Outcome)
		}
	}
}

func TestAnEchoBehindCompressionIsWiped(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = io.WriteString(w, delta("a")+`data: {"x":"`+secretKey+"\"}\n\n"+finish("stop")+done)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", z.Len())
	b := quiet(t, head+z.String(), nil)
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b.capture(), z.Bytes()[:20]) || !slices.Contains(p.attempts[0].Notes, "secret_wiped") {
		t.Errorf("notes %v", p.attempts[0].Notes)
	}
}

// What a killed process left is wiped as soon as a later one has decoded it.
func TestTheCaptureOfAKilledPhaseIsWiped(t *testing.T) {
	b := quiet(t, sse+chunks(echoes()["text in two events"])+last, nil)
	b.Env.Secrets = &stage.Secrets{} // as if it had not come to decode anything
	if _, err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := b.capture()
	if _, held := holdsPart(left); !held {
		t.Fatal("the capture holds nothing to wipe")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "capture"), left, 0o600); err != nil {
		t.Fatal(err)
	}
	later := newBench(t, nil, b.With)
	later.With, later.Inputs, later.Files, later.Env.Secrets = b.With, b.Inputs, b.Files, knowing()
	var err error
	if later.Env.Folder, err = os.OpenRoot(dir); err != nil {
		t.Fatal(err)
	}
	defer later.Env.Folder.Close()
	out, err := later.Recover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := later.read(out)
	wantSilence(t, p, later.capture())
	if len(later.capture()) != len(left) || p.attempts[0].Outcome != record.OutcomeOK {
		t.Errorf("%d of %d bytes, outcome %s", len(later.capture()), len(left), p.attempts[0].Outcome)
	}
}
