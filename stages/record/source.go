package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"anvil/schemas"
	"anvil/stages/internal/jsontree"
)

// MaxDocument is the largest JSON document that is read, in bytes. JSON Lines
// have no limit but that of a line.
const MaxDocument = 256 << 20

// headerLimit bounds how much of the first line is looked at to tell JSON Lines
// from a document.
const headerLimit = 1 << 20

// A source is the content of one file: either the first line of JSON Lines was
// recognised, or it is a document.
type source struct {
	plain  io.ReadCloser
	buf    *bufio.Reader
	head   []byte // what was read of a document
	kind   Kind   // with Lines, for JSON Lines
	header jsontree.Value
}

// openSource decompresses r and looks at its first line.
func openSource(r io.Reader) (*source, error) {
	plain, err := Decompress(r)
	if err != nil {
		return nil, err
	}
	s := &source{plain: plain, buf: bufio.NewReaderSize(plain, 32<<10)}
	if err := s.readHead(); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	s.recognise()
	return s, nil
}

// readHead takes the first line, line feed included, up to the limit.
func (s *source) readHead() error {
	for len(s.head) < headerLimit {
		chunk, err := s.buf.ReadSlice('\n')
		s.head = append(s.head, chunk...)
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
	return nil
}

// recognise finds out whether the first line is the header of JSON Lines. A row
// may be missing, the footer even: what names a schema of lines is lines.
func (s *source) recognise() {
	if !bytes.Contains(s.head, []byte(`"schema"`)) {
		return
	}
	header, err := jsontree.Parse(s.head)
	if err != nil || !header.Is(jsontree.Object) {
		return
	}
	label := schemas.ID(header.Get("schema").Str())
	i := slices.IndexFunc(All(), func(k Kind) bool { return k.ID == label && k.Lines != nil })
	switch next, err := s.buf.Peek(1); {
	case i >= 0:
		s.kind, s.header = All()[i], header
	case err == nil && next[0] == '{' && slices.Contains(schemas.List(), label):
		s.kind, s.header = Kind{ID: label, Lines: checkRows}, header
	}
}

// lines reads what follows the header.
func (s *source) lines() *LineReader {
	return &LineReader{src: s.plain, buf: s.buf, line: 1, whole: true}
}

// document parses all of it as one JSON value.
func (s *source) document() (jsontree.Value, error) {
	src, err := s.bytes()
	if err != nil {
		return jsontree.Value{}, err
	}
	return jsontree.Parse(src)
}

func (s *source) bytes() ([]byte, error) {
	var out bytes.Buffer
	out.Write(s.head)
	if _, err := out.ReadFrom(io.LimitReader(s.buf, MaxDocument)); err != nil {
		return nil, err
	}
	if out.Len() > MaxDocument {
		return nil, fmt.Errorf("the document is larger than %d MiB", MaxDocument>>20)
	}
	return out.Bytes(), nil
}
