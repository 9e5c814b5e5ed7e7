package pipeline

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// A stage that was stopped hashes its files again like any other: what it had
// until then would name a content that it may not stand on.
func TestAFileThatChangesUnderAStageThatIsStoppedFailsTheAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		end       error
		interrupt bool
		says      string
	}{
		"timeout, and it ended all the same": {nil, false, "timeout"},
		"timeout, and it drained":            {stage.ErrAborted, false, "not kept"},
		"interrupt, and it ended":            {nil, true, "interrupted"},
		"interrupt, and it drained":          {stage.ErrAborted, true, "not kept"},
		"timeout, and it failed":             {errBroken, false, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			interrupt := make(chan struct{})
			l.do["measure"] = func(_ context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
				if c.interrupt {
					close(interrupt)
				}
				<-env.Stop
				if err := os.WriteFile(filepath.Join(l.dir, "d.txt"), []byte("two!"), 0o666); err != nil {
					return err
				}
				if err := out.JSON("seen.json", map[string]any{"requests": 3}); err != nil {
					return err
				}
				return c.end
			}
			p := l.plan("measure look", "grade make measure").file("measure", "d.txt", "one")
			if !c.interrupt {
				p.stage("measure").Timeout = time.Millisecond
			}
			r := l.run(p, Options{Interrupt: interrupt})
			s := r.stage("measure")
			if s.Status != prov.Failed || s.Error == nil || s.Error.Code != CodeChanged || len(s.Outputs) > 0 {
				t.Fatalf("%s, %+v with outputs %v, want input_changed and none", s.Status, s.Error, s.Outputs)
			}
			if !strings.Contains(s.Error.Message, "d.txt") || !strings.Contains(s.Error.Message, c.says) {
				t.Errorf("the error is %q", s.Error.Message)
			}
			l.verify(r)
		})
	}
}

// A phase that came to its end has sent its requests: they are not sent again
// because a file was edited meanwhile.
func TestAnObservationUnderWhichAFileChangedIsNotRetried(t *testing.T) {
	l := newLab(t)
	change := func(name string) func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error {
		return func(_ context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
			if l.count(env.Stage) == 1 {
				if err := os.WriteFile(filepath.Join(l.dir, name), []byte("two!"), 0o666); err != nil {
					return err
				}
			}
			return out.JSON(map[string]string{"measure": "seen.json", "grade": "made.json"}[env.Stage], map[string]any{})
		}
	}
	l.do["measure"], l.do["grade"] = change("d.txt"), change("e.txt")
	p := l.plan("measure look", "grade make").file("measure", "d.txt", "one").file("grade", "e.txt", "one")
	p.stage("measure").Retries, p.stage("grade").Retries = 1, 1
	r := l.run(p, Options{})
	wantStates(t, r, "measure=failed/executed grade=ok/executed")
	if n := l.count("measure"); n != 1 {
		t.Errorf("the phase ran %d times", n)
	}
}
