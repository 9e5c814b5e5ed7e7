package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

// publish writes the outputs, the statement, the result and what points to it,
// in this order: a crash leaves the old state or the new one.
func (a *attempt) publish(ctx context.Context, status prov.Status, failure error) error {
	n, e := a.n, a.e
	set := a.limitations(status)
	var outs []prov.Output
	if status == prov.OK || status == prov.Aborted {
		var err error
		if outs, err = a.outputs.publish(ctx, set, status == prov.OK, e.secrets); err != nil {
			status, failure, outs = prov.Failed, err, nil
		}
	}
	res := a.result(status, failure, outs, set)
	raw, err := prov.EncodeResult(res)
	if err != nil {
		return err
	}
	sum, err := a.write(ctx, raw)
	if err != nil {
		return err
	}
	err = a.folder.journal.Append(prov.Line{
		Event: prov.StageFinished, Stage: n.ID, Kind: n.spec.Name, Attempt: a.number, Status: status, Key: &a.b.key, Result: &sum, Text: messageOf(res.Error),
	})
	if err != nil {
		return err
	}
	n.outcome = n.stand(&standing{sum: sum, res: &res, how: prov.Executed}, e.x.Store)
	n.outcome.elapsed = time.Since(a.begun)
	n.outcome.internal = a.stack != nil
	if status == prov.OK {
		err = e.x.Store.Point(a.b.key, store.Pointer{Run: a.runID, Stage: n.ID, Attempt: a.number, Result: sum})
	}
	a.copies(outs)
	return err
}

func messageOf(err *prov.ResultError) string {
	if err == nil {
		return ""
	}
	return err.Message
}

func (a *attempt) result(status prov.Status, failure error, outs []prov.Output, set stage.LimitationSet) prov.Result {
	res := prov.Result{
		Schema: prov.ResultSchema, Run: a.runID, Stage: a.n.ID, Kind: a.n.spec.Name, Contract: a.n.spec.Contract, Class: a.n.spec.Class,
		Attempt: a.number, Status: status, Key: a.b.key, Config: a.n.KeyConfig, Salt: a.e.plan.Salt, Inputs: a.b.inputs,
		Outputs: outs, Limitations: set, StartedAt: stage.Time{Time: a.started}, FinishedAt: stage.Time{Time: a.e.x.now()}, Findings: a.findings(),
	}
	if failure != nil {
		coded := &codedError{codeOf(failure, CodeStage), failure}
		errors.As(failure, &coded)
		res.Error = &prov.ResultError{Code: coded.code, Message: a.e.secrets.Redact(failure.Error())}
	}
	return res
}

func (a *attempt) findings() []stage.Finding {
	if a.outputs == nil {
		return nil
	}
	var out []stage.Finding
	for _, f := range a.outputs.out.Collect().Findings {
		out = append(out, stage.Finding{Code: f.Code, Text: a.e.secrets.Redact(f.Text)})
	}
	return out
}

// write stores the result and puts it, after its statement, into the attempt's
// folder.
func (a *attempt) write(ctx context.Context, result []byte) (digest.Digest, error) {
	sum, err := a.e.x.Store.PutBytes(ctx, result)
	if err != nil {
		return sum, err
	}
	tool, err := a.e.tool()
	if err != nil {
		return sum, err
	}
	st, err := prov.StageStatement(result, tool)
	if err != nil {
		return sum, err
	}
	statement, err := st.Encode()
	if err != nil {
		return sum, err
	}
	d := a.folder.disk
	if err := d.WriteFile(filepath.Join(a.dir, prov.StatementName), statement); err != nil {
		return sum, err
	}
	return sum, d.WriteFile(filepath.Join(a.dir, prov.ResultName), result)
}

// copies puts the outputs under readable names. They may be lost; what they
// are copies of may not, so an error is told and stops nothing.
func (a *attempt) copies(outs []prov.Output) {
	for _, o := range outs {
		name := filepath.Join(prov.ArtifactsFolder, a.n.Dir, o.Name)
		if err := a.e.x.Store.Export(o.SHA256, a.folder.disk.Root(), name); err != nil {
			a.e.warn(a.n, "copy_failed", fmt.Sprintf("the readable copy %s: %v", name, err))
		}
	}
}
