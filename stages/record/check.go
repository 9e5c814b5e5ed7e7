package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"anvil/pipeline/digest"
	"anvil/stages/internal/jsontree"
)

// Options say how records are checked.
type Options struct {
	// Source is the file of which a derived summary copies; "" means the one
	// that lies beside it under the name that it states. One that is named and
	// cannot be read is an error of the caller's, not a fault of the summary.
	Source string
}

// A SourceError says that the file that was named as the source of derived
// summaries cannot be read.
type SourceError struct {
	Path string
	Err  error
}

func (e *SourceError) Error() string { return fmt.Sprintf("source %s: %v", e.Path, e.Err) }

func (e *SourceError) Unwrap() error { return e.Err }

// readable tells whether the source, if one is named, can be read. What stands in
// it is checked with each summary.
func (o Options) readable() error {
	if o.Source == "" {
		return nil
	}
	if _, _, err := readDocument(o.Source); err != nil && !isFinding(err) {
		return &SourceError{o.Source, err}
	}
	return nil
}

// CheckFile checks one regular file and never changes it. What cannot be read
// is a report as well, with Unreadable set.
func CheckFile(path string, options Options) Report {
	c := newChecker(path, options)
	c.dir = filepath.Dir(path)
	f, err := openRegular(path)
	if err != nil {
		return c.unreadable("file.unreadable", "%v", err)
	}
	defer f.Close()
	return c.read(f)
}

// CheckReader checks what r holds; name stands in the report. A derived summary
// has no neighbours here: its source must be in the options.
func CheckReader(name string, r io.Reader, options Options) Report {
	return newChecker(name, options).read(r)
}

// openRegular refuses what would block or is no file: a directory, a FIFO, a
// device.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, cause(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is %s, not a file", fileType(info.Mode()))
	}
	f, err := os.Open(path)
	return f, cause(err)
}

// cause leaves the path to the report, which names it.
func cause(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}

func fileType(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&os.ModeNamedPipe != 0:
		return "a FIFO"
	case m&os.ModeSocket != 0:
		return "a socket"
	case m&os.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}

func (c *checker) read(r io.Reader) Report {
	src, err := openSource(r)
	if err != nil {
		return c.unreadable("file.unreadable", "%v", err)
	}
	defer src.plain.Close()
	if src.kind.Lines != nil {
		c.kind(src.kind.ID)
		c.integersFit(src.header, "/line/1")
		src.kind.Lines(c, src.header, src.lines())
		return c.done()
	}
	text, err := src.bytes()
	if err != nil {
		return c.unreadable("file.unreadable", "%v", err)
	}
	doc, err := jsontree.Parse(text)
	if err != nil {
		return c.notJSON(text, err)
	}
	c.report.digest = digest.FromBytes(text)
	c.document(doc, text)
	return c.done()
}

// notJSON tells a text that is no JSON from one that is, but says something
// twice or something that no reader can hold.
func (c *checker) notJSON(text []byte, err error) Report {
	if len(text) == 0 {
		return c.unreadable("file.empty", "the file is empty")
	}
	if isFinding(err) {
		c.problem("", faultRule(err), jsontree.Value{}, nil, "%v", err)
		return c.done()
	}
	return c.unreadable(faultRule(err), "%v", err)
}

// isFinding tells whether a text that does not parse is JSON all the same.
func isFinding(err error) bool {
	e, ok := errors.AsType[*jsontree.Error](err)
	return ok && (e.Fault == jsontree.DuplicateKey || e.Fault == jsontree.NumberRange || e.Fault == jsontree.Surrogate)
}

func (c *checker) document(doc jsontree.Value, text []byte) {
	if doc.Is(jsontree.Array) {
		c.limitationSet(doc, text)
		return
	}
	k, ok := kindOf(doc)
	if !ok {
		c.problem("", "kind.unknown", jsontree.Value{}, nil, "no record of a known kind: %s", unknownBecause(doc))
		return
	}
	c.kind(k.ID)
	if k.Lines != nil {
		c.problem("", "kind.lines", jsontree.Value{}, nil, "%s is JSON Lines, and this is one document", k.ID)
		return
	}
	c.text = text
	c.integersFit(doc, "")
	if k.Check == nil {
		c.ownDocument(k.ID, doc)
		return
	}
	k.Check(c, doc)
}
