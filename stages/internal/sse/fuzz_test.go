package sse

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	gosse "github.com/tmaxmax/go-sse"
)

// FuzzAnySplitGivesTheSameEvents holds the parser against the standard's
// algorithm on arbitrary bytes, cut as cuts says.
func FuzzAnySplitGivesTheSameEvents(f *testing.F) {
	for _, s := range []string{
		"data: a\r\n\r\n: c\n\nevent: e\nid: 4\nretry: 10\ndata\n\n",
		"\xef\xbb\xbfdata:x\rdata: y\r\rdata: [DONE]",
		"event: error\n\nid: \x00\nfoo:bar\ndata: {}\n",
		"data: é中😀\n\n", "\xef\xbbdata: a\n\n", "retry: 007\nretry: 1e3\n\n",
	} {
		f.Add([]byte(s), []byte{1, 2, 3, 0, 7})
	}
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		got, partial, _ := parse(cut(stream, cuts)...)
		whole, _, _ := parse(stream)
		if d := cmp.Diff(whole, got, ignoreEmpty()); d != "" {
			t.Fatalf("cut otherwise, %q gives other events:\n%s", stream, d)
		}
		want, wantPartial := reference(string(stream))
		if d := cmp.Diff(want, got, ignoreEmpty(), cmpopts.IgnoreFields(Event{}, "End")); d != "" {
			t.Fatalf("events of %q (-reference +got):\n%s", stream, d)
		}
		if partial != wantPartial {
			t.Fatalf("partial of %q: got %v, want %v", stream, partial, wantPartial)
		}
		checkEnds(t, stream, got)
	})
}

// checkEnds: an event ends right after a line end, later than the one before, and
// the bytes up to there give the event already.
func checkEnds(t *testing.T, stream []byte, events []Event) {
	t.Helper()
	var before int64
	for i, e := range events {
		if e.End <= before || e.End > int64(len(stream)) || !bytes.ContainsRune([]byte("\r\n"), rune(stream[e.End-1])) {
			t.Fatalf("event %d of %q ends at %d", i, stream, e.End)
		}
		before = e.End
		upto, _, _ := parse(stream[:e.End])
		if len(upto) != i+1 {
			t.Fatalf("%q holds %d events before offset %d, want %d", stream, len(upto), e.End, i+1)
		}
	}
}

// cut divides b into pieces of the lengths in cuts, again and again.
func cut(b, cuts []byte) (pieces [][]byte) {
	for i := 0; len(b) > 0; i++ {
		n := 1
		if len(cuts) > 0 {
			n = min(int(cuts[i%len(cuts)])%64, len(b))
		}
		pieces = append(pieces, b[:n])
		b = b[n:]
		if n == 0 && i > 2*len(cuts) {
			pieces = append(pieces, b)
			break
		}
	}
	return pieces
}

// FuzzAgreesWithGoSSE writes a well-formed stream from arbitrary bytes and reads
// it with both.
func FuzzAgreesWithGoSSE(f *testing.F) {
	f.Add([]byte("hello\x01there\x02\x03general"), byte(0))
	f.Add([]byte("\x05\x04a\x00b\x01c"), byte(1))
	f.Add([]byte("multi\x06line\x06text\x02done"), byte(2))
	f.Fuzz(func(t *testing.T, script []byte, ends byte) {
		stream := wellFormed(script, []string{"\n", "\r\n", "\r"}[ends%3])
		got, _, _ := parse([]byte(stream))
		got = withData(got)
		var want []Event
		for e, err := range gosse.Read(strings.NewReader(stream), &gosse.ReadConfig{MaxEventSize: len(stream) + 1024}) {
			if err != nil {
				t.Fatalf("go-sse: %q: %v", stream, err)
			}
			if e.Data != "" {
				want = append(want, Event{Name: []byte(e.Type), Data: []byte(e.Data), ID: []byte(e.LastEventID)})
			}
		}
		if d := cmp.Diff(want, got, ignoreEmpty(), cmpopts.IgnoreFields(Event{}, "End")); d != "" {
			t.Fatalf("events of %q (-go-sse +got):\n%s", stream, d)
		}
	})
}

// withData drops what go-sse cannot tell from nothing.
func withData(events []Event) (kept []Event) {
	for _, e := range events {
		if len(e.Data) > 0 {
			kept = append(kept, e)
		}
	}
	return kept
}

// wellFormed writes a stream: bytes below 8 are structure, the rest is text.
func wellFormed(script []byte, end string) string {
	var b strings.Builder
	for _, c := range script {
		switch c {
		case 0:
			b.WriteString(end + ": comment" + end)
		case 1:
			b.WriteString(end + end + "data: ")
		case 2:
			b.WriteString(end + "event: name" + end + "data:")
		case 3:
			b.WriteString(end + "id: 12" + end)
		case 4:
			b.WriteString(end + "retry: 30" + end)
		case 5:
			b.WriteString(end + "unknown: 1" + end + "data: ")
		case 6:
			b.WriteString(end + "data:  ")
		case 7, '\r', '\n':
			b.WriteString(end + "data" + end)
		default:
			b.WriteByte(c)
		}
	}
	return "data: " + b.String() + end + end
}
