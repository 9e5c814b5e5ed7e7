package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// MaxLine is the longest line of a JSON Lines artifact that is read, in bytes.
// A row holds at most two texts of 1 MiB, which escapes make six times as long.
const MaxLine = 64 << 20

// maxWindow bounds what a compressed file can make the reader allocate.
const maxWindow = 32 << 20

// ErrLineTooLong is wrapped when a line exceeds MaxLine.
var ErrLineTooLong = errors.New("line too long")

// Decompress returns the plain bytes of r, which is zstd or plain; the content
// decides, not a name. Closing releases the decompressor and leaves r open.
func Decompress(r io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	head, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !isZstd(head) {
		return io.NopCloser(buffered), nil
	}
	// One goroutine and small buffers: the reader is one of many.
	d, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

// isZstd knows the magic numbers of frames and of skippable frames.
func isZstd(head []byte) bool {
	return bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}) ||
		len(head) == 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], []byte{0x2a, 0x4d, 0x18})
}

// A LineReader reads JSON Lines, plain or zstd, one line at a time.
type LineReader struct {
	src   io.ReadCloser
	buf   *bufio.Reader
	long  []byte // a line that does not fit buf, reused
	line  int
	whole bool // the last line had its line feed
}

// NewLineReader begins to read r.
func NewLineReader(r io.Reader) (*LineReader, error) {
	src, err := Decompress(r)
	if err != nil {
		return nil, err
	}
	return &LineReader{src: src, buf: bufio.NewReaderSize(src, 64<<10)}, nil
}

// Line is the number of the line that Next returned last, from 1.
func (l *LineReader) Line() int { return l.line }

// Close releases the decompressor; the reader below stays open.
func (l *LineReader) Close() error { return l.src.Close() }

// Next returns the next line without its end, valid until the next call, and
// io.EOF after the last one. A last line without its line feed is returned; the
// caller tells from its content whether it is whole. An error names the line.
func (l *LineReader) Next() ([]byte, error) {
	l.line++
	chunk, err := l.buf.ReadSlice('\n')
	if err == nil {
		l.whole = true
		return chunk[:len(chunk)-1], nil
	}
	l.long = l.long[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(l.long)+len(chunk) > MaxLine {
			return nil, fmt.Errorf("line %d: %w: more than %d bytes", l.line, ErrLineTooLong, MaxLine)
		}
		l.long = append(l.long, chunk...)
		chunk, err = l.buf.ReadSlice('\n')
	}
	l.long = append(l.long, chunk...)
	if errors.Is(err, io.EOF) && len(l.long) == 0 {
		return nil, io.EOF
	}
	l.whole = err == nil
	switch {
	case err == nil:
		return l.long[:len(l.long)-1], nil
	case errors.Is(err, io.EOF):
		return l.long, nil
	}
	return nil, fmt.Errorf("line %d: %w", l.line, err)
}
