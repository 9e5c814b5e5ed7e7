package grade

import (
	"encoding/json"
	"io"
	"io/fs"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/schemas"
)

// resolved fills a configuration as a plan is read, and resolves it below a
// measure stage with the given workload.
func resolved(t *testing.T, with, workload string) *stage.Resolution {
	t.Helper()
	r := &stage.Resolution{With: object(t, with), ID: "grade"}
	if err := schemas.Fill("anvil.grade-config/v1", r.With); err != nil {
		t.Fatal(err)
	}
	if workload != "" {
		r.Upstream = []stage.Peer{{ID: "measure", Of: "measure", Kind: "measure", With: map[string]any{"workload": object(t, workload)}}}
	}
	resolve(r)
	return r
}

func object(t *testing.T, src string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(src))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

const sent = `{"source": "dataset", "file": "sent.jsonl", "format": "anvil", "epochs": 1}`

func TestDatasetComesFromTheMeasurement(t *testing.T) {
	r := resolved(t, `{"graders": [{"id": "a", "type": "equals"}]}`, sent)
	if len(r.Problems()) > 0 || r.With["dataset"] != "sent.jsonl" || r.With["reducer"] != "none" {
		t.Errorf("dataset %v, reducer %v, problems %v", r.With["dataset"], r.With["reducer"], r.Problems())
	}
	r = resolved(t, `{"dataset": "own.jsonl", "graders": [{"id": "a", "type": "equals"}]}`, sent)
	if r.With["dataset"] != "own.jsonl" {
		t.Errorf("dataset %v, want the one that the plan names", r.With["dataset"])
	}
}

func TestAResolvedConfigurationMakesAStage(t *testing.T) {
	r := resolved(t, `{"graders": [{"id": "a", "type": "evidence_fields"}, {"id": "b", "type": "all", "of": [{"id": "c", "type": "regex", "pattern": "x"}]}]}`, sent)
	raw, err := json.Marshal(r.With)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Kind.New(raw); err != nil {
		t.Error(err)
	}
}

func TestProblems(t *testing.T) {
	for name, tt := range map[string]struct{ with, workload, pointer, message string }{
		"no measure":      {`{"graders": [{"id": "a", "type": "equals"}]}`, "", "/dataset", "no measure stage"},
		"synthetic":       {`{"graders": [{"id": "a", "type": "equals"}]}`, `{"source": "synthetic"}`, "/dataset", "nothing to grade by"},
		"foreign format":  {`{"graders": [{"id": "a", "type": "equals"}]}`, `{"source": "dataset", "file": "x", "format": "sharegpt", "epochs": 1}`, "/dataset", "sharegpt"},
		"items repeat":    {`{"graders": [{"id": "a", "type": "equals"}]}`, `{"source": "dataset", "file": "x", "format": "anvil", "epochs": 2}`, "/reducer", "is required"},
		"k is missing":    {`{"reducer": "pass_at_k", "graders": [{"id": "a", "type": "equals"}]}`, sent, "/k", "is required"},
		"k alone":         {`{"k": 2, "graders": [{"id": "a", "type": "equals"}]}`, sent, "/k", "belongs to"},
		"k of one epoch":  {`{"reducer": "pass_at_k", "k": 2, "graders": [{"id": "a", "type": "equals"}]}`, sent, "/k", "the measure stage makes 1"},
		"k above epochs":  {`{"reducer": "pass_at_k", "k": 3, "graders": [{"id": "a", "type": "equals"}]}`, `{"source": "dataset", "file": "x", "format": "anvil", "epochs": 2}`, "/k", "pass@3"},
		"k of synthetic":  {`{"reducer": "pass_at_k", "k": 2, "dataset": "d", "graders": [{"id": "a", "type": "equals"}]}`, `{"source": "synthetic"}`, "/k", "pass@2"},
		"k without use":   {`{"reducer": "mean", "k": 2, "graders": [{"id": "a", "type": "equals"}]}`, sent, "/k", "belongs to"},
		"two of an id":    {`{"graders": [{"id": "a", "type": "equals"}, {"id": "a", "type": "equals"}]}`, sent, "/graders/1/id", "second grader"},
		"bad pattern":     {`{"graders": [{"id": "a", "type": "regex", "pattern": "("}]}`, sent, "/graders/0/pattern", "missing closing"},
		"bad extraction":  {`{"graders": [{"id": "a", "type": "equals", "extract": {"regex": "x", "group": 2}}]}`, sent, "/graders/0/extract/group", "no group 2"},
		"group alone":     {`{"graders": [{"id": "a", "type": "equals", "extract": {"group": 1}}]}`, sent, "/graders/0/extract/group", "none is set"},
		"bad extract":     {`{"graders": [{"id": "a", "type": "equals", "extract": {"regex": "("}}]}`, sent, "/graders/0/extract/regex", "missing closing"},
		"no pointer":      {`{"graders": [{"id": "a", "type": "equals", "extract": {"json_pointer": "a"}}]}`, sent, "/graders/0/extract/json_pointer", "no JSON pointer"},
		"extract of both": {`{"graders": [{"id": "a", "type": "equals", "extract": {"regex": "x", "json_pointer": "/a"}}]}`, sent, "/graders/0/extract/json_pointer", "exclude each other"},
		"extract nothing": {`{"graders": [{"id": "a", "type": "equals", "extract": {}}]}`, sent, "/graders/0/extract", "does not say"},
		"within, extract": {`{"graders": [{"id": "a", "type": "any", "of": [{"id": "b", "type": "equals", "extract": {"regex": "["}}]}]}`, sent, "/graders/0/of/0/extract/regex", "missing closing"},
		"value, default":  {`{"graders": [{"id": "a", "type": "number", "value": 1, "from": "/expected"}]}`, sent, "/graders/0/from", "exclude each other"},
		"words twice":     {`{"graders": [{"id": "a", "type": "words", "requested": 3, "from": "/x"}]}`, sent, "/graders/0/from", "`requested` and `from`"},
		"tool twice":      {`{"graders": [{"id": "a", "type": "any", "of": [{"id": "b", "type": "tool_call", "name": "f", "from": "/x"}]}]}`, sent, "/graders/0/of/0/from", "`name` and `from`"},
		"judge of later":  {`{"graders": [{"id": "a", "type": "judge", "endpoint": "t", "prompt": "p.txt", "votes": 3}]}`, sent, "/graders/0/type", "later version"},
		"neither":         {`{"graders": [{"id": "a", "type": "contains"}]}`, sent, "/graders/0/any", "required"},
		"value and from":  {`{"graders": [{"id": "a", "type": "equals", "value": 1, "from": "/x"}]}`, sent, "/graders/0/from", "exclude each other"},
		"within of":       {`{"graders": [{"id": "a", "type": "any", "of": [{"id": "b", "type": "length"}]}]}`, sent, "/graders/0/of/0/min", "required"},
		"unknown metric":  {`{"graders": [{"id": "a", "type": "latency", "metric": "ttft", "at_most": 1}]}`, sent, "/graders/0/metric", "no figure"},
		"unknown type":    {`{"graders": [{"id": "a", "type": "equal"}]}`, sent, "/graders/0/type", "unknown type"},
		"a type of later": {`{"graders": [{"id": "a", "type": "exec"}]}`, sent, "/graders/0/type", "later version"},
	} {
		r := resolved(t, tt.with, tt.workload)
		if len(r.Problems()) != 1 || r.Problems()[0].Pointer != tt.pointer || !strings.Contains(r.Problems()[0].Message, tt.message) {
			t.Errorf("%s: %+v, want one at %s with %q", name, r.Problems(), tt.pointer, tt.message)
		}
	}
}

// What a plan does not say of where a grader looks is /expected, unless it says
// instead what is expected.
func TestFromIsSettledWithThePlan(t *testing.T) {
	for with, want := range map[string]any{
		`"type": "equals"`: "/expected", `"type": "starts_with"`: "/expected", `"type": "choice"`: "/expected", `"type": "number"`: "/expected",
		`"type": "words"`: "/expected", `"type": "tool_call"`: "/expected", `"type": "evidence_fields"`: "/expected/fields",
		`"type": "equals", "value": null, "from": null`: "/expected", `"type": "equals", "from": "/expected/0"`: "/expected/0",
		`"type": "equals", "value": "x"`: nil, `"type": "words", "requested": 0`: nil, `"type": "tool_call", "name": "f", "from": null`: nil,
	} {
		r := resolved(t, `{"graders": [{"id": "o", "type": "all", "of": [{"id": "a", `+with+`}]}]}`, sent)
		of := r.With["graders"].([]any)[0].(map[string]any)["of"].([]any)
		if got := of[0].(map[string]any)["from"]; got != want || len(r.Problems()) > 0 {
			t.Errorf("%s: from %v, want %v; problems %+v", with, got, want, r.Problems())
		}
	}
}

// A plan may name the graders of a later version: it is told so and nothing
// else, whatever their keys are.
func TestGradersOfLaterFitTheSchema(t *testing.T) {
	with := object(t, `{"graders": [{"id": "a", "type": "exec", "argv": ["sh"], "timeout": "10s", "memory": "512MiB"},
		{"id": "b", "type": "judge", "endpoint": "t", "prompt": "p.txt", "votes": 3, "pass_at": 0.5}]}`)
	if err := schemas.Fill("anvil.grade-config/v1", with); err != nil {
		t.Fatal(err)
	}
	if faults, err := schemas.Faults("anvil.grade-config/v1", with); err != nil || len(faults) > 0 {
		t.Errorf("%v, %v", faults, err)
	}
}

func TestHintNamesWhatWasMeant(t *testing.T) {
	r := resolved(t, `{"graders": [{"id": "a", "type": "evidence_field"}]}`, sent)
	if len(r.Problems()) != 1 || !strings.Contains(r.Problems()[0].Hint, `"evidence_fields"`) {
		t.Errorf("%+v", r.Problems())
	}
}

// A value that no answer can be equal to fails every answer, after all of them
// were paid for.
func TestAValueThatCannotBeMeantIsAProblem(t *testing.T) {
	for with, message := range map[string]string{
		`{"id": "a", "type": "number", "value": "many"}`:               `"many" is no number`,
		`{"id": "a", "type": "number", "value": [1, "two"]}`:           `"two" is no number`,
		`{"id": "a", "type": "number", "value": []}`:                   "empty",
		`{"id": "a", "type": "choice", "value": "E"}`:                  `"E" is none of the letters ABCD`,
		`{"id": "a", "type": "choice", "value": ["A", "blue"]}`:        `"blue" is none of the letters ABCD`,
		`{"id": "a", "type": "choice", "letters": "AB", "value": "C"}`: "AB",
		`{"id": "a", "type": "equals", "value": {"x": 1}}`:             "no text, number or boolean",
		`{"id": "a", "type": "starts_with", "value": [["x"]]}`:         "no text, number or boolean",
	} {
		r := resolved(t, `{"graders": [`+with+`]}`, sent)
		if len(r.Problems()) != 1 || r.Problems()[0].Pointer != "/graders/0/value" || !strings.Contains(r.Problems()[0].Message, message) {
			t.Errorf("%s: %+v, want one at its value with %q", with, r.Problems(), message)
		}
	}
	for _, with := range []string{
		`{"id": "a", "type": "number", "value": [1, "2,000", -3.5]}`, `{"id": "a", "type": "choice", "value": ["a", "B"]}`, `{"id": "a", "type": "equals", "value": [true, 1]}`,
	} {
		if r := resolved(t, `{"graders": [`+with+`]}`, sent); len(r.Problems()) > 0 {
			t.Errorf("%s: %+v", with, r.Problems())
		}
	}
}

// Below an import nobody knows whether items repeat; what is known stays known.
func TestReducerIsNamedWhereThePlanTells(t *testing.T) {
	const graders = `"dataset": "d.jsonl", "graders": [{"id": "a", "type": "equals"}]`
	imported := stage.Peer{ID: "old", Of: "old", Kind: "import", Direct: true, With: map[string]any{}}
	measured := stage.Peer{ID: "m", Of: "m", Kind: "measure", Direct: true, With: map[string]any{"workload": object(t, sent)}}
	for name, tt := range map[string]struct {
		with     string
		upstream []stage.Peer
		want     any
	}{
		"measured":         {`{` + graders + `}`, []stage.Peer{measured}, "none"},
		"imported":         {`{` + graders + `}`, []stage.Peer{imported}, nil},
		"both":             {`{` + graders + `}`, []stage.Peer{measured, imported}, nil},
		"imported, stated": {`{"reducer": "none", ` + graders + `}`, []stage.Peer{imported}, "none"},
		"imported, pass@9": {`{"reducer": "pass_at_k", "k": 9, ` + graders + `}`, []stage.Peer{imported}, "pass_at_k"},
	} {
		r := &stage.Resolution{With: object(t, tt.with), ID: "grade", Upstream: tt.upstream}
		if err := schemas.Fill("anvil.grade-config/v1", r.With); err != nil {
			t.Fatal(err)
		}
		resolve(r)
		if got := r.With["reducer"]; got != tt.want || len(r.Problems()) > 0 {
			t.Errorf("%s: reducer %v, want %v; problems %+v", name, got, tt.want, r.Problems())
		}
	}
}

// A key that means nothing to a grader is no key that it may have: the plan's
// author meant something by it.
func TestFieldAndExtractNeedAText(t *testing.T) {
	for _, kind := range []string{
		`"type": "latency", "metric": "e2e_ms", "at_most": 1`, `"type": "finish_reason", "in": ["stop"]`, `"type": "tool_call"`,
		`"type": "length", "max": 1, "unit": "tokens"`, `"type": "all", "of": [{"id": "b", "type": "equals"}]`,
		`"type": "any", "of": [{"id": "b", "type": "equals"}]`, `"type": "at_least", "n": 1, "of": [{"id": "b", "type": "equals"}]`,
	} {
		for key, member := range map[string]string{"field": `"field": "reasoning"`, "extract": `"extract": {"last_line": true}`} {
			for at, with := range map[string]string{
				"/graders/0/":      `{"id": "a", ` + kind + `, ` + member + `}`,
				"/graders/0/of/0/": `{"id": "o", "type": "any", "of": [{"id": "a", ` + kind + `, ` + member + `}]}`,
			} {
				r := resolved(t, `{"graders": [`+with+`]}`, sent)
				if len(r.Problems()) != 1 || r.Problems()[0].Pointer != at+key || !strings.Contains(r.Problems()[0].Message, "means nothing here") {
					t.Errorf("%s: %+v, want one at %s", with, r.Problems(), at+key)
				}
			}
		}
	}
	both := `{"id": "o", "type": "all", "field": "reasoning", "of": [{"id": "a", "type": "latency", "metric": "e2e_ms", "at_most": 1, "field": "reasoning"}]}`
	if r := resolved(t, `{"graders": [`+both+`]}`, sent); len(r.Problems()) != 2 {
		t.Errorf("%+v, want one of each grader", r.Problems())
	}
	for _, with := range []string{
		`{"id": "a", "type": "tool_call", "field": "tool_calls"}`, `{"id": "a", "type": "length", "max": 1, "field": "reasoning", "extract": {"last_line": true}}`,
		`{"id": "a", "type": "latency", "metric": "e2e_ms", "at_most": 1, "field": "content", "extract": null}`,
	} {
		if r := resolved(t, `{"graders": [`+with+`]}`, sent); len(r.Problems()) > 0 {
			t.Errorf("%s: %+v", with, r.Problems())
		}
	}
}

// A file that cannot be used showed when all was measured.
func TestGradersFilesAreReadWithThePlan(t *testing.T) {
	const schema, arguments = `{"id": "a", "type": "json", "schema": "f.json"}`, `{"id": "a", "type": "tool_call", "arguments": "f.json"}`
	for name, tt := range map[string]struct{ grader, file, pointer, message string }{
		"good schema":      {schema, `{"type": "object", "properties": {"a": {"pattern": "^x+$"}}}`, "", ""},
		"look-ahead":       {schema, `{"properties": {"a": {"pattern": "^(?=x)"}}}`, "/schema", "(?=x)"},
		"no schema":        {schema, `{"type": "thing"}`, "/schema", "value must be one of"},
		"reference out":    {schema, `{"$ref": "http://127.0.0.1/x.json"}`, "/schema", "stand alone"},
		"half a schema":    {schema, `{"type": `, "/schema", "no JSON"},
		"a key twice":      {schema, `{"required": ["a"], "required": []}`, "/schema", "duplicate key"},
		"good arguments":   {arguments, `{"city": "Rome"}` + "\n", "", ""},
		"no object":        {arguments, `["Rome"]`, "/arguments", "no JSON object"},
		"half of them":     {arguments, `{"city": `, "/arguments", "no JSON"},
		"arguments twice":  {arguments, `{"a": 1, "a": 2}`, "/arguments", "duplicate key"},
		"that is not here": {arguments, "", "", ""}, // the plan says so
	} {
		for at, with := range map[string]string{"/graders/0": tt.grader, "/graders/0/of/0": `{"id": "o", "type": "any", "of": [` + tt.grader + `]}`} {
			r := &stage.Resolution{With: object(t, `{"dataset": "d", "reducer": "none", "graders": [`+with+`]}`), ID: "grade"}
			if err := schemas.Fill("anvil.grade-config/v1", r.With); err != nil {
				t.Fatal(err)
			}
			r.Open = func(path string) (io.ReadCloser, error) {
				if path != "f.json" || tt.file == "" {
					return nil, fs.ErrNotExist
				}
				return io.NopCloser(strings.NewReader(tt.file)), nil
			}
			resolve(r)
			got := r.Problems()
			if tt.pointer == "" {
				if len(got) > 0 {
					t.Errorf("%s: %+v", name, got)
				}
				continue
			}
			if len(got) != 1 || got[0].Pointer != at+tt.pointer || !strings.Contains(got[0].Message, tt.message) || strings.Contains(got[0].Message, "\n") {
				t.Errorf("%s: %+v, want one at %s with %q", name, got, at+tt.pointer, tt.message)
			}
		}
	}
}
