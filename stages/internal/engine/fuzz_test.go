package engine

import (
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"anvil/stages/record"
)

// FuzzDecode: whatever a server sends to whatever adapter, the answer is whole,
// writable and the same however reads cut it, and the watcher agrees.
func FuzzDecode(f *testing.F) {
	for _, c := range allCaptures(f) {
		if len(c.body) < 1500 {
			i := slices.IndexFunc(All(), func(a Adapter) bool { return a.API() == c.api() })
			f.Add(byte(i), true, uint16(c.head.Status), c.body, []byte{9, 1, 200})
		}
	}
	for i, a := range All() {
		tt := transcripts[a.API()]
		p := protocolFor(f, a.API(), true)
		f.Add(byte(i), true, uint16(200), tt.stream(p, tt.pieces, tt.end), []byte{3})
		f.Add(byte(i), false, uint16(200), []byte(tt.whole), []byte{7})
	}
	f.Fuzz(func(t *testing.T, api byte, stream bool, status uint16, body, cuts []byte) {
		a := All()[int(api)%len(All())]
		p := protocolFor(t, a.API(), stream)
		head := headFor(p)
		head.Status = 100 + int(status)%500
		whole := decode(p, head, body)
		pieces := cutBy(body, cuts)
		if got := decode(p, head, pieces...); !same(says(whole), says(got)) || got.TextSHA256 != whole.TextSHA256 {
			t.Fatalf("cut otherwise, %q says\n%+v\nand not\n%+v", body, says(got), says(whole))
		}
		checkAnswer(t, whole)
		outputs, _ := watch(p, head, pieces...)
		// What only the clean end completes, the watcher cannot have seen.
		if n := len(whole.Arrivals); outputs != n && outputs != n-1 {
			t.Fatalf("%q: the watcher saw %d outputs, the decoder %d", body, outputs, n)
		}
	})
}

func cutBy(b, cuts []byte) (pieces [][]byte) {
	for i := 0; len(b) > 0; i++ {
		n := 1
		if len(cuts) > 0 {
			n = 1 + int(cuts[i%len(cuts)])
		}
		n = min(n, len(b))
		pieces = append(pieces, b[:n])
		b = b[n:]
	}
	return pieces
}

func checkAnswer(t *testing.T, a Answer) {
	t.Helper()
	if !slices.Contains(record.Outcomes(), a.Outcome) {
		t.Fatalf("outcome %q", a.Outcome)
	}
	if a.Outcome.Success() != (a.Error == nil) {
		t.Fatalf("%s with error %+v", a.Outcome, a.Error)
	}
	n := len(a.Arrivals)
	if len(a.ArrivalKinds) != n || len(a.Coalesced) != n || len(a.SeenEmpty) != n {
		t.Fatalf("%d arrivals, %q, %q, %d", n, a.ArrivalKinds, a.Coalesced, len(a.SeenEmpty))
	}
	// A part that the server does not state is null without a reason.
	u := a.Usage
	unknown, whole := u.Output == nil || u.Input == nil, u.Reasoning != nil && u.Cached != nil
	if unknown && u.Reason == nil || !unknown && whole && u.Reason != nil {
		t.Fatalf("usage %+v", u)
	}
	if a.Usage.Output != nil && *a.Usage.Output < 0 || !utf8.ValidString(a.Content) {
		t.Fatalf("usage %+v, content %q", a.Usage, a.Content)
	}
	var attempt record.Attempt
	a.Put(&attempt)
	if _, err := json.Marshal(attempt); err != nil {
		t.Fatal(err)
	}
}
