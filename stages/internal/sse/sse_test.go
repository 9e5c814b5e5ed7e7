package sse

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// parse feeds the pieces and ends the stream cleanly.
func parse(pieces ...[]byte) (events []Event, partial bool, p *Parser) {
	p = &Parser{}
	var e Event
	for _, piece := range pieces {
		p.Push(piece)
		for p.Next(&e) {
			events = append(events, clone(e))
		}
	}
	last, partial := p.Finish(&e)
	if last {
		events = append(events, clone(e))
	}
	return events, partial, p
}

func clone(e Event) Event {
	e.Name, e.Data, e.ID = bytes.Clone(e.Name), bytes.Clone(e.Data), bytes.Clone(e.ID)
	return e
}

func TestEventsFollowTheStandard(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string // name|data|id@end
		partial  bool
	}{
		{name: "line feed", in: "data: a\n\ndata: b\n\n", want: []string{"|a|@9", "|b|@18"}},
		{name: "carriage return", in: "data: a\r\rdata: b\r\r", want: []string{"|a|@9", "|b|@18"}},
		{name: "both", in: "data: a\r\n\r\ndata: b\r\n\r\n", want: []string{"|a|@10", "|b|@21"}},
		{name: "mixed", in: "data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", want: []string{"|a|@10", "|b|@19", "|c|@30"}},
		{name: "lf then cr is two line ends", in: "data: a\n\rdata: b\n\n", want: []string{"|a|@9", "|b|@18"}},
		{name: "space after the colon is optional", in: "data:a\n\n", want: []string{"|a|@8"}},
		{name: "only one space goes", in: "data:  a \n\n", want: []string{"| a |@11"}},
		{name: "a tab stays", in: "data:\ta\n\n", want: []string{"|\ta|@9"}},
		{name: "several data lines", in: "data: a\ndata: b\ndata\ndata:\n\n", want: []string{"|a\nb\n\n|@28"}},
		{name: "empty data is an event", in: "data:\n\n", want: []string{"||@7"}},
		{name: "data without colon is an event", in: "data\n\n", want: []string{"||@6"}},
		{name: "blank lines alone are none", in: "\n\n\r\r\n\n", want: nil},
		{name: "comments", in: ": ping\n\n:\ndata: a\n: in between\ndata: b\n\n: ping\n\n", want: []string{"|a\nb|@40"}},
		{name: "unknown fields", in: "foo: 1\nDATA: x\ndata : y\n data: z\ndataa: q\ndata: a\n\n", want: []string{"|a|@51"}},
		{name: "names", in: "event: one\ndata: a\n\ndata: b\n\nevent: x\nevent: y\ndata: c\n\n", want: []string{"one|a|@20", "|b|@29", "y|c|@56"}},
		{name: "a name without data is bare", in: "event: error\n\ndata: a\n\n", want: []string{"error||@14 bare", "|a|@23"}},
		{name: "ids stay", in: "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", want: []string{"|a|1@15", "|b|1@24", "|c|@36"}},
		{name: "an id with a nul is ignored", in: "id: 1\ndata: a\n\nid: 2\x00\ndata: b\n\n", want: []string{"|a|1@15", "|b|1@31"}},
		{name: "one byte-order mark", in: "\xef\xbb\xbfdata: a\n\n", want: []string{"|a|@12"}},
		{name: "two byte-order marks", in: "\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", want: []string{"|b|@24"}},
		{name: "half a byte-order mark", in: "\xef\xbbdata: a\n\ndata: b\n\n", want: []string{"|b|@20"}},
		{name: "mark later in the stream", in: "data: a\n\n\xef\xbb\xbfdata: b\n\n", want: []string{"|a|@9"}},
		{name: "no blank line at the end", in: "data: a\n\ndata: b\n", want: []string{"|a|@9", "|b|@17"}},
		{name: "no blank line at the end, cr lf", in: "data: a\r\n", want: []string{"|a|@9"}},
		{name: "ends inside a line", in: "data: a\n\ndata: b", want: []string{"|a|@9"}, partial: true},
		{name: "ends inside a later line", in: "data: a\nda", want: nil, partial: true},
		{name: "ends inside the mark", in: "\xef", want: nil, partial: true},
		{name: "colon in the value", in: "data: a: b\n\n", want: []string{"|a: b|@12"}},
		{name: "nul and invalid utf-8 pass", in: "data: \x00\xff\n\n", want: []string{"|\x00\xff|@10"}},
		{name: "nothing", in: "", want: nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, pieces := range [][][]byte{{[]byte(tt.in)}, split([]byte(tt.in), 1)} {
				events, partial, _ := parse(pieces...)
				var got []string
				for _, e := range events {
					s := fmt.Sprintf("%s|%s|%s@%d", e.Name, e.Data, e.ID, e.End)
					if e.Bare {
						s += " bare"
					}
					got = append(got, s)
				}
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Errorf("%d pieces: events of %q (-want +got):\n%s", len(pieces), tt.in, d)
				}
				if partial != tt.partial {
					t.Errorf("%d pieces: partial of %q: got %v, want %v", len(pieces), tt.in, partial, tt.partial)
				}
			}
		})
	}
}

// A field that the standard knows makes no body foreign, whatever its value.
func TestTimesToReconnectAreKnownAndIgnored(t *testing.T) {
	for _, in := range []string{"retry: 2500\n", "retry:\n", "retry: 1x\n", "retry: 99999999999999999999\n\n"} {
		if events, _, p := parse([]byte(in)); len(events) > 0 || p.Foreign() {
			t.Errorf("%q: events %v, foreign %v", in, events, p.Foreign())
		}
	}
}

func TestLimitHoldsForDataNamesAndIds(t *testing.T) {
	for name, tt := range map[string]struct {
		in  string
		err error
	}{
		"data at the limit":   {in: "data: 12345678\n\n"},
		"data over it":        {in: "data: 123456789\n\n", err: ErrTooLarge},
		"lines over it":       {in: "data: 1234\ndata: 5678\n\n", err: ErrTooLarge},
		"empty lines over it": {in: strings.Repeat("data\n", 10), err: ErrTooLarge},
		"name over it":        {in: "event: 123456789\n", err: ErrTooLarge},
		"id over it":          {in: "id: 123456789\n", err: ErrTooLarge},
		"comment over it":     {in: ": 1234567890123\n"},
		"unknown over it":     {in: "foooooooooooo: 1234567890123\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Parser{Max: 8}
			var e Event
			for _, piece := range split([]byte(tt.in), 1) {
				p.Push(piece)
				for p.Next(&e) {
					if len(e.Data) > 8 {
						t.Errorf("event of %d bytes", len(e.Data))
					}
				}
			}
			if !errors.Is(p.Err(), tt.err) {
				t.Errorf("got %v, want %v", p.Err(), tt.err)
			}
		})
	}
}

func TestResetBeginsANewStream(t *testing.T) {
	p := Parser{Max: 100}
	var e Event
	p.Push([]byte("id: 7\nretry: 5\nevent: x\ndata: half"))
	for p.Next(&e) {
	}
	p.Reset()
	p.Push([]byte("\xef\xbb\xbfdata: a\n\n"))
	if !p.Next(&e) {
		t.Fatal("no event after Reset")
	}
	if got := fmt.Sprintf("%s|%s|%s@%d", e.Name, e.Data, e.ID, e.End); got != "|a|@12" {
		t.Errorf("got %s, want a fresh stream", got)
	}
}

func TestParserAllocatesNothingAnEvent(t *testing.T) {
	stream := chatStream(100)
	pieces := split(stream, 1460)
	var p Parser
	var e Event
	n := 0
	run := func() {
		p.Reset()
		for _, piece := range pieces {
			p.Push(piece)
			for p.Next(&e) {
				n++
			}
		}
	}
	run()
	if n != 101 {
		t.Fatalf("got %d events, want 101", n)
	}
	if a := testing.AllocsPerRun(20, run); a != 0 {
		t.Errorf("got %v allocations for 101 events, want 0", a)
	}
}

func BenchmarkParser(b *testing.B) {
	stream := chatStream(256)
	pieces := split(stream, 240)
	var p Parser
	var e Event
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		p.Reset()
		for _, piece := range pieces {
			p.Push(piece)
			for p.Next(&e) {
			}
		}
	}
}

// chatStream is n events of a chat answer and its end.
func chatStream(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-9f8a","object":"chat.completion.chunk","created":1789665664,"model":"m","choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}]}`+"\n\n", i)
	}
	b.WriteString("data: [DONE]\n\n")
	return b.Bytes()
}

// split cuts b into pieces of n bytes.
func split(b []byte, n int) (pieces [][]byte) {
	for len(b) > n {
		pieces = append(pieces, b[:n:n])
		b = b[n:]
	}
	return append(pieces, b)
}

// ignoreEmpty makes nil and empty slices equal.
func ignoreEmpty() cmp.Option { return cmpopts.EquateEmpty() }
