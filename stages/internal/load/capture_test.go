package load

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// secretly returns a redactor of one secret, as Env.Secrets has it.
func secretly(secret string) func([]byte) {
	return func(b []byte) {
		for at := 0; ; {
			i := bytes.Index(b[at:], []byte(secret))
			if i < 0 {
				return
			}
			copy(b[at+i:], strings.Repeat("*", len(secret)))
			at += i + len(secret)
		}
	}
}

func hiding(secret string) Hiding { return Hiding{Whole: secretly(secret), Longest: len(secret)} }

// However reads and blocks cut a body, it comes back whole, with the stamp of
// every byte, and no secret is in the file.
func TestCaptureGivesBackWhatCame(t *testing.T) {
	const secret = "sk-0123456789abcdef"
	rapid.Check(t, func(t *rapid.T) {
		file := &memory{}
		c := NewCapture(file, 1, hiding(secret))
		w := &Worker{capture: c, request: 3, s: &Sample{Conn: 1}}
		var body []byte
		var at []int64 // of every byte
		r := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		for read := range rapid.IntRange(1, 300).Draw(t, "reads") {
			p := bytes.Repeat([]byte{byte('a' + read%26)}, 1+r.IntN(rapid.SampledFrom([]int{3, 200, blockBytes / 4}).Draw(t, "size")))
			if r.IntN(4) == 0 && len(p) > len(secret) {
				copy(p[r.IntN(len(p)-len(secret)):], secret)
			}
			w.keep(p, int64(read), None)
			body = append(body, p...)
			for range p {
				at = append(at, int64(read))
			}
		}
		w.flush()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(file.b, []byte(secret)) {
			t.Fatal("the file holds the secret")
		}
		secretly(secret)(body)
		var got []byte
		var gotAt []int64
		if err := c.Replay(3, 0, nil, func(r Read, b []byte) {
			got = append(got, b...)
			for range b {
				gotAt = append(gotAt, r.At)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, body) {
			t.Fatalf("%d bytes came back of %d", len(got), len(body))
		}
		if !equal(gotAt, at) {
			t.Fatal("bytes came back with stamps of other reads")
		}
	})
}

// A secret that the server sends in two reads is no more in the file than one
// that comes whole.
func TestSecretAcrossReadsAndBlocks(t *testing.T) {
	const secret = "sk-0123456789abcdef"
	for _, before := range []int{0, 5, blockBytes - 18, blockBytes - 10, blockBytes - 1, blockBytes} {
		for cut := 1; cut < len(secret); cut++ {
			file := &memory{}
			c := NewCapture(file, 1, hiding(secret))
			w := &Worker{capture: c, s: &Sample{}}
			w.keep(bytes.Repeat([]byte("x"), before), 1, None)
			w.keep([]byte(secret[:cut]), 2, None)
			w.keep([]byte(secret[cut:]), 3, None)
			w.flush()
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{secret, secret[:cut], secret[cut:]} {
				if len(part) > 3 && bytes.Contains(file.b, []byte(part)) {
					t.Fatalf("after %d bytes, cut at %d: the file holds %q", before, cut, part)
				}
			}
		}
	}
}

// full is a disk that takes some bytes and no more.
type full struct {
	memory
	room int
}

var errFull = errors.New("no space left on device")

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.room {
		return 0, errFull
	}
	f.room -= len(p)
	return f.memory.Write(p)
}

// A full disk is an error at the end, and nobody waits for ever.
func TestFullDiskIsAnErrorAndNoHang(t *testing.T) {
	c := NewCapture(&full{room: 100_000}, 2, Hiding{})
	w := &Worker{capture: c, s: &Sample{}}
	for i := range 100 {
		w.request = int32(i)
		w.keep(make([]byte, 10_000), int64(i), None)
		w.flush()
	}
	if err := c.Close(); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
}

func TestDamagedCaptureIsNoticed(t *testing.T) {
	file := &memory{}
	c := NewCapture(file, 1, Hiding{})
	w := &Worker{capture: c, s: &Sample{}}
	w.keep([]byte("data: a\n"), 1, None)
	w.flush()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range file.b {
		file.b[i] ^= 1
		if err := c.Replay(0, 0, func([]byte) {}, func(Read, []byte) {}); !errors.Is(err, errFrame) {
			t.Errorf("byte %d changed: error %v", i, err)
		}
		file.b[i] ^= 1
	}
}

// slow is a file whose writes wait until they are let through.
type slow struct {
	memory
	gate chan struct{}
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.gate
	return s.memory.Write(p)
}

// Behind a disk that does not take it, an answer of any length costs the ring
// and no more: the worker waits, which is counted, and nothing is lost.
func TestAFullRingIsCountedAndMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &slow{gate: make(chan struct{})}
		c := NewCapture(file, 1, Hiding{})
		w := &Worker{capture: c, s: &Sample{Conn: 1}}
		sum := 0
		go func() {
			p := bytes.Repeat([]byte{'x'}, 1<<20)
			for range 8 {
				w.keep(p, 1, None)
				sum += len(p)
			}
			w.flush()
		}()
		synctest.Wait()
		if c.Waits() == 0 || c.blocks.room != 0 || sum != 0 {
			t.Errorf("%d waits, room for %d blocks, %d bytes taken in", c.Waits(), c.blocks.room, sum)
		}
		close(file.gate)
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		got := 0
		if err := c.Replay(0, 0, nil, func(_ Read, b []byte) { got += len(b) }); err != nil || got != 8<<20 {
			t.Errorf("%d bytes came back, %v", got, err)
		}
	})
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) { return copy(m.b[off:], p), nil }

// A purged body keeps its lengths and its stamps, and its neighbours keep all.
func TestPurgeLeavesNothingOfABody(t *testing.T) {
	file := &memory{}
	c := NewCapture(file, 1, Hiding{})
	w := &Worker{capture: c, s: &Sample{Conn: 1}}
	long := strings.Repeat("half of a secret", 2*blockBytes/16)
	for i := range 3 {
		w.request = int32(i)
		for try := range 2 {
			w.try = int32(try)
			w.keepHead([]byte("HTTP/1.1 200 OK\r\n\r\n"))
			w.keep([]byte(long), int64(10*i+1), None)
			w.keep([]byte("end"), int64(10*i+2), None)
			w.flush()
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	size := len(file.b)
	c.Doom(1, 0)
	if err := c.Purge(); err != nil {
		t.Fatal(err)
	}
	again, err := Recover(file)
	if err != nil || again.Lost != 0 || len(file.b) != size {
		t.Fatalf("error %v, %d bytes lost, %d of %d there", err, again.Lost, len(file.b), size)
	}
	for i := range 3 {
		for try := range 2 {
			var head, body string
			var last int64
			if err := again.Capture.Replay(i, try, func(b []byte) { head += string(b) }, func(r Read, b []byte) { body, last = body+string(b), r.At }); err != nil {
				t.Fatal(err)
			}
			want := long + "end"
			if i == 1 && try == 0 {
				want = strings.Repeat("*", len(want))
			}
			if body != want || last != int64(10*i+2) || !strings.HasPrefix(head, "HTTP") {
				t.Errorf("request %d, try %d: %d bytes, the last at %d, head %q", i, try, len(body), last, head)
			}
		}
	}
}
