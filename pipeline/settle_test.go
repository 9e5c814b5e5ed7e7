package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/digest"
	"anvil/pipeline/event"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// A tellingKind says in what it decodes how it was told to measure.
type tellingKind struct{ labKind }

func (k tellingKind) New(config json.RawMessage) (stage.Stage, error) {
	return telling{capturing{labStage(k.labKind)}, config}, nil
}

type telling struct {
	capturing
	config json.RawMessage
}

func (s telling) Recover(ctx context.Context, env stage.Env, in stage.Inputs, out *stage.Outputs) error {
	f, _ := in.File("/file")
	b, err := f.Bytes(ctx)
	if err != nil {
		return err
	}
	scout, ok := in.One("scout")
	if !ok {
		return errors.New("no scout is bound")
	}
	return out.JSON("seen.json", map[string]any{"with": s.config, "file": string(b), "scout": scout.SHA256})
}

func killedPlan(l *lab) labPlan {
	p := l.plan("scout look", "measure look scout", "grade make measure").file("scout", "s.txt", "one").file("measure", "d.txt", "one")
	l.capturing(p, "measure")
	p.stage("measure").Kind = tellingKind{p.stage("measure").Kind.(recoverKind).labKind}
	return p.with("measure", `{"concurrency": 1}`)
}

// TestKilledInMeasure runs in a process of its own, which kills itself in the
// middle of the measurement.
func TestKilledInMeasure(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		t.Skip("runs in a process of its own")
	}
	l := newLabIn(t, dir)
	_, err := l.x.Run(context.Background(), killedPlan(l).Plan, Options{})
	t.Fatalf("it was not killed: %v", err)
}

// killedInMeasure is the workspace of an anvil that was killed in the middle of
// its measurement, and the run that it left.
func killedInMeasure(t *testing.T) (l *lab, id string) {
	t.Helper()
	dir := quickDir(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledInMeasure$")
	cmd.Env = append(os.Environ(), killDir+"="+dir, killAt+"=-1")
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v\n%s", err, out)
	}
	l = newLabIn(t, dir)
	return l, l.runFolders()[0]
}

func (l *lab) attempt(id, stage, number string) *prov.Result {
	l.t.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, prov.RunsFolder, id, prov.StagesFolder, stage, number, prov.ResultName))
	if err != nil {
		l.t.Fatal(err)
	}
	res, err := prov.DecodeResult(b)
	if err != nil {
		l.t.Fatal(err)
	}
	return res
}

// everyFile is what stands in a run's folder but for its lock.
func (l *lab) everyFile(id string) map[string]string {
	l.t.Helper()
	dir := filepath.Join(l.dir, prov.RunsFolder, id)
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == prov.LockName {
			return err
		}
		b, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(b)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// What a killed attempt measured under one configuration must not become the
// evidence of another.
func TestEvidenceOfAKilledAttemptServesOnlyAPlanThatAsksForTheSame(t *testing.T) {
	l, id := killedInMeasure(t)
	before := l.everyFile(id)
	for name, c := range map[string]struct {
		change func(labPlan)
		path   string
	}{
		"configuration": {func(p labPlan) { p.with("measure", `{"concurrency": 4}`) }, "with.concurrency"},
		"file":          {func(p labPlan) { p.file("measure", "d.txt", "two") }, "with.file.sha256"},
		"salt":          {func(p labPlan) { p.Salt = "x"; p.seal() }, "salt"},
	} {
		t.Run(name, func(t *testing.T) {
			p := killedPlan(l)
			c.change(p)
			r, err := l.x.Run(t.Context(), p.Plan, Options{From: []string{"grade"}, Base: id, AcceptAborted: true})
			base, ok := errors.AsType[*BaseError](err)
			if !ok {
				t.Fatalf("got %v, %v, want a *BaseError", r, err)
			}
			if !slices.ContainsFunc(base.Differences, func(d Difference) bool { return d.Path == c.path }) {
				t.Errorf("the error does not name %s: %v", c.path, err)
			}
			if diff := cmp.Diff(before, l.everyFile(id)); diff != "" {
				t.Errorf("the base was written to:\n%s", diff)
			}
		})
	}
	r := l.run(killedPlan(l), Options{From: []string{"grade"}, Base: id, AcceptAborted: true})
	wantStates(t, r, "scout=ok/taken_over measure=aborted/taken_over grade=ok/executed")
	l.verify(r)
}

// What is policy does not enter the key, and yet says how it was measured.
func TestAKilledAttemptIsDecodedUnderThePolicyThatItHad(t *testing.T) {
	l, id := killedInMeasure(t)
	p := killedPlan(l)
	p.stage("measure").With = json.RawMessage(`{"concurrency": 1, "pacing": "precise"}`)
	p.seal()
	r := l.run(p, Options{From: []string{"grade"}, Base: id, AcceptAborted: true})
	var doc struct {
		With map[string]any `json:"with"`
	}
	if err := json.Unmarshal(l.object(r.stage("measure").Outputs[0].SHA256), &doc); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"concurrency": 1.0}, doc.With); diff != "" {
		t.Errorf("decoded with (-want +got):\n%s", diff)
	}
}

func TestAResumeDecodesAKilledAttemptUnderTheFilesThatItRead(t *testing.T) {
	l, id := killedInMeasure(t)
	r := l.run(killedPlan(l).file("measure", "d.txt", "two"), Options{Resume: ResumeNewest})
	wantStates(t, r, "scout=ok/executed measure=ok/executed grade=ok/executed")
	one := l.attempt(id, "measure", "1")
	if want := digest.FromBytes([]byte("one")); one.Status != prov.Aborted || !slices.ContainsFunc(one.Inputs, func(in prov.Input) bool { return in.SHA256 == want }) {
		t.Errorf("attempt 1 is %s and read %+v, want aborted and the file as it was", one.Status, one.Inputs)
	}
	if text := string(l.object(one.Outputs[0].SHA256)); !strings.Contains(text, `"file": "one"`) {
		t.Errorf("it was decoded as %s", text)
	}
	if two := l.attempt(id, "measure", "2"); two.Key == one.Key {
		t.Error("attempts that read different files have one key")
	}
	l.verify(r)
}

// The scout is measured again, so that nothing of the measurement's inputs is
// known when the stages are decided.
func TestAKilledAttemptIsDecodedAlsoWhenWhatItStandsOnIsExecutedAgain(t *testing.T) {
	l, id := killedInMeasure(t)
	r := l.run(killedPlan(l).file("scout", "s.txt", "two"), Options{Resume: ResumeNewest})
	wantStates(t, r, "scout=ok/executed measure=ok/executed grade=ok/executed")
	if r.stage("scout").Attempt != 2 || r.stage("measure").Attempt != 2 {
		t.Fatalf("attempts are %+v", r.Stages)
	}
	one := l.attempt(id, "measure", "1")
	if one.Status != prov.Aborted || one.Error.Code != CodeLost {
		t.Errorf("attempt 1 is %s", one.Status)
	}
	lost := func(line prov.Line) bool {
		return line.Event == prov.StageLost && line.Stage == "measure" && line.Attempt == 1
	}
	if !slices.ContainsFunc(journal(t, r), lost) {
		t.Error("the journal does not say that attempt 1 was lost")
	}
	l.verify(r)
}

// Another anvil may not read a capture as the one that wrote it.
func TestAKilledAttemptOfAnotherContractStaysLost(t *testing.T) {
	l, id := killedInMeasure(t)
	p := killedPlan(l)
	k := p.stage("measure").Kind.(tellingKind)
	k.spec.Contract = 2
	p.stage("measure").Kind = k
	r := l.run(p, Options{Resume: ResumeNewest})
	wantStates(t, r, "scout=ok/executed measure=ok/executed grade=ok/executed")
	if _, err := os.Stat(filepath.Join(l.dir, prov.RunsFolder, id, "stages/measure/1", prov.ResultName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("attempt 1 has a result: %v", err)
	}
	if texts := l.seen.texts(event.StageWarning); len(texts) != 1 || !strings.Contains(texts[0], "contract: 1 -> 2") {
		t.Errorf("warnings are %q, want one that names the contract", texts)
	}
	l.verify(r)
}

func TestAKilledRunNamesItsPlan(t *testing.T) {
	l, id := killedInMeasure(t)
	r, err := prov.OpenRun(l.dir, id)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, err := r.State()
	if err != nil {
		t.Fatal(err)
	}
	p := killedPlan(l)
	if want := (prov.ManifestPlan{Name: p.Name, Path: p.File, SHA256: p.Digest, ResolvedSHA256: p.ResolvedDigest}); m.Plan != want {
		t.Errorf("plan %+v, want %+v", m.Plan, want)
	}
}

// A dry run writes nothing, and yet says what a run would do.
func TestADryRunSaysThatAKilledAttemptWouldServe(t *testing.T) {
	l, id := killedInMeasure(t)
	before := l.everyFile(id)
	opt := Options{From: []string{"grade"}, Base: id, AcceptAborted: true, DryRun: true}
	r, err := l.x.Run(t.Context(), killedPlan(l).Plan, opt)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range r.Decisions {
		got = append(got, fmt.Sprintf("%s %s %s", d.ID, d.Will, d.Reason))
	}
	if want := []string{"scout take_over base", "measure take_over base", "grade execute upstream"}; !slices.Equal(got, want) {
		t.Errorf("decisions %q, want %q", got, want)
	}
	if diff := cmp.Diff(before, l.everyFile(id)); diff != "" {
		t.Errorf("the base was written to:\n%s", diff)
	}
	if _, err := l.x.Run(t.Context(), killedPlan(l).with("measure", `{"concurrency": 4}`).Plan, opt); err == nil || !strings.Contains(err.Error(), "something else than its killed attempt") {
		t.Errorf("another plan: %v", err)
	}
	opt.AcceptAborted = false
	_, err = l.x.Run(t.Context(), killedPlan(l).Plan, opt)
	if base, ok := errors.AsType[*BaseError](err); !ok || base.Reason != "its process was killed there" || !strings.Contains(base.Hint(), "--accept-aborted") {
		t.Errorf("not asked for: %v", err)
	}
}

func TestAResumeDoesNotWaitForAPipe(t *testing.T) {
	// Without its claim nobody knows what a killed attempt was told: nothing is decoded.
	for name, decoded := range map[string]bool{prov.ResultName: true, ClaimName: false} {
		t.Run(name, func(t *testing.T) {
			l, id := killedInMeasure(t)
			place := filepath.Join(l.dir, prov.RunsFolder, id, "stages/measure/1", name)
			if err := os.RemoveAll(place); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(place, 0o644); err != nil {
				t.Fatal(err)
			}
			r := l.run(killedPlan(l), Options{Resume: ResumeNewest})
			wantStates(t, r, "scout=ok/executed measure=ok/executed grade=ok/executed")
			_, err := os.ReadFile(filepath.Join(filepath.Dir(place), prov.StatementName))
			if (err == nil) != decoded {
				t.Errorf("the killed attempt's statement: %v", err)
			}
		})
	}
}

// losesTheLine makes a run whose measurement published its result, and which
// ended before the journal's line of it was written.
func losesTheLine(t *testing.T) (l *lab, p labPlan, id string) {
	t.Helper()
	l = newLab(t)
	var ended atomic.Bool
	l.reopen(func(s disk.Step) error {
		if s.Op == disk.Rename && s.Path == "stages/measure/1/result.json" {
			ended.Store(true)
			return nil
		}
		if ended.Load() && s.Op != disk.SyncDir {
			return syscall.EIO
		}
		return nil
	})
	p = l.plan("measure look", "grade make measure")
	l.capturing(p, "measure")
	if _, err := l.x.Run(t.Context(), p.Plan, Options{}); err == nil {
		t.Fatal("the run did not say that it could not write")
	}
	l.reopen(nil)
	return l, p, l.runFolders()[0]
}

func TestAResultThatABaseDidNotWriteDownIsTakenOverAsItStands(t *testing.T) {
	for name, aborted := range map[string]bool{"aborted is accepted": true, "only what is ok": false} {
		t.Run(name, func(t *testing.T) {
			l, p, id := losesTheLine(t)
			file := filepath.Join(l.dir, prov.RunsFolder, id, "stages/measure/1", prov.ResultName)
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r := l.run(p, Options{From: []string{"grade"}, Base: id, AcceptAborted: aborted})
			wantStates(t, r, "measure=ok/taken_over grade=ok/executed")
			if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the base's result was replaced: %v\n%s", err, after)
			}
			l.verify(r)
		})
	}
}

// Of two that build on one base the second finds what the first has settled.
func TestABaseIsSettledOnce(t *testing.T) {
	l, id := killedInMeasure(t)
	opt := Options{From: []string{"grade"}, Base: id, AcceptAborted: true}
	first := l.run(killedPlan(l), opt)
	settled := l.everyFile(id)
	second := l.run(killedPlan(l), opt)
	if first.stage("measure").Result != second.stage("measure").Result {
		t.Error("the second stands on another result")
	}
	if diff := cmp.Diff(settled, l.everyFile(id)); diff != "" {
		t.Errorf("the base was written to again:\n%s", diff)
	}
}
