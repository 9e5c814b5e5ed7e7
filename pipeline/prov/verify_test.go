package prov_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

func TestVerifyProvesASoundRun(t *testing.T) {
	rep := build(t, demo()).verify(t)
	if !rep.OK || rep.Level != 3 {
		t.Errorf("got ok %v, level %d, %+v, want a proof at level 3", rep.OK, rep.Level, rep.Problems)
	}
}

func TestVerifyNamesEveryFileWithAFlippedByte(t *testing.T) {
	b := build(t, demo())
	flips := 0
	for _, name := range filesBelow(t, b.dir) {
		exempt := filepath.Base(name) == prov.LogName || name == prov.LockName
		full := filepath.Join(b.dir, name)
		info, err := os.Stat(full)
		must(t, err)
		step := 1 + int(info.Size())/14
		for at := 0; at < int(info.Size()); at += step {
			restore := flip(t, full, at, 1<<(at%8))
			rep := b.verify(t)
			restore()
			flips++
			switch named := names(rep, name); {
			case exempt && !rep.OK:
				t.Errorf("%s at %d: got %+v, want no problem: it proves nothing", name, at, rep.Problems)
			case !exempt && !named:
				t.Errorf("%s at %d: got %+v, want the file named", name, at, rep.Problems)
			}
		}
	}
	if flips < 200 {
		t.Errorf("only %d bytes were flipped", flips)
	}
}

func TestVerifyNamesEveryObjectWithAFlippedByte(t *testing.T) {
	b := build(t, demo())
	objects := filepath.Join(b.store.Dir(), "objects")
	for _, name := range filesBelow(t, objects) {
		full := filepath.Join(objects, name)
		info, err := os.Stat(full)
		must(t, err)
		restore := flip(t, full, int(info.Size())/2, 4)
		if rep := b.verify(t); !names(rep, full) || rep.Level != 0 {
			t.Errorf("object %s: got level %d, %+v, want it named at level 0", name, rep.Level, rep.Problems)
		}
		restore()
		must(t, os.Rename(full, full+".away"))
		rep := b.verify(t)
		must(t, os.Rename(full+".away", full))
		if empty := strings.HasSuffix(name, emptySetName[2:]); !empty && !names(rep, full) {
			t.Errorf("object %s is gone: got %+v, want it named", name, rep.Problems)
		}
	}
	if rep := b.verify(t); !rep.OK {
		t.Fatalf("the test did not restore the run: %+v", rep.Problems)
	}
}

const emptySetName = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"

// TestVerifyTellsWhichOfManifestAndStatementWasChanged flips every byte of both.
func TestVerifyTellsWhichOfManifestAndStatementWasChanged(t *testing.T) {
	b := build(t, demo())
	for _, name := range []string{prov.ManifestName, prov.StatementName} {
		full := filepath.Join(b.dir, name)
		text, err := os.ReadFile(full)
		must(t, err)
		step := 37
		if testing.Short() {
			step = 211
		}
		for at := 0; at < len(text); at += step {
			restore := flip(t, full, at, 1)
			rep := b.verify(t)
			restore()
			if !names(rep, name) {
				t.Errorf("%s at %d (%q): got %+v, want it named", name, at, text[max(0, at-10):min(len(text), at+10)], rep.Problems)
			}
			other := prov.ManifestName
			if name == other {
				other = prov.StatementName
			}
			if slices.ContainsFunc(rep.Problems, func(p prov.Problem) bool { return p.Path == other && p.Code != prov.ManifestDisagrees }) {
				t.Errorf("%s at %d: %s is blamed: %+v", name, at, other, rep.Problems)
			}
		}
	}
}

func TestVerifyNamesMissingAndAddedFiles(t *testing.T) {
	b := build(t, demo())
	for _, name := range filesBelow(t, b.dir) {
		full := filepath.Join(b.dir, name)
		free := !prov.Named(name) && name != prov.StatementName && name != prov.ManifestName
		must(t, os.Rename(full, filepath.Join(b.workspace, "away")))
		rep := b.verify(t)
		must(t, os.Rename(filepath.Join(b.workspace, "away"), full))
		if !free && !names(rep, name) {
			t.Errorf("%s is gone: got %+v, want it named", name, rep.Problems)
		}
		if free && !rep.OK {
			t.Errorf("%s is gone: got %+v, want nothing: it may be", name, rep.Problems)
		}
	}
	must(t, os.WriteFile(filepath.Join(b.dir, "stages/grade/1/more.json"), []byte("{}"), 0o644))
	if rep := b.verify(t); !names(rep, "stages/grade/1/more.json") {
		t.Errorf("got %+v, want the added file named", rep.Problems)
	}
}

func TestVerifySaysWhatKindOfFaultItFound(t *testing.T) {
	other := func(f func(*prov.Result)) func(*blueprint) {
		return func(bp *blueprint) {
			bp.forge = func(i int, res *prov.Result) {
				if bp.nodes[i].id == "grade" {
					f(res)
				}
			}
		}
	}
	manifest := func(f func(*prov.Manifest)) func(*blueprint) {
		return func(bp *blueprint) { bp.manifest = f }
	}
	tests := map[string]struct {
		change      func(*blueprint)
		code, stage string
	}{
		"input of another stage":  {other(func(r *prov.Result) { r.Inputs[0].From.Stage = "weights" }), prov.ResultInput, "grade"},
		"input of another run":    {other(func(r *prov.Result) { r.Inputs[0].From.Run = baseRun }), prov.ResultInput, "grade"},
		"input of another name":   {other(func(r *prov.Result) { r.Inputs[0].From.Name = "none.json" }), prov.ResultInput, "grade"},
		"input with another size": {other(func(r *prov.Result) { r.Inputs[0].Size++ }), prov.ResultInput, "grade"},
		"input with other bytes":  {other(func(r *prov.Result) { r.Inputs[0].SHA256 = r.Inputs[1].SHA256 }), prov.ResultInput, "grade"},
		"result of another run":   {other(func(r *prov.Result) { r.Run = baseRun }), prov.ManifestDisagrees, "grade"},
		"result of another try":   {other(func(r *prov.Result) { r.Attempt = 2 }), prov.ManifestDisagrees, "grade"},
		"result that failed":      {other(func(r *prov.Result) { r.Status = prov.Failed }), prov.ManifestDisagrees, "grade"},
		"result of no status":     {other(func(r *prov.Result) { r.Status = "fine" }), prov.ResultInvalid, "grade"},
		"unsorted limitations":    {other(func(r *prov.Result) { slices.Reverse(r.Limitations) }), prov.LimitationSetWrong, "grade"},
		"count of limitations":    {manifest(func(m *prov.Manifest) { m.Limitations.Count++ }), prov.ManifestDisagrees, ""},
		"set of limitations":      {manifest(func(m *prov.Manifest) { m.Limitations.SHA256 = *m.Stages[1].ResultSHA256 }), prov.LimitationLost, ""},
		"kind of a stage":         {manifest(func(m *prov.Manifest) { m.Stages[2].Kind = "import" }), prov.ManifestDisagrees, "grade"},
		"way of a stage":          {manifest(func(m *prov.Manifest) { m.Stages[2].How = nil }), prov.ManifestDisagrees, "grade"},
		"result taken for own":    {manifest(func(m *prov.Manifest) { m.Stages[0].How = new(prov.Executed) }), prov.ManifestDisagrees, "weights"},
		"added limitations":       {manifest(func(m *prov.Manifest) { m.Stages[0].Added = nil }), prov.JournalDisagrees, "weights"},
		"result of no journal":    {manifest(func(m *prov.Manifest) { m.Stages[2].ResultSHA256 = m.Stages[3].ResultSHA256 }), prov.JournalDisagrees, "grade"},
		"another record":          {manifest(func(m *prov.Manifest) { m.Record.SHA256 = *m.Stages[1].ResultSHA256 }), prov.ManifestDisagrees, "validate"},
		"a record that is not":    {manifest(func(m *prov.Manifest) { m.Record.Name = "record.json" }), prov.ManifestDisagrees, "validate"},
		"another plan":            {manifest(func(m *prov.Manifest) { m.Plan.SHA256 = *m.Stages[1].ResultSHA256 }), prov.ManifestDisagrees, ""},
		"another run":             {manifest(func(m *prov.Manifest) { m.Run = baseRun }), prov.ManifestDisagrees, ""},
		"another journal":         {manifest(func(m *prov.Manifest) { m.JournalSHA256 = *m.Stages[1].ResultSHA256 }), prov.JournalBroken, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bp := demo()
			tt.change(&bp)
			rep := build(t, bp).verify(t)
			if !slices.ContainsFunc(rep.Problems, func(p prov.Problem) bool { return p.Code == tt.code && p.Stage == tt.stage }) {
				t.Errorf("got %+v, want a problem %s of stage %q", rep.Problems, tt.code, tt.stage)
			}
			if rep.OK || rep.Level > 1 {
				t.Errorf("got ok %v, level %d, want neither", rep.OK, rep.Level)
			}
		})
	}
}

func TestVerifyDerivesEveryRecordAgain(t *testing.T) {
	bp := demo()
	bp.nodes[3].record = true
	b := build(t, bp)
	ctx := t.Context()
	calls := 0
	again := func(level int, problems ...prov.Problem) prov.RederiveFunc {
		return func(_ context.Context, record stage.Artifact, c stage.Closure, beside []stage.Artifact) (int, []prov.Problem, error) {
			if len(beside) != 1 || beside[0].Stage != "summarize" || beside[0].SHA256 == record.SHA256 {
				t.Errorf("beside the record stand %v, want what its stage published too", beside)
			}
			calls++
			if record.Stage != "summarize" || len(members(c)) != 5 || len(record.LimitationSet()) != 5 {
				t.Errorf("got %s with closure %v and %d limitations", record.Stage, members(c), len(record.LimitationSet()))
			}
			return level, problems, nil
		}
	}
	tests := map[string]struct {
		rederive prov.RederiveFunc
		level    int
		problems int
	}{
		"nobody does":     {nil, 2, 0},
		"all is equal":    {again(3), 3, 0},
		"a figure is not": {again(2, prov.Problem{Text: "cells[0].metrics[3].value is 4, want 5"}), 2, 1},
	}
	for name, tt := range tests {
		rep, err := prov.Verify(ctx, b.open(t), b.store, prov.VerifyOptions{Rederive: tt.rederive})
		must(t, err)
		if rep.Level != tt.level || len(rep.Problems) != tt.problems || rep.OK != (tt.problems == 0) {
			t.Errorf("%s: got %+v, want level %d and %d problems", name, rep, tt.level, tt.problems)
		}
	}
	if calls != 2 {
		t.Errorf("the record was derived %d times, want twice", calls)
	}
	flip(t, b.store.Path(b.results[0]), 3, 1)
	rep, err := prov.Verify(ctx, b.open(t), b.store, prov.VerifyOptions{Rederive: again(3)})
	must(t, err)
	if calls != 2 || rep.Level != 0 {
		t.Errorf("got level %d and %d calls, want nothing derived from damaged evidence", rep.Level, calls)
	}
}

// What no record stands on is held against the rules of its kind all the same.
func TestVerifyChecksWhatIsNoRecord(t *testing.T) {
	bp := demo()
	bp.nodes[3].record = true
	b := build(t, bp)
	var seen []string
	rep, err := prov.Verify(t.Context(), b.open(t), b.store, prov.VerifyOptions{
		Rederive: func(context.Context, stage.Artifact, stage.Closure, []stage.Artifact) (int, []prov.Problem, error) {
			return 3, nil, nil
		},
		Check: func(_ context.Context, a stage.Artifact, closure func() (stage.Closure, error)) (int, []prov.Problem, error) {
			if c, err := closure(); err != nil || a.Stage == "measure" && len(members(c)) == 0 {
				t.Errorf("%s stands on %v, %v", a.Stage, members(c), err)
			}
			seen = append(seen, a.Stage+" "+string(a.Schema))
			if a.Stage == "measure" {
				return 1, []prov.Problem{{Text: "a rule"}}, nil
			}
			return 3, nil, nil
		},
	})
	must(t, err)
	if slices.Contains(seen, "summarize "+prov.RecordSchema) || len(seen) != 9 {
		t.Errorf("looked at what %q published, want all but the record", seen)
	}
	if rep.OK || rep.Level != 1 || len(rep.Problems) == 0 || rep.Problems[0].Stage != "measure" || rep.Problems[0].Code != prov.NotRederived {
		t.Errorf("report %+v", rep)
	}
}

func names(rep *prov.Report, name string) bool {
	return slices.ContainsFunc(rep.Problems, func(p prov.Problem) bool { return p.Path == name })
}

func filesBelow(tb testing.TB, dir string) []string {
	tb.Helper()
	var names []string
	must(tb, fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	}))
	if len(names) == 0 {
		tb.Fatalf("no files below %s", dir)
	}
	return names
}

func BenchmarkVerify(b *testing.B) {
	bp := blueprint{lean: true, nodes: []node{{id: "import", kind: "import", leaf: "x"}}}
	for i := range 1000 {
		bp.nodes = append(bp.nodes, node{id: fmt.Sprint("grade", i), kind: "grade", from: []int{0}, raised: []stage.Limitation{limitation("samples.few")}})
	}
	run := build(b, bp)
	for b.Loop() {
		if rep := run.verify(b); !rep.OK {
			b.Fatal(rep.Problems[0])
		}
	}
}
