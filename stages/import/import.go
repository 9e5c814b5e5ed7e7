// Package imports is the kind import: it brings a file that was made elsewhere
// into a run as a leaf, byte for byte, with the limitations that it bears.
package imports

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/record"
)

// Kind is import.
var Kind = stage.Define(stage.Spec{
	Name: "import", Contract: 2, Config: "anvil.import-config/v1", Class: stage.Pure,
	Resolve: resolve,
	Outputs: func(with map[string]any) []stage.Port {
		name, _ := with["name"].(string)
		schema, _ := with["schema"].(string)
		return []stage.Port{{Name: name, Schema: schemas.ID(schema)}}
	},
}, func(c config) (stage.Stage, error) { return &importer{c}, nil })

type config struct {
	File        string         `json:"file"`
	Schema      schemas.ID     `json:"schema"`
	SHA256      *digest.Digest `json:"sha256"`
	Name        string         `json:"name"`
	Limitations *string        `json:"limitations"`
}

// safeName is what an imported file may be called: its name becomes that of an
// artifact, on every file system.
var safeName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+=-]{0,119}$`)

func resolve(r *stage.Resolution) {
	file, _ := r.With["file"].(string)
	name := path.Base(file)
	if !safeName.MatchString(name) {
		r.Problem("/file", fmt.Sprintf("%q cannot name an artifact", name), "rename the file: letters, digits and . _ + = - only")
		return
	}
	r.With["name"] = name
	recognise(r, file)
	// The set beside the file counts only where the file is there: an absent one
	// is no fault.
	beside := file + ".limitations.json"
	f, err := r.Open(beside)
	switch {
	case err == nil:
		f.Close()
		r.With["limitations"] = beside
	case !errors.Is(err, fs.ErrNotExist):
		r.Problem("/file", fmt.Sprintf("limitations beside it: %v", err), "")
	}
}

// recognise finds the schema of a file by its content, so that ports can be
// bound before anything runs.
func recognise(r *stage.Resolution, file string) {
	f, err := r.Open(file)
	if err != nil {
		return // the plan reports a file that is not there at its place
	}
	defer f.Close()
	id, err := record.Recognise(f)
	said, _ := r.With["schema"].(string)
	switch {
	case said == "" && err != nil:
		r.Problem("/file", fmt.Sprintf("its schema cannot be told from its content: %v", err), "write `schema:` beside it")
	case said == "":
		r.With["schema"] = string(id)
	case err == nil && said != string(id):
		r.Problem("/schema", fmt.Sprintf("by its content the file is %s", id), "leave `schema` out")
	case err != nil:
		if why := contradicts(r, file, schemas.ID(said), err); why != nil {
			r.Problem("/schema", fmt.Sprintf("the file is no %s: %v", said, why), "correct the file, or name what it is")
		}
	}
}

type importer struct{ config }

// maxDocument bounds a JSON document that is looked into for its limitations.
const maxDocument = 256 << 20

// jsonLines are the schemas whose files hold no limitations of their own.
var jsonLines = []schemas.ID{"anvil.attempts/v1", "anvil.grades/v1", "anvil.replies/v1"}

func (i *importer) Run(ctx context.Context, _ stage.Env, in stage.Inputs, out *stage.Outputs) error {
	file, ok := in.File("/file")
	if !ok {
		return fmt.Errorf("file %s is not bound", i.File)
	}
	if i.SHA256 == nil {
		out.Limit(stage.Limit("import.unverified", "file", i.Name))
	} else if *i.SHA256 != file.SHA256 {
		return fmt.Errorf("file %s has sha256 %s, the plan pins %s: fetch the pinned file, or pin the new digest", i.File, file.SHA256, *i.SHA256)
	}
	if err := i.carry(ctx, in, file, out); err != nil {
		return err
	}
	return i.copy(ctx, file, out)
}

func (i *importer) copy(ctx context.Context, file stage.Artifact, out *stage.Outputs) (err error) {
	src, err := file.Open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	w, err := out.CreateAs(i.Name, i.Schema)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, src); err != nil {
		return errors.Join(fmt.Errorf("copy %s: %w", i.File, err), w.Close())
	}
	return w.Close()
}

// carry takes over the limitations that the file came with: the document's own,
// else the set that an export laid beside it. What a record of another producer
// states in plain words is raised here, unless that set has it already.
func (i *importer) carry(ctx context.Context, in stage.Inputs, file stage.Artifact, out *stage.Outputs) error {
	beside, ok := in.File("/limitations")
	lines := slices.Contains(jsonLines, i.Schema)
	if file.Size > maxDocument && !lines && !ok {
		return fmt.Errorf("%s has %d bytes, too many to look for its limitations: lay the set beside it as %s.limitations.json", i.File, file.Size, i.File)
	}
	var stated []string
	if file.Size <= maxDocument && !lines {
		src, err := file.Bytes(ctx)
		if err != nil {
			return err
		}
		own, has, err := ownLimitations(src)
		if err != nil {
			return fmt.Errorf("limitations of %s: %w", i.File, err)
		}
		if has {
			out.Carry(own)
			return nil
		}
		stated = statedIn(i.Schema, src)
	}
	set, err := besideIt(ctx, beside, ok)
	if err != nil {
		return err
	}
	out.Carry(set)
	for _, text := range stated {
		if !slices.ContainsFunc(set, func(l stage.Limitation) bool { return l.Text == text }) {
			out.Limit(stage.Limit("import.stated", "text", text))
		}
	}
	return nil
}

// besideIt reads the set that an export laid beside the file; none where none is.
func besideIt(ctx context.Context, beside stage.Artifact, is bool) (stage.LimitationSet, error) {
	if !is {
		return nil, nil
	}
	src, err := beside.Bytes(ctx)
	if err != nil {
		return nil, err
	}
	set, err := parseSet(src)
	if err != nil {
		return nil, fmt.Errorf("limitations in %s: %w", beside.Name, err)
	}
	return set, nil
}

// ownLimitations reads the member "limitations" of an anvil document. Other
// records have a member of that name with another shape: see statedIn.
func ownLimitations(src []byte) (stage.LimitationSet, bool, error) {
	var doc struct {
		Schema      string          `json:"schema"`
		Limitations json.RawMessage `json:"limitations"`
	}
	if json.Unmarshal(src, &doc) != nil || doc.Limitations == nil || !bytes.HasPrefix([]byte(doc.Schema), []byte("anvil.")) {
		return nil, false, nil
	}
	set, err := parseSet(doc.Limitations)
	return set, err == nil, err
}

func parseSet(src []byte) (stage.LimitationSet, error) {
	var doc any
	if err := json.Unmarshal(src, &doc); err != nil {
		return nil, err
	}
	if err := schemas.Check("anvil.limitations/v1", doc); err != nil {
		return nil, err
	}
	var set stage.LimitationSet
	if err := json.Unmarshal(src, &set); err != nil {
		return nil, err
	}
	return stage.NewLimitationSet(set...), nil
}
