package derive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/record"
)

// readAll reads every artifact to its end, so that its digest is proven, and
// checks it by the rules of its kind on the way.
func (v *validation) readAll() {
	for i, a := range v.artifacts() {
		if v.ctx.Err() != nil {
			return
		}
		var err error
		switch {
		case i == 0 || ownDocument(a):
			err = v.readDocument(a, i == 0)
		case recordKind(a.Schema):
			err = v.readStream(a)
		default:
			err = v.readLeaf(a)
		}
		v.out.Artifacts++
		v.unread(a, err)
	}
}

// unread notes what kept an artifact from being read to its end.
func (v *validation) unread(a stage.Artifact, err error) {
	var mismatch *digest.MismatchError
	switch {
	case errors.As(err, &mismatch):
		v.problem(record.LevelIntact, a, "", "digest", mismatch.Got, mismatch.Want, "%v", mismatch)
	case err != nil:
		v.problem(record.LevelIntact, a, "", "unreadable", nil, nil, "%v", err)
	}
}

// CheckAlone holds an artifact on which no record stands against the rules of
// its kind; without rules nothing is wrong with it.
func CheckAlone(ctx context.Context, a stage.Artifact) []record.ValidationProblem {
	v := &validation{ctx: ctx, rec: a}
	if ownDocument(a) || recordKind(a.Schema) {
		v.unread(a, v.readStream(a))
	}
	return v.out.Problems
}

// recordKind tells whether package record has rules for the schema.
func recordKind(id schemas.ID) bool {
	return slices.ContainsFunc(record.All(), func(k record.Kind) bool { return k.ID == id })
}

// ownDocument tells whether the artifact is a JSON document of our own: with a
// schema, an embedded limitation set, and small enough to hold.
func ownDocument(a stage.Artifact) bool {
	id := string(a.Schema)
	return strings.HasPrefix(id, "anvil.") && strings.HasSuffix(a.Name, ".json") &&
		a.Schema != record.LiveRunSchema && a.Schema != "anvil.dataset/v1" && slices.Contains(schemas.List(), a.Schema)
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

// readStream checks JSON Lines and records of other producers while they are read.
func (v *validation) readStream(a stage.Artifact) (err error) {
	r, err := a.Open(v.ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	file := &failing{r: r}
	report := record.CheckReader(a.Name, file, record.Options{})
	// What the check leaves unread is part of the digest too.
	if _, err := io.Copy(io.Discard, file); err != nil {
		return err
	}
	if file.err != nil {
		return file.err
	}
	v.take(a, report)
	return nil
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

// take adds what the rules of a record kind found.
func (v *validation) take(a stage.Artifact, r record.Report) {
	if r.Kind == nil || *r.Kind != a.Schema {
		v.problem(record.LevelConsistent, a, "", "kind", r.Kind, a.Schema, "by its content it is no %s", a.Schema)
	}
	for _, p := range r.Problems {
		v.problem(record.LevelConsistent, a, p.Pointer, p.Rule, p.Stored, p.Computed, "%s", p.Text)
	}
	for _, n := range r.Notes {
		if n.Rule == "record.evidence" || n.Rule == "derived.source-absent" {
			continue // they say that something was not looked at: here it is
		}
		v.out.Notes = append(v.out.Notes, record.ValidationProblem{
			Artifact: a.Stage + "/" + a.Name, Pointer: n.Pointer, Rule: n.Rule, Level: record.LevelRederived, Text: n.Text,
		})
	}
}

func (v *validation) readDocument(a stage.Artifact, isRecord bool) error {
	src, err := a.Bytes(v.ctx)
	if err != nil {
		return err
	}
	v.take(a, record.CheckReader(a.Name, bytes.NewReader(src), record.Options{}))
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
	err := json.Unmarshal(src, &f)
	var doc any
	if err == nil {
		doc, err = decodeNumbers(src)
	}
	if err != nil {
		v.problem(record.LevelConsistent, v.rec, "", "decode", nil, nil, "%v", err)
		return
	}
	v.bytes, v.doc, v.final = src, doc, &f
	v.out.Record.ID, v.out.Record.Status = &f.ID, &f.Status
}

// checkEmbedded compares the limitations that a document bears with the set
// that travels with it: the executor may have added its own later, and so may the
// stage that imported it; nothing else may differ.
func (v *validation) checkEmbedded(a stage.Artifact, src []byte) {
	var doc struct {
		Limitations *stage.LimitationSet `json:"limitations"`
	}
	if err := json.Unmarshal(src, &doc); err != nil || doc.Limitations == nil {
		return // the schema has said so
	}
	inside, outside := stage.NewLimitationSet(*doc.Limitations...), a.LimitationSet()
	for _, l := range inside.Missing(outside) {
		v.problem(record.LevelConsistent, a, "/limitations", "limitation-set", l, nil, "the set that travels with it lacks %s of %s", l.Code, l.Origin)
	}
	for _, l := range outside.Missing(inside) {
		if l.Origin != stage.OriginRun && l.Origin != v.importer(a) {
			v.problem(record.LevelConsistent, a, "/limitations", "limitation-missing", nil, l, "the document lacks %s of %s, which its set has", l.Code, l.Origin)
		}
	}
}

// importer is the stage that took the artifact in from elsewhere; "" for one
// that was made here.
func (v *validation) importer(a stage.Artifact) string {
	if made, ok := v.closure.Made(a.SHA256); ok && made.Kind == "import" {
		return made.Stage
	}
	return ""
}
