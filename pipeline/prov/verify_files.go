package prov

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/stage"
)

// runFiles compares every file of the run with what run.json says of it.
func (v *verifier) runFiles(j journal) error {
	var err error
	var others []string
	if v.files, others, err = filesOf(v.run.root); err != nil {
		return err
	}
	for _, name := range others {
		v.file(FileUnlisted, name, "", "", "no regular file: no stage makes one, and run.json names none")
	}
	for _, name := range slices.Sorted(maps.Keys(v.m.Files)) {
		want := v.m.Files[name]
		got, ok := v.files[name]
		switch {
		case !ok:
			v.file(FileMissing, name, want.String(), "", "run.json names a file that is not there")
		case got != want && (!j.goneOn || name != JournalName):
			v.changed[name] = true
			v.file(FileChanged, name, want.String(), got.String(), "the file is not the one that run.json names")
		}
	}
	if j.goneOn {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(v.files)) {
		if _, ok := v.m.Files[name]; !ok {
			v.file(FileUnlisted, name, "", v.files[name].String(), "run.json does not name the file")
		}
	}
	return nil
}

func (v *verifier) file(code, name, want, got, text string) {
	p := Problem{Code: code, Path: name, Expected: want, Found: got, Text: text}
	if parts := strings.Split(name, "/"); len(parts) > 2 && parts[0] == StagesFolder {
		p.Stage, p.Name = parts[1], parts[len(parts)-1]
	}
	v.report.add(p)
}

// statements compares the statement of every attempt with its result.
func (v *verifier) statements(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(v.files)) {
		dir, base := path.Split(name)
		if base != ResultName || !strings.HasPrefix(name, StagesFolder+"/") {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := v.statement(name, dir+StatementName); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) statement(resultName, statementName string) error {
	if v.changed[resultName] || v.changed[statementName] {
		return nil // named already; what follows from it is not news
	}
	result, err := v.run.ReadFile(resultName)
	if err != nil {
		return err
	}
	got, ok, err := v.statementFile(statementName, "a result has no statement beside it")
	if !ok {
		return err
	}
	tool, err := toolOf(got)
	if err != nil {
		v.file(StatementChanged, statementName, "", "", err.Error())
		return nil
	}
	s, err := StageStatement(result, tool)
	if err != nil {
		v.file(ResultInvalid, resultName, "", "", err.Error())
		return nil
	}
	want, err := s.Encode()
	if err != nil {
		return err
	}
	if !bytes.Equal(want, got) {
		v.file(StatementChanged, statementName, digest.FromBytes(want).String(), digest.FromBytes(got).String(), "the statement is not the one that its result gives")
	}
	return nil
}

// statementFile reads a statement; one that is missing, or that something else
// stands in place of, is a problem.
func (v *verifier) statementFile(name, missing string) (text []byte, ok bool, err error) {
	text, err = v.run.ReadFile(name)
	switch {
	case err == nil:
		return text, true, nil
	case errors.Is(err, fs.ErrNotExist):
		v.file(StatementMissing, name, "", "", missing)
		return nil, false, nil
	case errors.Is(err, disk.ErrIrregular):
		v.file(StatementMissing, name, "", "", missing+": what stands there is no regular file")
		return nil, false, nil
	}
	return nil, false, err
}

// toolOf reads from a statement who made it.
func toolOf(statement []byte) (stage.Tool, error) {
	var s Statement
	var internal struct {
		Tool stage.Tool `json:"tool"`
	}
	if err := json.Unmarshal(statement, &s); err != nil {
		return internal.Tool, err
	}
	err := json.Unmarshal(s.Predicate.BuildDefinition.InternalParameters, &internal)
	return internal.Tool, err
}

// runStatement compares the run's statement with run.json, of which it is a
// function, and says which of the two was changed.
func (v *verifier) runStatement(ctx context.Context) error {
	if v.run.Manifest == nil {
		return nil
	}
	got, ok, err := v.statementFile(StatementName, "the run has no statement")
	if !ok {
		return err
	}
	actual := digest.FromBytes(v.run.manifest)
	stated, ok := statedManifest(got)
	if ok && stated != actual && !nearly(stated, actual) {
		v.file(ManifestChanged, ManifestName, stated.String(), actual.String(), "run.json is not the file that the run's statement names")
		return nil
	}
	s, err := RunStatement(ctx, v.run.manifest, v.r)
	if err != nil {
		return nil //nolint:nilerr // a result or set that cannot be read is named already
	}
	want, err := s.Encode()
	if err != nil {
		return err
	}
	if !bytes.Equal(want, got) {
		v.file(StatementChanged, StatementName, digest.FromBytes(want).String(), digest.FromBytes(got).String(), "the run's statement is not the one that run.json gives")
	}
	return nil
}

// statedManifest is the digest of run.json by the run's statement.
func statedManifest(statement []byte) (digest.Digest, bool) {
	var s Statement
	if json.Unmarshal(statement, &s) != nil {
		return digest.Digest{}, false
	}
	for _, r := range s.Subject {
		if r.Name == ManifestName {
			d, err := digest.Parse(r.Digest["sha256"])
			return d, err == nil
		}
	}
	return digest.Digest{}, false
}

// nearly tells whether two digests differ in a digit or two: other bytes never
// give such a digest, so its text was damaged, not what it stands for.
func nearly(a, b digest.Digest) bool {
	n := 0
	for i, c := range []byte(a.String()) {
		if c != b.String()[i] {
			n++
		}
	}
	return n > 0 && n <= 2
}

// copies compares the readable copies with the artifacts that they are of. A
// copy that was not made, or was removed, is no fault.
func (v *verifier) copies(ctx context.Context) error {
	wanted := v.attempted()
	err := fs.WalkDir(v.run.root.FS(), ArtifactsFolder, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if isTemp(path.Base(name)) || e.IsDir() && strings.Count(name, "/") < 2 {
			return ctx.Err()
		}
		if e.IsDir() {
			v.file(CopyChanged, name, "", "", "a folder, and no copy of an artifact")
			return fs.SkipDir
		}
		if !e.Type().IsRegular() {
			v.file(CopyChanged, name, "", "", "no regular file, and no copy of an artifact")
			return nil
		}
		return v.copy(name, wanted)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (v *verifier) copy(name string, wanted map[string][]Output) error {
	parts := strings.SplitN(name, "/", 3)
	if len(parts) < 3 {
		v.file(CopyChanged, name, "", "", "a file that is no copy of an artifact")
		return nil
	}
	got, err := hashFile(v.run.root, name)
	if err != nil {
		return fmt.Errorf("hash %s: %w", name, err)
	}
	// The folder of a matrix child is not its id: then the name alone decides.
	of, ok := wanted[parts[1]+"/"+parts[2]]
	if !ok {
		of = wanted["/"+parts[2]]
	}
	if slices.ContainsFunc(of, func(o Output) bool { return o.SHA256 == got }) {
		return nil
	}
	p := Problem{Code: CopyChanged, Stage: parts[1], Name: parts[2], Path: name, Found: got.String(), Text: "the readable copy is not the artifact; the object in the store is what counts"}
	if len(of) == 1 {
		p.Expected = of[0].SHA256.String()
	}
	if len(of) == 0 {
		p.Text = "a file that is no copy of an artifact of this run"
	}
	v.report.add(p)
	return nil
}

// attempted is published with what earlier attempts of the run made: their
// copies stay where a later attempt made none.
func (v *verifier) attempted() map[string][]Output {
	out := v.published()
	for sum := range v.attempts() {
		if res := v.results[sum]; res != nil {
			list(out, res.Stage, res.Outputs)
		}
	}
	return out
}

// published lists the run's artifacts by "stage/name" and by "/name".
func (v *verifier) published() map[string][]Output {
	out := map[string][]Output{}
	for _, st := range v.m.Stages {
		if st.ResultSHA256 == nil || v.results[*st.ResultSHA256] == nil {
			continue
		}
		list(out, st.ID, v.results[*st.ResultSHA256].Outputs)
	}
	return out
}

func list(out map[string][]Output, stageID string, outputs []Output) {
	for _, o := range outputs {
		for _, name := range []string{stageID + "/" + o.Name, "/" + o.Name} {
			if !slices.Contains(out[name], o) {
				out[name] = append(out[name], o)
			}
		}
	}
}
