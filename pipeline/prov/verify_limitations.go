package prov

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

type complain func(code, name, want, got, text string)

// limitations proves that nothing that was true of an input is missing from
// the outputs: each reference's set holds that of the result it names, the
// result's set holds those of all references, and every output has that set.
func (v *verifier) limitations(ctx context.Context, res *Result, at complain) {
	union := stage.LimitationSet{}
	for _, in := range res.Inputs {
		set, ok := v.set(ctx, in.Limitations, res.Stage, in.Name)
		if !ok {
			continue
		}
		union = union.Union(set)
		if in.From != nil {
			v.reference(ctx, in, set, at)
		}
	}
	for _, l := range union.Missing(res.Limitations) {
		at(LimitationLost, "limitations", describe(l), "", "an input has a limitation that the result does not")
	}
	v.raised(res, union, at)
	_, d := stage.NewLimitationSet(res.Limitations...).Canonical()
	if _, asWritten := res.Limitations.Canonical(); asWritten != d {
		at(LimitationSetWrong, "limitations", "", "", "the result's limitations are not sorted or not unique")
	}
	for _, o := range res.Outputs {
		v.want(o.Limitations, -1, res.Stage, o.Name+", its limitation set")
		if o.Limitations != d {
			at(LimitationSetWrong, o.Name, d.String(), o.Limitations.String(), "the output's limitation set is not that of its result")
		}
		if res.Kind != KindImport && embeds(o) {
			v.embedded(ctx, res, o, at)
		}
	}
}

func describe(l stage.Limitation) string {
	return fmt.Sprintf("%s (%s): %s", l.Code, l.Origin, l.Text)
}

// reference compares an input with the output of the result that it names.
func (v *verifier) reference(ctx context.Context, in Input, set stage.LimitationSet, at complain) {
	from := v.read(ctx, in.From.Result, in.From.Stage)
	if from == nil {
		return // named already
	}
	if from.Run != in.From.Run || from.Stage != in.From.Stage {
		at(ResultInput, in.Name, in.From.Run+"/"+in.From.Stage, from.Run+"/"+from.Stage, "an input names a result of another stage")
	}
	for _, o := range from.Outputs {
		if o.Name == in.From.Name {
			v.sameOutput(ctx, in, o, set, at)
			return
		}
	}
	at(ResultInput, in.Name, in.From.Name, "", "an input names an output that its result does not have")
}

func (v *verifier) sameOutput(ctx context.Context, in Input, o Output, set stage.LimitationSet, at complain) {
	if o.SHA256 != in.SHA256 || o.Size != in.Size || o.Schema != in.Schema {
		at(ResultInput, in.Name, o.SHA256.String(), in.SHA256.String(), "an input is not the output that it names")
	}
	made, ok := v.set(ctx, o.Limitations, in.From.Stage, o.Name)
	if !ok {
		return
	}
	for _, l := range made.Missing(set) {
		at(LimitationLost, in.Name, describe(l), "", "a reference has fewer limitations than the artifact was made with")
	}
	for _, l := range set.Missing(made) {
		if l.Origin != stage.OriginRun {
			at(LimitationForeign, in.Name, "", describe(l), "a reference has a limitation that its artifact was not made with and that no executor added")
		}
	}
}

// bound proves that the stages of this run read its artifacts with the sets
// that they have in it: the executor may have added to what it took over. The
// same bytes may have been published twice; then one of their sets must be there.
func (v *verifier) bound(ctx context.Context, inRun map[digest.Digest][]stage.LimitationSet) {
	for _, st := range v.m.Stages {
		if st.ResultSHA256 == nil || v.results[*st.ResultSHA256] == nil {
			continue
		}
		for _, in := range v.results[*st.ResultSHA256].Inputs {
			if sets := inRun[in.SHA256]; in.From != nil && len(sets) > 0 {
				v.boundInput(ctx, st, in, sets)
			}
		}
	}
}

func (v *verifier) boundInput(ctx context.Context, st ManifestStage, in Input, sets []stage.LimitationSet) {
	has, ok := v.set(ctx, in.Limitations, st.ID, in.Name)
	if !ok {
		return
	}
	// A stage that was reused with its input reads it as it was made; what was
	// added to the input is then added to the stage's own artifacts.
	if st.Added != nil {
		added, ok := v.set(ctx, *st.Added, st.ID, "added")
		if !ok {
			return
		}
		has = has.Union(added)
	}
	for _, want := range sets {
		if len(want.Missing(has)) == 0 {
			return
		}
	}
	for _, l := range sets[0].Missing(has) {
		v.report.add(Problem{
			Code: LimitationLost, Stage: st.ID, Name: in.Name, Path: v.vault.Path(*st.ResultSHA256), Expected: describe(l),
			Text: "an input has fewer limitations than the artifact has in this run",
		})
	}
}

// raised proves that what the attempt raised bears its own name, the plan's or
// the executor's. An import takes over the names of the set beside its file.
func (v *verifier) raised(res *Result, union stage.LimitationSet, at complain) {
	if res.Kind == KindImport {
		return
	}
	for _, l := range res.Limitations.Missing(union) {
		if l.Origin != res.Stage && l.Origin != stage.OriginRun && l.Origin != stage.OriginPlan {
			at(LimitationForeign, "limitations", res.Stage, describe(l), "a limitation is raised in the name of another stage")
		}
	}
}

func (v *verifier) onlyRun(stageID, name string, set stage.LimitationSet) {
	for _, l := range set {
		if l.Origin != stage.OriginRun {
			v.report.add(Problem{
				Code: LimitationForeign, Stage: stageID, Name: name, Path: ManifestName, Expected: stage.OriginRun, Found: describe(l),
				Text: "the executor added a limitation that is not its own",
			})
		}
	}
}

// set reads a limitation set and proves that it is in its one form.
func (v *verifier) set(ctx context.Context, d digest.Digest, stageID, name string) (stage.LimitationSet, bool) {
	o := object{d, -1, stageID, name + ", its limitation set"}
	set, err := v.r.Set(ctx, d)
	if err != nil {
		v.unreadable(err, o)
		return nil, false
	}
	v.want(d, -1, o.stage, o.name)
	if _, canonical := stage.NewLimitationSet(set...).Canonical(); canonical != d {
		v.report.add(Problem{
			Code: LimitationSetWrong, Stage: stageID, Name: o.name, Path: v.vault.Path(d), Expected: canonical.String(), Found: d.String(),
			Text: "the limitation set is not sorted, not unique or not in canonical JSON",
		})
	}
	return set, true
}

// embeds tells whether an output is one of our own JSON documents, which hold
// their limitations.
func embeds(o Output) bool {
	return strings.HasPrefix(string(o.Schema), "anvil.") && strings.HasSuffix(o.Name, ".json") &&
		o.Schema != "anvil.limitations/v1" && o.Schema != "anvil.live-http-run/v1"
}

// embedded compares a document's own limitations with its result's: it may
// lack what the executor raised, and nothing else.
func (v *verifier) embedded(ctx context.Context, res *Result, o Output, at complain) {
	b, err := v.r.Bytes(ctx, o.SHA256, o.Size)
	if err != nil {
		return // hashed and named with the other objects
	}
	var doc struct {
		Limitations *stage.LimitationSet `json:"limitations"`
	}
	if err := json.Unmarshal(b, &doc); err != nil || doc.Limitations == nil {
		at(LimitationDocument, o.Name, "", "", "a document of ours does not hold its limitations")
		return
	}
	own := stage.NewLimitationSet(*doc.Limitations...)
	for _, l := range res.Limitations.Missing(own) {
		if l.Origin != stage.OriginRun {
			at(LimitationLost, o.Name, describe(l), "", "a document lacks a limitation of its result")
		}
	}
	for _, l := range own.Missing(res.Limitations) {
		at(LimitationForeign, o.Name, "", describe(l), "a document holds a limitation that its result does not")
	}
}
