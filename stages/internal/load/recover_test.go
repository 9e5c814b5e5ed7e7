package load

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// frames writes a phase of three requests: one that ended, one in mid-answer,
// one that had only begun.
func frames(t interface{ Fatal(...any) }) (*memory, *Sample) {
	file := &memory{}
	c := NewCapture(file, 2, Hiding{})
	c.Note([]byte("a remark"))
	ended := NewSample(5)
	ended.Begun, ended.Start, ended.Sent, ended.Conn = true, 6, 7, 3
	w := &Worker{capture: c, request: 0, s: &ended}
	c.Mark(0, 0, &ended, Fault{})
	w.keepHead([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	w.keep([]byte("whole"), 40, None)
	w.flush()
	ended.Ending, ended.End, ended.Status, ended.Reused = EndReset, 50, 200, true
	c.Mark(0, 0, &ended, Fault{"reset", "by peer"})
	open := NewSample(8)
	open.Begun, open.Start = true, 9
	w.request, w.s = 1, &open
	w.keepHead([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	w.keep([]byte("ha"), 60, None)
	w.flush()
	begun := NewSample(70)
	begun.Begun, begun.Start = true, 71
	c.Mark(3, 0, &begun, Fault{})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return file, &ended
}

func TestACaptureIsReadWithoutTheProcessThatWroteIt(t *testing.T) {
	file, ended := frames(t)
	r, err := Recover(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Note) != "a remark" || r.Begun != 4 || r.Last != 71 || r.Lost != 0 || len(r.Tries) != 3 {
		t.Errorf("%+v", r)
	}
	if got := r.Tries[0][0]; *got.Sample != *ended || got.Fault != (Fault{"reset", "by peer"}) {
		t.Errorf("got %+v %+v, want %+v", *got.Sample, got.Fault, *ended)
	}
	for request, end := range map[int]int64{1: 60, 3: 71} {
		if s := r.Tries[request][0].Sample; s.Ending != EndAborted || s.End != end {
			t.Errorf("request %d: %+v, want given up at %d", request, *s, end)
		}
	}
	if got := replay(t, r.Capture, 0); got.body != "whole" || got.head == "" {
		t.Errorf("request 0: %+v", got)
	}
	if got := replay(t, r.Capture, 1); got.body != "ha" || got.at[0] != 60 {
		t.Errorf("request 1: %+v", got)
	}
}

// Wherever the file ends, or one bit is wrong, what stands before it is read.
func TestOnlyTheLastFrameCanBeLost(t *testing.T) {
	file, _ := frames(t)
	var ends []int
	for at := 0; at < len(file.b); {
		_, raw, err := nextFrame(bytes.NewReader(file.b[at:]), nil)
		if err != nil {
			t.Fatal(err)
		}
		at += len(raw)
		ends = append(ends, at)
	}
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(file.b)-1).Draw(t, "at")
		b := bytes.Clone(file.b)
		if rapid.Bool().Draw(t, "cut") {
			b = b[:at]
		} else {
			b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		}
		r, err := Recover(&memory{b: b})
		if err != nil {
			t.Fatal(err)
		}
		whole := 0
		for _, end := range ends {
			if end <= at {
				whole = end
			}
		}
		if r.Capture.size != int64(whole) {
			t.Fatalf("damage at %d: read to %d, want %d", at, r.Capture.size, whole)
		}
	})
}

func FuzzRecover(f *testing.F) {
	file, _ := frames(f)
	f.Add(file.b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Recover(&memory{b: b})
		if err != nil {
			t.Fatal(err)
		}
		for request, tries := range r.Tries {
			for try := range tries {
				if err := r.Capture.Replay(request, try, func([]byte) {}, func(Read, []byte) {}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A kill at any moment of a slow answer loses none of what came more than
// blockAge before.
func TestASlowAnswerDoesNotWaitInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(int, int) []piece {
			return []piece{{0, streamHead + chunk("data: a\n")}, {time.Second, chunk("data: b\n")}, {time.Hour, "close"}}
		})
		c, capture := newTestClient(t, s.dial, Limits{})
		file := capture.file.(*memory)
		w := c.NewWorker(capture, &lineWatcher{})
		c.Begin()
		over := make(chan struct{})
		go func() {
			defer close(over)
			sample := NewSample(0)
			w.Do(t.Context(), Job{Payload: []byte("{}")}, &sample)
		}()
		time.Sleep(time.Second + time.Duration(blockAge)) // of the bubble
		synctest.Wait()
		r, err := Recover(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := replay(t, r.Capture, 0); got.body != "data: a\ndata: b\n" {
			t.Errorf("the file holds %q", got.body)
		}
		if s := r.Tries[0][0].Sample; s.Ending != EndAborted || s.Sent == None || s.Headers == None || s.End != int64(time.Second) {
			t.Errorf("%+v", *s)
		}
		c.Abort()
		<-over
		w.Close()
		if err := capture.Close(); err != nil {
			t.Error(err)
		}
	})
}
