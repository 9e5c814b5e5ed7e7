package load

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// newWorkers makes so many of one client.
func newWorkers(t *testing.T, capture *Capture, n int) []*Worker {
	t.Helper()
	c, unused := newTestClient(t, nil, Limits{})
	if err := unused.Close(); err != nil {
		t.Fatal(err)
	}
	out := make([]*Worker, n)
	for i := range out {
		out[i] = c.NewWorker(capture, &lineWatcher{})
		out[i].request, out[i].s = int32(i), &Sample{Conn: 1}
	}
	return out
}

// An open loop's workers come while it runs: each has a block in hand, however
// many they are, and more than it for what is on its way.
func TestARingGrowsWithItsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		capture := NewCapture(&memory{}, 8, Hiding{})
		over := false
		go func() {
			ws := newWorkers(t, capture, n)
			for range 3 {
				for _, w := range ws {
					w.keep(make([]byte, blockBytes), 1, None)
				}
			}
			for _, w := range ws {
				w.flush()
			}
			over = true
		}()
		synctest.Wait()
		if !over {
			t.Error("a worker waits for a block that nobody gives back")
		}
		capture.Abort()
		synctest.Wait()
		if err := capture.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// As many workers as there are blocks, each with a full one: if one held it
// while it waited for the next, all would.
func TestAWorkerThatWaitsHoldsNoBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &memory{}
		capture := NewCapture(file, 0, hiding("sk-0123456789abcdef"))
		all := capture.blocks.room
		for i := range all {
			w := &Worker{capture: capture, request: int32(i), s: &Sample{Conn: 1}}
			w.keep(bytes.Repeat([]byte("x"), blockBytes), 1, None)
			go func() {
				w.keep([]byte("the end"), 2, None)
				w.flush()
			}()
		}
		synctest.Wait()
		capture.Abort() // where the test fails
		synctest.Wait()
		if err := capture.Close(); err != nil {
			t.Fatal(err)
		}
		if made := all - capture.blocks.room; made > all {
			t.Errorf("%d blocks, there may be %d", made, all)
		}
		for i := range all {
			got := ""
			if err := capture.Replay(i, 0, nil, func(_ Read, b []byte) { got += string(b) }); err != nil || len(got) != blockBytes+7 || !strings.HasSuffix(got, "the end") {
				t.Errorf("worker %d: %d bytes, %v", i, len(got), err)
			}
		}
	})
}

// A disk that hangs keeps nobody who is given up.
func TestAnAbortEndsEveryWaitForTheCapture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &slow{gate: make(chan struct{})}
		capture := NewCapture(file, 2, Hiding{})
		var ended atomic.Int64
		for i := range 2 {
			w := &Worker{capture: capture, request: int32(i), s: &Sample{Conn: 1}}
			go func() {
				w.keep(make([]byte, 100*blockBytes), 1, None)
				w.flush()
				for range 100 {
					capture.Mark(i, 0, w.s, Fault{})
				}
				ended.Add(1)
			}()
		}
		synctest.Wait()
		if ended.Load() != 0 || capture.Waits() == 0 {
			t.Errorf("%d ended, %d waits: the disk did not hang", ended.Load(), capture.Waits())
		}
		capture.Abort()
		synctest.Wait()
		if n := ended.Load(); n != 2 {
			t.Errorf("%d workers ended after the abort", n)
		}
		close(file.gate)
		if err := capture.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			got := 0
			if err := capture.Replay(i, 0, nil, func(_ Read, b []byte) { got += len(b) }); err != nil || got != 100*blockBytes {
				t.Errorf("worker %d: %d bytes came back, %v", i, got, err)
			}
		}
	})
}

// A disk that is full is known at once, not when the phase is over.
func TestAFailedFileIsSaidAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		capture := NewCapture(&full{room: 10}, 1, Hiding{})
		capture.Mark(0, 0, &Sample{}, Fault{})
		synctest.Wait()
		select {
		case <-capture.Failed():
		default:
			t.Error("nobody said so")
		}
		if err := capture.Close(); !errors.Is(err, errFull) {
			t.Errorf("error %v", err)
		}
	})
}

// Reads of one byte fill a block's reads long before its bytes: a key longer than
// half of what there is must not be cut there.
func TestALongSecretInTinyReadsIsNotCut(t *testing.T) {
	for _, length := range []int{195, 1000, MaxSecret} {
		secret := "sk-" + strings.Repeat("0123456789abcdef", length/16+1)[:length-3]
		for before := 0; before < 2*length; before += 1 + length/50 {
			file := &memory{}
			c := NewCapture(file, 1, hiding(secret))
			w := &Worker{capture: c, s: &Sample{}}
			body := strings.Repeat("x", before) + secret + "yyy"
			for i := range len(body) {
				w.keep([]byte(body[i:i+1]), int64(i+1), None)
			}
			w.flush()
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(file.b, []byte("0123456789abcdef")) {
				t.Fatalf("a part of a secret of %d bytes is in the file, %d bytes before it", length, before)
			}
			if r, err := Recover(file); err != nil || r.Lost != 0 {
				t.Fatalf("a frame cannot be read: %+v, %v", r, err)
			}
		}
	}
}

// What is written can be read: a head of any length, the longest remark.
func TestNoFrameIsLongerThanIsRead(t *testing.T) {
	file := &memory{}
	c := NewCapture(file, 1, Hiding{})
	note := bytes.Repeat([]byte("n"), MaxNote)
	c.Note(note)
	w := &Worker{capture: c, s: &Sample{Conn: 1}}
	w.keepHead(append([]byte("HTTP/1.1 200 OK\r\n"), make([]byte, 2<<20)...))
	c.Mark(0, 0, w.s, Fault{Class: strings.Repeat("c", 1<<20), Message: strings.Repeat("m", 1<<20)})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Recover(file)
	if err != nil || r.Lost != 0 || !bytes.Equal(r.Note, note) {
		t.Fatalf("error %v, %d bytes lost, remark of %d bytes", err, r.Lost, len(r.Note))
	}
	if err := c.Replay(0, 0, func(b []byte) {
		if status, _ := ParseHead(b); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}, nil); err != nil {
		t.Error(err)
	}
}
