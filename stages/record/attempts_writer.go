package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// attemptsFrame is how much JSON a frame holds at least, but for the last: a
// frame closes at the first line end after it.
const attemptsFrame = 4 << 20

// An AttemptsWriter writes anvil.attempts/v1 as zstd, a frame at a time. The
// same attempts give the same bytes. It is for one goroutine.
type AttemptsWriter struct {
	w      io.Writer
	zstd   *zstd.Encoder
	frame  bytes.Buffer
	packed []byte
	lines  int
	err    error // the first one; sticky
}

// NewAttemptsWriter writes the header. The schema is set, whatever h says.
func NewAttemptsWriter(w io.Writer, h AttemptsHeader) (*AttemptsWriter, error) {
	// Concurrency 1: blocks must not depend on how many cores there are.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, err
	}
	h.Schema = AttemptsSchema
	if h.Cell == nil {
		h.Cell = map[string]any{}
	}
	a := &AttemptsWriter{w: w, zstd: enc}
	return a, a.put(h)
}

// Write adds one attempt. Lists that are nil become empty ones, but for
// client_delay, where null says that the stamps are user-space ones.
func (a *AttemptsWriter) Write(t *Attempt) error {
	row := *t
	row.Arrivals = empty(row.Arrivals)
	row.SeenEmpty = empty(row.SeenEmpty)
	row.Notes = empty(row.Notes)
	row.FinishReasons = empty(row.FinishReasons)
	row.ToolCalls = empty(row.ToolCalls)
	row.Tries = empty(row.Tries)
	if err := a.put(row); err != nil {
		return err
	}
	a.lines++
	return nil
}

func empty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Close writes the footer with the phase's status, "completed" or "aborted",
// and the last frame. It leaves the writer below open.
func (a *AttemptsWriter) Close(status string) error {
	if err := a.put(AttemptsFooter{Footer: true, Lines: a.lines, Complete: true, Status: status}); err != nil {
		return err
	}
	if err := a.flush(); err != nil {
		return err
	}
	a.err = errors.New("attempts: writer is closed")
	return a.zstd.Close()
}

func (a *AttemptsWriter) put(v any) error {
	if a.err != nil {
		return a.err
	}
	enc := json.NewEncoder(&a.frame)
	enc.SetEscapeHTML(false)
	if a.err = enc.Encode(v); a.err != nil || a.frame.Len() < attemptsFrame {
		return a.err
	}
	return a.flush()
}

func (a *AttemptsWriter) flush() error {
	a.packed = a.zstd.EncodeAll(a.frame.Bytes(), a.packed[:0])
	a.frame.Reset()
	_, a.err = a.w.Write(a.packed)
	return a.err
}
