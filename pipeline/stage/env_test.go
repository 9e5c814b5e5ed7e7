package stage

import (
	"errors"
	"io"
	"testing"
)

func TestNamedStreamsDoNotShiftEachOther(t *testing.T) {
	e := Env{Seed: SeedOf(20260920)}
	want := e.Rand("prompts").Uint64()
	e.Rand("arrivals").Uint64()
	if got := e.Rand("prompts").Uint64(); got != want {
		t.Errorf("prompts drew %d after arrivals was used, %d before", got, want)
	}
	if e.Rand("arrivals").Uint64() == want {
		t.Error("two names give one stream")
	}
	if (Env{Seed: SeedOf(1)}).Rand("prompts").Uint64() == want {
		t.Error("two seeds give one stream")
	}
}

type closer struct {
	name string
	log  *[]string
	err  error
}

func (c closer) Close() error { *c.log = append(*c.log, c.name); return c.err }

func TestResourcesAreOpenedOnceAndClosedInReverse(t *testing.T) {
	var r Resources
	var log []string
	opened := 0
	open := func(name string, err error) func() (io.Closer, error) {
		return func() (io.Closer, error) { opened++; return closer{name, &log, err}, nil }
	}
	fault := errors.New("fault")
	for range 3 {
		if _, err := r.Get("a", open("a", fault)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Get("b", open("b", nil)); err != nil {
		t.Fatal(err)
	}
	if opened != 2 {
		t.Errorf("opened %d times, want 2", opened)
	}
	if err := r.Close(); !errors.Is(err, fault) {
		t.Errorf("Close = %v, want the first error", err)
	}
	if len(log) != 2 || log[0] != "b" || log[1] != "a" {
		t.Errorf("closed %v, want b, a", log)
	}
	if err := r.Close(); err != nil || len(log) != 2 {
		t.Errorf("a second Close: %v, closed %v", err, log)
	}
}

func TestProgressTally(t *testing.T) {
	var p Progress
	if p.Tally() != nil || p.Unit() != "" {
		t.Error("a new Progress has a tally")
	}
	p.Count("ok")
	p.Count("ok")
	p.Count("cut")
	if got := p.Tally(); got["ok"] != 2 || got["cut"] != 1 {
		t.Errorf("tally %v", got)
	}
}
