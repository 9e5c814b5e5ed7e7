package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"anvil/pipeline/stage"
)

func limitation(code, origin string) stage.Limitation {
	l := stage.Limit(code)
	l.Origin = origin
	return l
}

func measurementText(t *testing.T, set stage.LimitationSet) []byte {
	t.Helper()
	text, err := stage.MarshalDocument(Measurement{
		Schema: MeasurementSchema,
		Phase:  Phase{Status: "completed", WallClockMS: 1000.5, StartedAt: "2026-11-30T09:00:00Z", FinishedAt: "2026-11-30T09:00:01.0005Z", StartedAtUnixNS: 1796029200000000000, FinishedAtUnixNS: 1796029201000500000},
		Tool:   map[string]any{}, Client: MeasurementClient{Verdict: "ok"}, Cache: CacheFacts{State: "unknown", Reset: "off"}, Sequence: "cold",
		Accounting: Accounting{Planned: 3, Outcomes: map[Outcome]int{OutcomeOK: 2, OutcomeCut: 1}},
	}, set)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestMeasurementRules(t *testing.T) {
	set := stage.NewLimitationSet(limitation("engine.simulated", "m"), limitation("stamps.user-space", "m"))
	good := string(measurementText(t, set))
	if r := CheckReader("m", strings.NewReader(good), Options{}); r.Status != StatusOK || *r.Kind != MeasurementSchema {
		t.Errorf("%s, want ok", describe(r))
	}
	for name, c := range map[string]struct{ from, to, pointer, rule string }{
		"outcomes do not add up": {`"planned": 3`, `"planned": 4`, "/accounting/planned", "accounting.sum"},
		"outcomes that wrap":     {`"cut": 1`, `"cut": 9223372036854775807, "empty": 9223372036854775807, "malformed": 1`, "/accounting/planned", "accounting.sum"},
		"unknown outcome":        {`"cut": 1`, `"cut": 1, "fine": 0`, "/accounting/outcomes/fine", "schema.violation"},
		"wrong verdict":          {`"verdict": "ok"`, `"verdict": "fine"`, "/client/verdict", "schema.violation"},
		"no limitations":         {`"limitations": [`, `"no-limitations": [`, "", "schema.violation"},
		"not sorted":             {`"code": "engine.simulated"`, `"code": "z.z"`, "/limitations", "limitations.order"},
	} {
		mutant := strings.Replace(good, c.from, c.to, 1)
		if mutant == good {
			t.Fatalf("%s: %q is not in %s", name, c.from, good)
		}
		r := CheckReader(name, strings.NewReader(mutant), Options{})
		repeatsWhatIsStored(t, []byte(mutant), r)
		if !hasProblem(r, c.pointer, c.rule) {
			t.Errorf("%s: want %s at %q, got %s", name, c.rule, c.pointer, describe(r))
		}
	}
}

func TestLimitationSetsAreChecked(t *testing.T) {
	set := stage.NewLimitationSet(limitation("engine.simulated", "m"), limitation("stamps.user-space", "m"))
	canonical, _ := set.Canonical()
	r := CheckReader("set", bytes.NewReader(canonical), Options{})
	if r.Status != StatusOK || len(r.Notes) > 0 || r.Kind == nil || *r.Kind != "anvil.limitations/v1" {
		t.Errorf("a canonical set: %s", describe(r))
	}
	indented, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if r := CheckReader("set", bytes.NewReader(indented), Options{}); !r.OK || !hasNote(r, "limitations.not-canonical") {
		t.Errorf("an indented set: %s", describe(r))
	}
	set[0], set[1] = set[1], set[0]
	swapped, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	if r := CheckReader("set", bytes.NewReader(swapped), Options{}); !hasProblem(r, "", "limitations.order") {
		t.Errorf("a set out of order: %s", describe(r))
	}
}

func TestGradesRules(t *testing.T) {
	zero := strings.Repeat("0", 64)
	header := fmt.Sprintf(`{"schema":"anvil.grades/v1","graders":[],"spec_sha256":"%s","dataset_sha256":"%s","attempts_sha256":"%s","reducer":"none","k":null}`, zero, zero, zero)
	row := func(i int, verdict string) string {
		return fmt.Sprintf(`{"index":%d,"item":"a","outcome":"ok","verdict":"%s","score":null,"extracted":null,"span":null,"reason":"r","votes":[],"graders":[],"tags":[]}`, i, verdict)
	}
	footer := `{"footer":true,"lines":2,"complete":true,"counts":{"pass":1,"fail":1,"unscorable":0,"grader_error":0},"reduced":null}`
	lines := []string{header, row(0, "pass"), row(1, "fail"), footer}
	if r := CheckReader("g", strings.NewReader(strings.Join(lines, "\n")+"\n"), Options{}); !r.OK || *r.Kind != GradesSchema {
		t.Errorf("%s, want ok", describe(r))
	}
	for name, c := range map[string]struct {
		lines         []string
		pointer, rule string
	}{
		"counts":    {[]string{header, row(0, "pass"), row(1, "pass"), footer}, "/line/4/counts/pass", "grades.counts"},
		"order":     {[]string{header, row(1, "pass"), row(0, "fail"), footer}, "/line/3/index", "grades.order"},
		"lost":      {[]string{header, row(0, "pass"), footer}, "/line/3/lines", "lines.count"},
		"no footer": {[]string{header, row(0, "pass")}, "", "lines.incomplete"},
	} {
		r := CheckReader(name, strings.NewReader(strings.Join(c.lines, "\n")+"\n"), Options{})
		repeatsWhatItsLinesStore(t, strings.Join(c.lines, "\n")+"\n", r)
		if !hasProblem(r, c.pointer, c.rule) {
			t.Errorf("%s: want %s at %q, got %s", name, c.rule, c.pointer, describe(r))
		}
	}
}
