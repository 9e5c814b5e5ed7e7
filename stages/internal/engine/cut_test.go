package engine

import (
	"hash/fnv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/stages/internal/sse"
)

// TestCapturesReplayAtEveryCut: cutting a body anywhere changes nothing that it
// says. Each is cut at all positions at once and in two at every position: small
// ones are decoded each time, of large ones every sixteenth, and between those
// it is shown that the adapter is given the same events.
func TestCapturesReplayAtEveryCut(t *testing.T) {
	const small, stride = 700, 16
	for _, c := range allCaptures(t) {
		if c.head.Status != 200 || !c.streams() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := c.protocol(t)
			want := says(decode(p, c.head, c.body))
			if d := cmp.Diff(want, says(decode(p, c.head, everyByte(c.body)...)), ignoreEmpty()); d != "" {
				t.Fatalf("cut at every byte (-whole +cut):\n%s", d)
			}
			events := given(p, c.body)
			for i := range c.body {
				if len(c.body) > small && i%stride != 0 {
					if given(p, c.body[:i], c.body[i:]) != events {
						t.Fatalf("cut at %d the adapter is given other events", i)
					}
					continue
				}
				got := says(decode(p, c.head, c.body[:i], c.body[i:]))
				if !same(want, got) {
					t.Fatalf("cut at %d (-whole +cut):\n%s", i, cmp.Diff(want, got, ignoreEmpty()))
				}
			}
		})
	}
}

// given is a hash of the events into which a body is divided.
func given(p *Protocol, pieces ...[]byte) uint64 {
	var s splitter
	var e sse.Event
	s.reset(p.Adapter.Framing(), 0)
	h := fnv.New64a()
	for _, b := range pieces {
		s.push(b)
		for s.next(&e) {
			h.Write(e.Name)
			h.Write([]byte{0})
			h.Write(e.Data)
			h.Write([]byte{1})
		}
	}
	if event, _ := s.finish(&e); event {
		h.Write(e.Data)
	}
	return h.Sum64()
}

// same is cmp.Equal without its cost.
func same(a, b said) bool {
	return a.Outcome == b.Outcome && a.Text == b.Text && a.Reasoning == b.Reasoning && a.Usage == b.Usage &&
		a.Kinds == b.Kinds && a.Done == b.Done && a.Model == b.Model && a.Choices == b.Choices && a.Message == b.Message &&
		len(a.Tools) == len(b.Tools) && len(a.Notes) == len(b.Notes) && len(a.Finish) == len(b.Finish) &&
		(len(a.Finish) == 0 || a.Finish[0] == b.Finish[0]) && (len(a.Tools) == 0 || a.Tools[0] == b.Tools[0])
}

func everyByte(b []byte) (pieces [][]byte) {
	for i := range b {
		pieces = append(pieces, b[i:i+1])
	}
	return pieces
}

// TestWatcherSeesWhatTheDecoderSees: while a phase runs, the same events are
// output and the same byte is the end, wherever reads cut the body.
func TestWatcherSeesWhatTheDecoderSees(t *testing.T) {
	for _, c := range allCaptures(t) {
		p := c.protocol(t)
		for _, pieces := range [][][]byte{{c.body}, everyByte(c.body)} {
			a := decode(p, c.head, pieces...)
			outputs, ended := watch(p, c.head, pieces...)
			// A last line without its end is an event only at the body's end.
			streamed := c.streams() && c.head.Status == 200 && c.body[len(c.body)-1] == '\n'
			if want := len(a.Arrivals); outputs != want {
				t.Errorf("%s, %d pieces: the watcher saw %d outputs, the decoder %d", c.name, len(pieces), outputs, want)
			}
			if streamed && ended != a.DoneMarker {
				t.Errorf("%s, %d pieces: the watcher saw the end: %v, the decoder: %v", c.name, len(pieces), ended, a.DoneMarker)
			}
		}
	}
}

func watch(p *Protocol, head Head, pieces ...[]byte) (outputs int, ended bool) {
	w := p.NewWatcher(Limits{})
	defer w.Close()
	w.Reset(head)
	for _, b := range pieces {
		s := w.Feed(b)
		outputs += s.Outputs
		if s.End == EndMark {
			return outputs, true
		}
	}
	return outputs, false
}
