package derive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/shape"
	"anvil/stages/record"
)

// maxFaults bounds how many faults of one line or document are listed.
const maxFaults = 20

// maxFaultyLines bounds how many lines of one file are listed.
const maxFaultyLines = 20

// readAll reads every artifact to its end, so that its digest is proven, and
// checks it against its schema on the way.
func (v *validation) readAll() {
	for i, a := range v.artifacts() {
		if v.ctx.Err() != nil {
			return
		}
		var err error
		switch {
		case slices.Contains(lineSchemas, a.Schema):
			err = v.readLines(a)
		case known(a.Schema):
			err = v.readDocument(a, i == 0)
		default:
			err = v.readLeaf(a)
		}
		v.out.Artifacts++
		var mismatch *digest.MismatchError
		switch {
		case errors.As(err, &mismatch):
			v.problem(record.LevelIntact, a, "", "digest", mismatch.Got, mismatch.Want, "%v", mismatch)
		case err != nil:
			v.problem(record.LevelIntact, a, "", "unreadable", nil, nil, "%v", err)
		}
	}
}

// lineSchemas are the ids whose files are JSON Lines with a header and a footer.
var lineSchemas = []schemas.ID{record.AttemptsSchema, record.GradesSchema}

func known(id schemas.ID) bool {
	_, err := schemas.Source(id)
	return err == nil && id != "anvil.dataset/v1" // its rows are the user's; grade reads them
}

func (v *validation) readLeaf(a stage.Artifact) (err error) {
	r, err := a.Open(v.ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	_, err = io.Copy(io.Discard, r)
	return err
}

func (v *validation) readDocument(a stage.Artifact, isRecord bool) error {
	src, err := a.Bytes(v.ctx)
	if err != nil {
		return err
	}
	tree, err := jsontree.Parse(src)
	if err != nil {
		v.problem(record.LevelConsistent, a, "", "json", nil, nil, "%v", err)
		return nil
	}
	if err := v.checkSchema(a, src, tree); err != nil {
		return err
	}
	v.checkEmbedded(a, src)
	if isRecord {
		v.decodeRecord(src)
	}
	return nil
}

// decodeRecord keeps the record in both forms. One that does not even decode
// is at level 1 at most: nothing about it can be computed.
func (v *validation) decodeRecord(src []byte) {
	var f record.Final
	if err := json.Unmarshal(src, &f); err != nil {
		v.problem(record.LevelConsistent, v.rec, "", "decode", nil, nil, "%v", err)
		return
	}
	doc, err := decodeNumbers(src)
	if err != nil {
		v.problem(record.LevelConsistent, v.rec, "", "decode", nil, nil, "%v", err)
		return
	}
	v.bytes, v.doc, v.final = src, doc, &f
	v.out.Record.ID, v.out.Record.Status = &f.ID, &f.Status
}

// checkSchema uses the checker that keeps number text where it knows all
// keywords of the schema, else the general one.
func (v *validation) checkSchema(a stage.Artifact, src []byte, tree jsontree.Value) error {
	s, err := shape.Compile(a.Schema)
	if err == nil {
		for _, fault := range s.Check(tree, "", maxFaults) {
			v.problem(record.LevelConsistent, a, fault.Pointer, "schema", storedValue(fault.Value), nil, "%s", fault.Text)
		}
		return nil
	}
	doc, err := decodeNumbers(src)
	if err != nil {
		return err
	}
	faults, err := schemas.Validate(a.Schema, doc)
	if err != nil {
		return err
	}
	for _, fault := range faults {
		v.problem(record.LevelConsistent, a, fault.Pointer, "schema", nil, nil, "%s", fault.Message)
	}
	return nil
}

// storedValue is a scalar as it stands; a whole object helps nobody.
func storedValue(value jsontree.Value) any {
	if k := value.Kind(); k == jsontree.Object || k == jsontree.Array || k == jsontree.Missing {
		return nil
	}
	return json.RawMessage(bytes.Clone(value.Raw()))
}

// checkEmbedded compares the limitations that a document bears with the set
// that travels with it: the executor may have added its own later, and nothing
// else may differ.
func (v *validation) checkEmbedded(a stage.Artifact, src []byte) {
	var doc struct {
		Limitations *stage.LimitationSet `json:"limitations"`
	}
	if err := json.Unmarshal(src, &doc); err != nil || doc.Limitations == nil {
		return
	}
	inside, outside := stage.NewLimitationSet(*doc.Limitations...), a.LimitationSet()
	for _, l := range inside.Missing(outside) {
		v.problem(record.LevelConsistent, a, "/limitations", "limitation-set", l, nil, "the set that travels with it lacks %s of %s", l.Code, l.Origin)
	}
	for _, l := range outside.Missing(inside) {
		if l.Origin != stage.OriginRun {
			v.problem(record.LevelConsistent, a, "/limitations", "limitation-missing", nil, l, "the document lacks %s of %s, which its set has", l.Code, l.Origin)
		}
	}
}

// readLines checks a JSON Lines artifact line by line.
func (v *validation) readLines(a stage.Artifact) (err error) {
	raw, err := a.Open(v.ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	file := &failing{r: raw}
	lines, err := record.NewLineReader(file)
	if err != nil {
		return errors.Join(file.err, err)
	}
	defer func() { err = errors.Join(err, lines.Close()) }()
	checkers, err := lineCheckers()
	if err != nil {
		return err
	}
	checker := checkers[a.Schema]
	faulty := 0
	for faulty < maxFaultyLines {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if file.err != nil {
				return file.err
			}
			v.problem(record.LevelConsistent, a, fmt.Sprintf("/%d", lines.Line()), "line", nil, nil, "%v", err)
			break
		}
		if !v.checkLine(a, checker, line, lines.Line()) {
			faulty++
		}
	}
	// What a decompressor leaves unread is part of the digest too.
	_, err = io.Copy(io.Discard, file)
	return err
}

// failing remembers the error of the reader below a decompressor, which wraps
// it in words of its own.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// A lineChecker knows the schemas of a header, a row and a footer.
type lineChecker struct{ header, row, footer *shape.Schema }

// lineCheckers compiles them once: a file may have a million lines, and a
// validation many files.
var lineCheckers = sync.OnceValues(func() (map[schemas.ID]*lineChecker, error) {
	out := map[schemas.ID]*lineChecker{}
	for _, id := range lineSchemas {
		var c lineChecker
		for name, at := range map[string]**shape.Schema{"header": &c.header, "row": &c.row, "footer": &c.footer} {
			s, err := shape.Fragment(id, "#/$defs/"+name)
			if err != nil {
				return nil, err
			}
			*at = s
		}
		out[id] = &c
	}
	return out, nil
})

func (v *validation) checkLine(a stage.Artifact, c *lineChecker, line []byte, number int) bool {
	at := fmt.Sprintf("/%d", number)
	tree, err := jsontree.Parse(line)
	if err != nil {
		v.problem(record.LevelConsistent, a, at, "json", nil, nil, "%v", err)
		return false
	}
	s := c.row
	switch {
	case number == 1:
		s = c.header
	case tree.Get("footer").Kind() != jsontree.Missing:
		s = c.footer
	}
	faults := s.Check(tree, at, maxFaults)
	for _, fault := range faults {
		v.problem(record.LevelConsistent, a, fault.Pointer, "schema", storedValue(fault.Value), nil, "%s", fault.Text)
	}
	return len(faults) == 0
}
