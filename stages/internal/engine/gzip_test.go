package engine

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"anvil/stages/record"
)

func gzipHead() Head {
	h := streamHead()
	h.Header.Set("Content-Encoding", "gzip")
	return h
}

// blocks compresses each part into blocks of its own and returns what each added.
func blocks(tb testing.TB, parts ...[]byte) (pieces [][]byte) {
	tb.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i, part := range parts {
		_, err := z.Write(part)
		if err == nil {
			err = z.Flush()
		}
		if err == nil && i == len(parts)-1 {
			err = z.Close()
		}
		if err != nil {
			tb.Fatal(err)
		}
		pieces = append(pieces, bytes.Clone(b.Bytes()))
		b.Reset()
	}
	return pieces
}

func TestGzipIsDecodedByBlock(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	parts := blocks(t, chat(text("a"), text("b")), chat(text("c")), chat(finish("stop"), done))
	d := p.NewDecoder(Want{StoreText: true})
	d.Head(gzipHead())
	for i, b := range parts {
		d.Read(Read{At: int64(i+1) * 1000}, b)
	}
	a := d.End(Ending{Kind: EndClean})
	wantOutcome(t, a, record.OutcomeOK)
	wantText(t, a, "abc")
	if a.Coalesced != "110" || *a.FirstOutput != 1000 || *a.LastOutput != 2000 || *a.End != 3000 {
		t.Errorf("got %s, %d, %d, %d", a.Coalesced, *a.FirstOutput, *a.LastOutput, *a.End)
	}
	whole := bytes.Join(parts, nil)
	for i := range whole {
		if cut := decode(p, gzipHead(), whole[:i], whole[i:]); cut.Content != "abc" || cut.Outcome != record.OutcomeOK {
			t.Fatalf("cut at %d: got %q, %s", i, cut.Content, cut.Outcome)
		}
	}
	if outputs, ended := watch(p, gzipHead(), everyByte(whole)...); outputs != 3 || !ended {
		t.Errorf("the watcher saw %d outputs, end %v", outputs, ended)
	}
}

func TestGzipWithoutFlushesIsOneArrival(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	whole := blocks(t, chat(text("a"), text("b"), finish("stop"), done))[0]
	d := p.NewDecoder(Want{StoreText: true})
	d.Head(gzipHead())
	d.Read(Read{At: 1}, whole[:12])
	d.Read(Read{At: 2}, whole[12:])
	if a := d.End(Ending{Kind: EndClean}); a.Coalesced != "11" || *a.FirstOutput != 2 {
		t.Errorf("got %s, %v", a.Coalesced, a.FirstOutput)
	}
}

func TestBrokenGzipIsNamed(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	whole := blocks(t, chat(text("a"), finish("stop")), chat(done))
	for name, tt := range map[string]struct {
		body []byte
		end  EndKind
		want record.Outcome
	}{
		"not gzip":        {chat(text("a"), finish("stop"), done), EndClean, record.OutcomeMalformed},
		"ends early":      {whole[0][:len(whole[0])-8], EndClean, record.OutcomeMalformed},
		"cut":             {blocks(t, chat(text("a")), chat(done))[0], EndCut, record.OutcomeCut},
		"complete, cut":   {whole[0], EndCut, record.OutcomeOK},
		"nothing at all":  {nil, EndClean, record.OutcomeCut},
		"flipped in data": {flipped(bytes.Join(whole, nil), 20), EndClean, record.OutcomeMalformed},
	} {
		if a := decodeEnding(p, gzipHead(), Ending{Kind: tt.end}, tt.body); a.Outcome != tt.want {
			t.Errorf("%s: got %s, %+v; want %s", name, a.Outcome, a.Error, tt.want)
		}
	}
}

func flipped(b []byte, i int) []byte {
	b = bytes.Clone(b)
	b[i] ^= 0xff
	return b
}

func TestAGzipBombIsBounded(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	bomb := blocks(t, []byte(":"+strings.Repeat("x", 8<<20)))[0]
	w := p.NewWatcher(Limits{MaxBody: 1 << 20})
	w.Reset(gzipHead())
	if s := w.Feed(bomb); s.End != EndBodyTooLarge {
		t.Errorf("watcher: got %+v for %d bytes", s, len(bomb))
	}
	w.Close()
	d := p.NewDecoder(Want{Limits: Limits{MaxBody: 1 << 20}})
	d.Head(gzipHead())
	d.Read(Read{At: 1}, bomb)
	if a := d.End(Ending{Kind: EndBodyTooLarge}); a.Outcome != record.OutcomeMalformed || a.Error.Class != "body_too_large" {
		t.Errorf("decoder: got %s, %+v", a.Outcome, a.Error)
	}
}

func TestCompressedErrorsAreRead(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	body := blocks(t, []byte(`{"error":{"message":"boom"}}`))[0]
	a := decode(p, Head{Status: 500, Header: http.Header{"Content-Encoding": {"gzip"}}}, body)
	if a.Outcome != record.OutcomeHTTPError || a.Error.Message != "boom" {
		t.Errorf("got %s, %+v", a.Outcome, a.Error)
	}
}
