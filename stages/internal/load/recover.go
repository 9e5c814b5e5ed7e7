package load

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"slices"
)

// A Recovered is what the capture of a phase holds whose process was killed.
type Recovered struct {
	Capture *Capture // can be replayed
	Note    []byte   // the last remark on the phase, nil for none
	Tries   map[int][]Tried
	Begun   int   // requests: one more than the largest index seen
	Last    int64 // the latest stamp of all
	Lost    int64 // bytes at the end that are no whole frame
}

// A Tried is one try of a request.
type Tried struct {
	Sample *Sample
	Fault  Fault
}

// maxFrame bounds a frame: a damaged length must not be believed.
const maxFrame = 1 << 20

// Recover reads a capture from its beginning as far as it is whole. Requests
// that had not ended are given up at the last stamp that is known of them.
func Recover(file Storage) (*Recovered, error) {
	r := &Recovered{Capture: &Capture{file: file}, Tries: map[int][]Tried{}}
	in := bufio.NewReaderSize(io.NewSectionReader(file, 0, math.MaxInt64), batchBytes)
	var raw []byte
	for {
		f, next, err := nextFrame(in, raw[:0])
		raw = next
		if err != nil {
			r.Lost = int64(len(raw))
			if errors.Is(err, errFrame) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			return nil, err
		}
		r.take(f, raw)
		r.Capture.size += int64(len(raw))
	}
	slices.SortStableFunc(r.Capture.index, compareFrames)
	r.settle()
	return r, nil
}

// A frameHead is the header of a frame.
type frameHead struct {
	request, try          int32
	head                  bool
	reads, bytes, witness int32
}

// play hands out what a frame holds.
func (f frameHead) play(raw []byte, head func([]byte), read func(Read, []byte)) {
	data := raw[frameHeader+int(f.reads)*readSize:][:f.bytes]
	if f.head {
		head(data)
		return
	}
	le := binary.LittleEndian
	for i := range int(f.reads) {
		p := raw[frameHeader+i*readSize:]
		n := int(le.Uint32(p[16:]))
		read(Read{At: int64(le.Uint64(p)), Empty: int64(le.Uint64(p[8:]))}, data[:n])
		data = data[n:]
	}
}

// nextFrame reads one frame whole. With an error it returns what there was of it.
func nextFrame(in io.Reader, raw []byte) (f frameHead, got []byte, err error) {
	raw = slices.Grow(raw, frameHeader)[:frameHeader]
	if n, err := io.ReadFull(in, raw); err != nil {
		return f, raw[:n], err
	}
	le := binary.LittleEndian
	word := func(i int) uint32 { return le.Uint32(raw[4*i:]) }
	reads, bytes, witness := uint64(word(4)), uint64(word(5)), uint64(word(6))
	size := frameHeader + reads*readSize + bytes + witness + 4
	if word(0) != frameMagic || size > maxFrame {
		return f, raw, errFrame
	}
	f = frameHead{
		request: int32(word(1)), try: int32(word(2) >> 1), head: word(2)&1 == 1, reads: int32(reads), bytes: int32(bytes), witness: int32(witness),
	}
	raw = slices.Grow(raw, int(size)-frameHeader)[:size]
	if n, err := io.ReadFull(in, raw[frameHeader:]); err != nil {
		return f, raw[:frameHeader+n], err
	}
	sum := len(raw) - 4
	if crc32.ChecksumIEEE(raw[:sum]) != le.Uint32(raw[sum:]) || !f.sound(raw) {
		return f, raw, errFrame
	}
	return f, raw, nil
}

// sound tells whether the reads of a frame are as long as its bytes.
func (f frameHead) sound(raw []byte) bool {
	if f.head {
		return true
	}
	var sum int64
	for i := range int(f.reads) {
		n := int32(binary.LittleEndian.Uint32(raw[frameHeader+i*readSize+16:]))
		if sum += int64(n); n < 0 {
			return false
		}
	}
	return f.reads == 0 || sum == int64(f.bytes)
}

func (r *Recovered) take(f frameHead, raw []byte) {
	if f.request == noteRequest {
		r.Note = slices.Clone(raw[frameHeader:][:f.bytes])
		return
	}
	if f.head || f.reads > 0 {
		r.Capture.index = append(r.Capture.index, frameAt(f.request, f.try, f.head, r.Capture.size))
	}
	if f.request < 0 || f.try < 0 || f.try > maxTries {
		return
	}
	tries := r.Tries[int(f.request)]
	for len(tries) <= int(f.try) {
		s := NewSample(None)
		tries = append(tries, Tried{Sample: &s})
	}
	try := &tries[f.try]
	if f.witness > 0 {
		*try.Sample, try.Fault = readWitness(raw[len(raw)-4-int(f.witness) : len(raw)-4])
	}
	f.play(raw, func([]byte) {}, func(read Read, p []byte) {
		s := try.Sample
		s.LastOutput = max(s.LastOutput, read.At) // until settle: the last stamp
		if s.FirstByte == None {
			s.FirstByte = read.At
		}
		s.Bytes += int64(len(p))
	})
	r.Tries[int(f.request)] = tries
	r.Begun = max(r.Begun, int(f.request)+1)
}

// maxTries bounds what a damaged number can ask for.
const maxTries = 1 << 16

// settle gives up what had not ended.
func (r *Recovered) settle() {
	for _, tries := range r.Tries {
		for i := range tries {
			s := tries[i].Sample
			last := max(s.Due, s.Start, s.Connected, s.Sent, s.Written, s.Headers, s.FirstByte, s.LastOutput, s.End)
			if s.Begun && s.Ending == EndNone {
				s.Ending, s.End = EndAborted, last
				tries[i].Fault = Fault{"killed", "the client was killed before the answer had ended"}
			}
			r.Last = max(r.Last, last)
		}
	}
}

// The witness of a request: its sample, then the fault's class and message.
func appendWitness(out []byte, s *Sample, f Fault) []byte {
	le := binary.LittleEndian
	for _, v := range s.stamps() {
		out = le.AppendUint64(out, uint64(*v))
	}
	out = le.AppendUint32(out, uint32(s.Conn))
	out = le.AppendUint32(out, uint32(s.Status))
	out = append(out, byte(s.Ending), flag(s.Reused)|flag(s.Replaced)<<1|flag(s.Begun)<<2)
	for _, text := range []string{f.Class, f.Message} {
		text = text[:min(len(text), maxFault)]
		out = le.AppendUint16(out, uint16(len(text)))
		out = append(out, text...)
	}
	return out
}

// maxFault bounds the text of a fault in a capture.
const maxFault = 4096

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (s *Sample) stamps() [12]*int64 {
	return [...]*int64{
		&s.Due, &s.Start, &s.Connected, &s.Sent, &s.Written, &s.Headers, &s.FirstByte, &s.FirstOutput, &s.LastOutput, &s.End, &s.Bytes, &s.RetryAfter,
	}
}

// readWitness reads what appendWitness wrote; its frame's sum has been checked.
func readWitness(b []byte) (s Sample, f Fault) {
	le := binary.LittleEndian
	const fixed = 12*8 + 4 + 4 + 2
	if len(b) < fixed+4 {
		return NewSample(None), f
	}
	for i, v := range s.stamps() {
		*v = int64(le.Uint64(b[8*i:]))
	}
	b = b[12*8:]
	s.Conn, s.Status = int32(le.Uint32(b)), int32(le.Uint32(b[4:]))
	s.Ending = Ending(b[8])
	s.Reused, s.Replaced, s.Begun = b[9]&1 != 0, b[9]&2 != 0, b[9]&4 != 0
	b = b[10:]
	for _, text := range []*string{&f.Class, &f.Message} {
		if len(b) < 2 || len(b)-2 < int(le.Uint16(b)) {
			return s, f
		}
		n := int(le.Uint16(b))
		*text, b = string(b[2:2+n]), b[2+n:]
	}
	return s, f
}
