package pipeline

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"anvil/pipeline/prov"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAPlainRunExecutesEveryStageAndProves(t *testing.T) {
	l := newLab(t)
	r := l.run(l.plan("scout look", "measure look scout", "grade make measure", "sum sum grade measure", "prove prove sum"), Options{})
	wantStates(t, r, "scout=ok/executed measure=ok/executed grade=ok/executed sum=ok/executed prove=ok/executed")
	if r.Status != prov.OK || r.Exit != 0 {
		t.Errorf("run is %s, exit %d", r.Status, r.Exit)
	}
	for _, name := range []string{"run.json", "statement.json", "plan.yaml", "plan.resolved.json", "journal.jsonl",
		"stages/grade/1/claim.json", "stages/grade/1/result.json", "stages/grade/1/statement.json", "stages/grade/1/log", "artifacts/grade/made.json"} {
		if _, err := os.Stat(filepath.Join(r.Dir, name)); err != nil {
			t.Errorf("%v", err)
		}
	}
	l.verify(r)
}
