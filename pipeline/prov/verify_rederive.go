package prov

import (
	"context"
	"fmt"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// rederive computes every record that the run published again.
func (v *verifier) rederive(ctx context.Context, again RederiveFunc) error {
	return v.eachPublished(ctx, func(id string, o Output, from *From, outputs []Output) error {
		if o.Schema != RecordSchema {
			return nil
		}
		if again == nil {
			v.report.Level = min(v.report.Level, 2)
			return nil
		}
		record := v.artifact(ctx, id, o, from)
		closure, err := NewClosure(ctx, v.r, record, from)
		if err != nil {
			return err
		}
		var beside []stage.Artifact
		for _, other := range outputs {
			if other.SHA256 != o.SHA256 {
				beside = append(beside, v.artifact(ctx, id, other, from))
			}
		}
		level, problems, err := again(ctx, record, closure, beside)
		if err != nil {
			return fmt.Errorf("derive %s/%s again: %w", id, o.Name, err)
		}
		v.found(id, o, level, problems)
		return nil
	})
}

// checkOthers holds what is no record against the rules of its kind.
func (v *verifier) checkOthers(ctx context.Context, check CheckFunc) error {
	if check == nil {
		return nil
	}
	return v.eachPublished(ctx, func(id string, o Output, from *From, _ []Output) error {
		if o.Schema == RecordSchema {
			return nil
		}
		a := v.artifact(ctx, id, o, from)
		level, problems, err := check(ctx, a, func() (stage.Closure, error) { return NewClosure(ctx, v.r, a, from) })
		if err != nil {
			return fmt.Errorf("check %s/%s: %w", id, o.Name, err)
		}
		v.found(id, o, level, problems)
		return nil
	})
}

// eachPublished visits every artifact that the run published once, with all that
// its stage did.
func (v *verifier) eachPublished(ctx context.Context, visit func(id string, o Output, from *From, outputs []Output) error) error {
	done := map[digest.Digest]bool{}
	for _, st := range v.m.Stages {
		if st.ResultSHA256 == nil {
			continue
		}
		res := v.results[*st.ResultSHA256]
		outputs, err := Published(ctx, v.r, st)
		if err != nil {
			return err
		}
		for _, o := range outputs {
			if done[o.SHA256] {
				continue
			}
			done[o.SHA256] = true
			if err := visit(st.ID, o, &From{Run: res.Run, Stage: res.Stage, Name: o.Name, Result: *st.ResultSHA256}, outputs); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *verifier) artifact(ctx context.Context, id string, o Output, from *From) stage.Artifact {
	set, err := v.r.Set(ctx, o.Limitations)
	if err != nil {
		// The set that it has in this run may be no object of its own.
		set = v.results[from.Result].Limitations
	}
	return stage.NewArtifact(o.Ref, id, o.Name, v.vault, set)
}

// found takes over what a look inside found, at its place where none is named.
func (v *verifier) found(id string, o Output, level int, problems []Problem) {
	for _, p := range problems {
		if p.Stage == "" {
			p.Stage = id
		}
		if p.Name == "" {
			p.Name = o.Name
		}
		if p.Path == "" {
			p.Path = v.vault.Path(o.SHA256)
		}
		if p.Code == "" {
			p.Code = NotRederived
		}
		v.report.add(p)
	}
	v.report.Level = min(v.report.Level, level)
}
