package pipeline

import (
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// A standing is a result that a stage stands on, and what the executor added
// to its limitations when it took the result over.
type standing struct {
	sum   digest.Digest // of the result.json
	res   *prov.Result
	how   prov.How
	added stage.LimitationSet // of origin "run"; usually empty
}

// addedSum is the digest of the added set; nil when nothing was added.
func (s *standing) addedSum() *digest.Digest {
	if s == nil || len(s.added) == 0 {
		return nil
	}
	_, d := s.added.Canonical()
	return &d
}

// set is what travels with every output in this run.
func (s *standing) set() stage.LimitationSet {
	if len(s.added) == 0 {
		return s.res.Limitations
	}
	return s.res.Limitations.Union(s.added)
}

// outputs are the result's outputs with the sets that they have in this run.
func (s *standing) outputs() []prov.Output {
	if len(s.added) == 0 {
		return s.res.Outputs
	}
	_, d := s.set().Canonical()
	out := make([]prov.Output, len(s.res.Outputs))
	for i, o := range s.res.Outputs {
		o.Limitations = d
		out[i] = o
	}
	return out
}

// origin says which attempt made an output.
func (s *standing) origin(output string) *prov.From {
	return &prov.From{Run: s.res.Run, Stage: s.res.Stage, Name: output, Result: s.sum}
}

// An outcome is what became of a stage in this run. The zero value is that of
// a stage of which nothing is known yet.
type outcome struct {
	status    prov.Status // "" while nothing is known
	standing  *standing   // nil without a result
	artifacts []stage.Artifact
	blockedBy string // the stage at the root of it
	continues bool   // that stage says on_failure: continue
	reason    string // of a skip
	err       *prov.ResultError
	elapsed   time.Duration
	internal  bool // a fault of anvil: exit 1
	expected  bool // aborted and taken over as such: serves as ok
}

// artifact finds an output by name.
func (o *outcome) artifact(name string) (stage.Artifact, bool) {
	for _, a := range o.artifacts {
		if a.Name == name {
			return a, true
		}
	}
	return stage.Artifact{}, false
}

// serves tells whether dependants can use the stage's outputs.
func (o *outcome) serves() bool {
	return o.status == prov.OK || o.expected
}

// stand makes the outcome of a stage that stands on a result.
func (n *node) stand(s *standing, opener stage.Opener) outcome {
	o := outcome{status: s.res.Status, standing: s, err: s.res.Error}
	set := s.set()
	for _, out := range s.outputs() {
		o.artifacts = append(o.artifacts, stage.NewArtifact(out.Ref, n.ID, out.Name, opener, set))
	}
	return o
}

// findings are those of the result that the stage stands on.
func (o *outcome) findings() []stage.Finding {
	if o.standing == nil {
		return nil
	}
	return o.standing.res.Findings
}

// how says where the result comes from; "" without one.
func (o *outcome) how() prov.How {
	if o.standing == nil {
		return ""
	}
	return o.standing.how
}

// block finds what keeps n from running: the stage at the root of it, and
// whether that stage would let those go on that need it through an optional
// port alone. All needs of n must have been visited.
func (n *node) block() (root string, continues, blocked bool) {
	for _, need := range n.needs {
		o := &need.outcome
		if o.serves() {
			if need.spec.Gates && len(o.findings()) > 0 {
				return need.ID, false, true
			}
			continue
		}
		root, continues := o.blockedBy, o.continues
		if root == "" {
			root, continues = need.ID, need.ContinueOnFailure || o.status == prov.Skipped
		}
		if continues && n.optionalFor(need) {
			continue
		}
		return root, continues, true
	}
	return "", false, false
}
