package prov

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/key"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

// An object is to be hashed; stage and name say who speaks of it first.
type object struct {
	sum         digest.Digest
	size        int64 // -1: none promised
	stage, name string
}

func (v *verifier) want(sum digest.Digest, size int64, stageID, name string) {
	if o, ok := v.objects[sum]; !ok || o.size < 0 && size >= 0 {
		v.objects[sum] = object{sum, size, stageID, name}
	}
}

// stages compares run.json with the results that it names, and follows each to
// the leaves.
func (v *verifier) stages(ctx context.Context) error {
	all := []stage.LimitationSet{}
	inRun := map[digest.Digest][]stage.LimitationSet{}
	for _, st := range v.m.Stages {
		if err := ctx.Err(); err != nil {
			return err
		}
		if st.ResultSHA256 == nil {
			if st.How != nil {
				v.disagrees(st.ID, "how", "null", string(*st.How), "a stage without a result came by none")
			}
			continue
		}
		res := v.follow(ctx, *st.ResultSHA256, st.ID)
		if res == nil {
			continue
		}
		v.stage(st, res)
		set, ok := v.inRun(ctx, st, res)
		if !ok {
			continue
		}
		all = append(all, set)
		for _, o := range res.Outputs {
			inRun[o.SHA256] = append(inRun[o.SHA256], set)
		}
	}
	v.earlierAttempts(ctx)
	v.bound(ctx, inRun)
	if v.run.Manifest == nil {
		return nil
	}
	v.manifest(all)
	return v.journalAgrees()
}

// earlierAttempts follows the results that no stage stands on any more: what
// they published is kept, too.
func (v *verifier) earlierAttempts(ctx context.Context) {
	for name, sum := range v.files {
		parts := strings.Split(name, "/")
		if len(parts) == 4 && parts[0] == StagesFolder && parts[3] == ResultName && !v.changed[name] {
			v.follow(ctx, sum, parts[1])
		}
	}
}

// inRun is the limitation set that the stage's artifacts have in this run.
func (v *verifier) inRun(ctx context.Context, st ManifestStage, res *Result) (stage.LimitationSet, bool) {
	if st.Added == nil {
		return res.Limitations, true
	}
	added, ok := v.set(ctx, *st.Added, st.ID, "added")
	if !ok {
		return nil, false
	}
	v.onlyRun(st.ID, "added", added)
	return res.Limitations.Union(added), true
}

func (v *verifier) disagrees(stageID, name, want, got, text string) {
	v.report.add(Problem{Code: ManifestDisagrees, Stage: stageID, Name: name, Path: ManifestName, Expected: want, Found: got, Text: text})
}

// stage compares a stage of run.json with its result.
func (v *verifier) stage(st ManifestStage, res *Result) {
	type fact struct{ name, want, got string }
	facts := []fact{{"kind", res.Kind, st.Kind}, {"status", string(res.Status), string(st.Status)}}
	if st.How == nil {
		v.disagrees(st.ID, "how", "", "null", "run.json does not say how the stage came by its result")
	} else if *st.How == Executed {
		attempt := 0
		if st.Attempt != nil {
			attempt = *st.Attempt
		}
		facts = append(facts, fact{"run", res.Run, v.m.Run}, fact{"stage", res.Stage, st.ID}, fact{"attempt", fmt.Sprint(res.Attempt), fmt.Sprint(attempt)})
		if v.files != nil && !v.attempts()[*st.ResultSHA256] {
			v.disagrees(st.ID, "result_sha256", st.ResultSHA256.String(), "", "no attempt in the run's folder has the result that run.json names")
		}
	}
	for _, f := range facts {
		if f.want != f.got {
			v.disagrees(st.ID, f.name, f.want, f.got, "run.json and the stage's result disagree")
		}
	}
}

// attempts holds the digest of every result.json that run.json names.
func (v *verifier) attempts() map[digest.Digest]bool {
	if v.own == nil {
		v.own = map[digest.Digest]bool{}
		for name, d := range v.m.Files {
			if strings.HasPrefix(name, StagesFolder+"/") && strings.HasSuffix(name, "/"+ResultName) {
				v.own[d] = true
			}
		}
	}
	return v.own
}

// manifest compares the rest of run.json with what the results and files say.
func (v *verifier) manifest(sets []stage.LimitationSet) {
	_, got := stage.LimitationSet(nil).Union(sets...).Canonical()
	if got != v.m.Limitations.SHA256 {
		v.report.add(Problem{
			Code: LimitationLost, Name: "limitations", Path: ManifestName, Expected: got.String(), Found: v.m.Limitations.SHA256.String(),
			Text: "the limitations of run.json are not those of all that the run published",
		})
	} else if n := len(stage.LimitationSet(nil).Union(sets...)); n != v.m.Limitations.Count {
		v.disagrees("", "limitations.count", fmt.Sprint(n), fmt.Sprint(v.m.Limitations.Count), "the count of limitations is wrong")
	}
	for name, want := range map[string]digest.Digest{PlanName: v.m.Plan.SHA256, ResolvedPlanName: v.m.Plan.ResolvedSHA256} {
		if got, ok := v.m.Files[name]; !ok || got != want {
			v.disagrees("", name, want.String(), got.String(), "the plan that run.json names is not the one in the run's folder")
		}
	}
	if v.m.Run != v.run.ID {
		v.disagrees("", "run", v.run.ID, v.m.Run, "run.json belongs to another run")
	}
	v.record()
}

func (v *verifier) record() {
	rec := v.m.Record
	if rec == nil {
		return
	}
	made := v.published()[rec.Stage+"/"+rec.Name]
	switch {
	case len(made) == 0:
		v.disagrees(rec.Stage, rec.Name, "", rec.SHA256.String(), "run.json names a record that no stage made")
	case made[0].SHA256 != rec.SHA256:
		v.disagrees(rec.Stage, rec.Name, made[0].SHA256.String(), rec.SHA256.String(), "run.json names another record than the stage made")
	}
}

// journalAgrees compares what the journal says last of the run and of each
// stage with run.json.
func (v *verifier) journalAgrees() error {
	chain, err := v.run.Journal()
	if err != nil {
		return nil //nolint:nilerr // in the report already
	}
	disagrees := func(stageID, want, got, text string) {
		v.report.add(Problem{Code: JournalDisagrees, Stage: stageID, Path: JournalName, Expected: want, Found: got, Text: text})
	}
	for _, l := range slices.Backward(chain.Lines) {
		if l.Event != RunFinished {
			continue
		}
		want, got := fmt.Sprintf("%s, exit %d", v.m.Status, v.m.Exit), string(l.Status)
		if l.Exit != nil {
			got += fmt.Sprintf(", exit %d", *l.Exit)
		}
		if want != got {
			disagrees("", want, got, "the journal says that the run ended otherwise than run.json says")
		}
		break
	}
	said := map[string]ManifestStage{}
	for _, st := range fromJournal(v.run.ID, chain.Lines).Stages {
		said[st.ID] = st
	}
	for _, st := range v.m.Stages {
		j, told := said[st.ID]
		switch {
		case st.Status == NotStarted:
			// An earlier part of the run may have tried it; it stands on nothing.
			if told && j.Status == OK {
				disagrees(st.ID, string(st.Status), string(j.Status), "the journal says that the stage is ok, run.json that it was not started")
			}
		case j.Status != st.Status:
			disagrees(st.ID, string(st.Status), string(j.Status), "the journal says another end of the stage than run.json")
		case st.ResultSHA256 != nil && (j.How == nil || st.How == nil || *j.How != *st.How):
			disagrees(st.ID, wayOf(st.How), wayOf(j.How), "the journal says that the stage came by its result otherwise than run.json says")
		case text(j.ResultSHA256) != text(st.ResultSHA256) || text(j.Added) != text(st.Added):
			disagrees(st.ID, text(st.ResultSHA256), text(j.ResultSHA256), "the journal names another result for the stage, or other added limitations, than run.json")
		}
	}
	return nil
}

func wayOf(how *How) string {
	if how == nil {
		return "null"
	}
	return string(*how)
}

func text(d *digest.Digest) string {
	if d == nil {
		return ""
	}
	return d.String()
}

// follow proves a result and everything that it stands on, each result once.
// It returns nil for one that cannot be read.
func (v *verifier) follow(ctx context.Context, root digest.Digest, by string) *Result {
	type todo struct {
		sum digest.Digest
		by  string
	}
	queue := []todo{{root, by}}
	for len(queue) > 0 {
		t := queue[0]
		queue = queue[1:]
		if v.followed[t.sum] {
			continue
		}
		v.followed[t.sum] = true
		res := v.read(ctx, t.sum, t.by)
		if res == nil {
			continue
		}
		for _, in := range res.Inputs {
			if in.From != nil {
				queue = append(queue, todo{in.From.Result, in.From.Stage})
			}
		}
		v.result(ctx, t.sum, res)
	}
	return v.results[root]
}

// read reads a result once; nil is one that cannot be read, and is named.
func (v *verifier) read(ctx context.Context, sum digest.Digest, by string) *Result {
	res, ok := v.results[sum]
	if !ok {
		res = v.decode(ctx, sum, by)
		v.results[sum] = res
	}
	return res
}

func (v *verifier) decode(ctx context.Context, sum digest.Digest, by string) *Result {
	b, err := v.r.Bytes(ctx, sum, -1)
	if err != nil {
		v.unreadable(err, object{sum, -1, by, ResultName})
		return nil
	}
	res, err := DecodeResult(b)
	if err == nil {
		err = checkSchema(ResultSchema, b)
	}
	if err != nil {
		v.report.add(Problem{Code: ResultInvalid, Stage: by, Name: ResultName, Path: v.vault.Path(sum), Text: err.Error()})
		return nil
	}
	return res
}

func checkSchema(id schemas.ID, b []byte) error {
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return err
	}
	return schemas.Check(id, doc)
}

// result proves what a result says of itself.
func (v *verifier) result(ctx context.Context, sum digest.Digest, res *Result) {
	at := func(code, name, want, got, text string) {
		v.report.add(Problem{Code: code, Stage: res.Stage, Name: name, Path: v.vault.Path(sum), Expected: want, Found: got, Text: text})
	}
	if got, err := KeyOf(res); err != nil {
		at(ResultKey, "key", "", "", err.Error())
	} else if got != res.Key {
		at(ResultKey, "key", got.String(), res.Key.String(), "the key is not the one that the result's kind, configuration and inputs give")
	}
	for _, in := range res.Inputs {
		v.want(in.SHA256, in.Size, res.Stage, in.Name)
		if in.Whole != nil {
			v.want(in.Whole.SHA256, in.Whole.Size, res.Stage, in.Name)
		}
	}
	for _, o := range res.Outputs {
		v.want(o.SHA256, o.Size, res.Stage, o.Name)
	}
	v.limitations(ctx, res, at)
}

// KeyOf computes the stage key again from what the result says entered it.
func KeyOf(res *Result) (digest.Digest, error) {
	spec := key.Spec{Kind: res.Kind, Contract: res.Contract, Config: res.Config, Salt: res.Salt}
	for _, in := range res.Inputs {
		spec.Inputs = append(spec.Inputs, key.Input{Port: in.Port, Ref: in.Ref})
	}
	return key.Of(spec)
}

// hashObjects reads everything that was reached, several at once.
func (v *verifier) hashObjects(ctx context.Context) error {
	order := make([]object, 0, len(v.objects))
	for _, o := range v.objects {
		order = append(order, o)
	}
	slices.SortFunc(order, func(a, b object) int { return slices.Compare(a.sum[:], b.sum[:]) })
	errs := make([]error, len(order))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(order)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = v.vault.Check(ctx, order[i].sum, order[i].size)
			}
		})
	}
	for i := range order {
		next <- i
	}
	close(next)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, err := range errs {
		if err != nil && (order[i].sum != emptySet || !errors.Is(err, fs.ErrNotExist)) {
			v.unreadable(err, order[i])
		}
	}
	return nil
}

// unreadable names an object that is missing or damaged.
func (v *verifier) unreadable(err error, o object) {
	p := Problem{Code: ObjectDamaged, Stage: o.stage, Name: o.name, Path: v.vault.Path(o.sum), Expected: o.sum.String(), Text: err.Error()}
	var mismatch *digest.MismatchError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.Code = ObjectMissing
		p.Text = "the store does not hold the object"
	case errors.As(err, &mismatch):
		p.Text = "the object's bytes are not what its name says: " + mismatch.Error()
		if !mismatch.Got.IsZero() {
			p.Found = mismatch.Got.String()
		}
	}
	v.report.add(p)
}
