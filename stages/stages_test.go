package stages

import (
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/schemas"
)

// Every kind of the table keeps what the executor and the plan rely on.
func TestEveryKindConforms(t *testing.T) {
	for name, k := range All() {
		t.Run(name, func(t *testing.T) {
			spec := k.Spec()
			if spec.Name != name || strings.ToLower(name) != name {
				t.Errorf("name %q", spec.Name)
			}
			if spec.Contract < 1 {
				t.Errorf("contract %d, want at least 1", spec.Contract)
			}
			if spec.Class != stage.Pure && spec.Class != stage.Observational {
				t.Errorf("class %q", spec.Class)
			}
			if spec.Exclusive && spec.Class != stage.Observational {
				t.Error("a pure kind needs no host of its own")
			}
			if want := schemas.ID("anvil." + name + "-config/v1"); spec.Config != want {
				t.Errorf("configuration schema %q, want %q", spec.Config, want)
			}
			if _, err := schemas.Compile(spec.Config); err != nil {
				t.Error(err)
			}
			ports(t, spec)
		})
	}
}

// later are the schemas of kinds that are not built yet: an optional port may
// wait for one.
var later = map[schemas.ID]bool{"anvil.calibration/v1": true}

func ports(t *testing.T, spec stage.Spec) {
	t.Helper()
	if len(spec.Out) == 0 && spec.Outputs == nil {
		t.Error("publishes nothing")
	}
	seen := map[string]bool{}
	for _, p := range append(append([]stage.Port{}, spec.In...), spec.Out...) {
		if p.Name == "" || p.Schema == "" {
			if spec.Outputs == nil {
				t.Errorf("port %+v lacks its name or schema", p)
			}
			continue
		}
		if seen[p.Name] {
			t.Errorf("two ports are named %q", p.Name)
		}
		seen[p.Name] = true
		_, err := schemas.Compile(p.Schema)
		if waits := later[p.Schema] && p.Optional; waits != (err != nil) {
			t.Errorf("port %s: schema %s: %v, waits for a later kind: %v", p.Name, p.Schema, err, waits)
		}
	}
}
