package prov

import (
	"context"
	"fmt"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// rederive computes every record that the run published again. It does so
// only from evidence that is intact and consistent.
func (v *verifier) rederive(ctx context.Context, again RederiveFunc) error {
	if v.report.Level < 2 {
		return nil
	}
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
			if o.Schema != RecordSchema || done[o.SHA256] {
				continue
			}
			done[o.SHA256] = true
			from := &From{Run: res.Run, Stage: res.Stage, Name: o.Name, Result: *st.ResultSHA256}
			if err := v.again(ctx, again, st.ID, o, from); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *verifier) again(ctx context.Context, again RederiveFunc, id string, o Output, from *From) error {
	if again == nil {
		v.report.Level = min(v.report.Level, 2)
		return nil
	}
	set, err := v.r.Set(ctx, o.Limitations)
	if err != nil {
		// The set that the record has in this run may be no object of its own.
		set = v.results[from.Result].Limitations
	}
	record := stage.NewArtifact(o.Ref, id, o.Name, v.vault, set)
	closure, err := NewClosure(ctx, v.r, record, from)
	if err != nil {
		return err
	}
	level, problems, err := again(ctx, record, closure)
	if err != nil {
		return fmt.Errorf("derive %s/%s again: %w", id, o.Name, err)
	}
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
	return nil
}
