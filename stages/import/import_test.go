package imports

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/internal/kindtest"
)

// bench lays files into the plan's folder and binds the imported one.
func bench(t *testing.T, with map[string]any, files map[string]string) *kindtest.Bench {
	t.Helper()
	b := kindtest.New(t, Kind, nil, with)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(b.Env.PlanDir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := with["file"].(string)
	b.Files["/file"] = kindtest.Artifact("anvil.file/v1", file, []byte(files[file]))
	if beside, ok := files[file+".limitations.json"]; ok {
		b.Files["/limitations"] = kindtest.Artifact("anvil.file/v1", file+".limitations.json", []byte(beside))
	}
	return b
}

const oneLimitation = `[{"code": "client.lag", "severity": "caveat", "origin": "measure", "applies_to": ["*"], "text": "late"}]`

const someDocument = `{"schema": "anvil.weights-verification/v1", "ok": true, "limitations": ` + oneLimitation + `}`

func TestTheFileIsPublishedByteForByte(t *testing.T) {
	with := map[string]any{"file": "weights.json", "schema": "anvil.weights-verification/v1"}
	b := bench(t, with, map[string]string{"weights.json": someDocument})
	p, err := b.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got := string(p.Streams["weights.json"]); got != someDocument {
		t.Errorf("published %q", got)
	}
	if p.Limits["import.unverified"] == "" {
		t.Errorf("limitations %v lack import.unverified", p.Limits)
	}
	if len(p.Carried) != 1 || p.Carried[0].Code != "client.lag" || p.Carried[0].Origin != "measure" {
		t.Errorf("carried %v, want the document's own limitation with its origin", p.Carried)
	}
}

func TestAPinnedDigestIsHeld(t *testing.T) {
	files := map[string]string{"weights.json": someDocument}
	with := map[string]any{"file": "weights.json", "schema": "anvil.weights-verification/v1", "sha256": digest.FromBytes([]byte(someDocument)).String()}
	p, err := bench(t, with, files).Run(context.Background())
	if err != nil || len(p.Limits) != 0 {
		t.Errorf("the pinned file: %v, limitations %v", err, p.Limits)
	}
	with["sha256"] = digest.FromBytes(nil).String()
	if _, err := bench(t, with, files).Run(context.Background()); err == nil || !strings.Contains(err.Error(), "pins") {
		t.Errorf("another file: %v, want an error that names both digests", err)
	}
}

func TestASetBesideTheFileIsCarried(t *testing.T) {
	with := map[string]any{"file": "rows.jsonl", "schema": "anvil.grades/v1"}
	b := bench(t, with, map[string]string{"rows.jsonl": `{"schema": "anvil.grades/v1"}` + "\n", "rows.jsonl.limitations.json": oneLimitation})
	config, problems := b.Resolve()
	if len(problems) != 0 {
		t.Fatal(problems)
	}
	var c struct {
		Limitations string `json:"limitations"`
	}
	if err := json.Unmarshal(config, &c); err != nil || c.Limitations != "rows.jsonl.limitations.json" {
		t.Errorf("resolved %+v, %v", c, err)
	}
	p, err := b.Run(context.Background())
	if err != nil || len(p.Carried) != 1 {
		t.Errorf("carried %v, %v", p.Carried, err)
	}
}

// What a record of another producer says of itself is no less a limitation for
// being a plain text.
func TestWhatAForeignRecordStatesIsCarried(t *testing.T) {
	for name, want := range map[string]struct {
		count int
		first string
	}{
		"serving-cell-record.json":         {14, "Prompt-only development workloads; these do not exercise native agent loops or establish held-out quality."},
		"derived-capacity-summary-v1.json": {1, "scout"},
		"live-http-run.json":               {1, "TTFT"},
		"benchmark-v1.json":                {0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seed, err := os.ReadFile("../../testdata/seeds/" + name)
			if err != nil {
				t.Fatal(err)
			}
			b := bench(t, map[string]any{"file": name}, map[string]string{name: string(seed)})
			if _, problems := b.Resolve(); len(problems) != 0 {
				t.Fatal(problems)
			}
			p, err := b.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, l := range p.Raised {
				if l.Code == "import.stated" {
					texts = append(texts, l.Text)
				}
			}
			if len(texts) != want.count || want.count > 0 && !strings.Contains(texts[0], want.first) {
				t.Errorf("carried %q, want %d", texts, want.count)
			}
		})
	}
}

func TestASetBesideAForeignRecordIsNotRepeated(t *testing.T) {
	const live = `{"schema": "anvil.live-http-run/v1", "limits": "late"}`
	with := map[string]any{"file": "run.json", "schema": "anvil.live-http-run/v1"}
	p, err := bench(t, with, map[string]string{"run.json": live, "run.json.limitations.json": oneLimitation}).Run(t.Context())
	if err != nil || len(p.Carried) != 1 || p.Limits["import.stated"] != "" {
		t.Errorf("carried %v, raised %v, %v", p.Carried, p.Limits, err)
	}
}

func TestASchemaThatTheContentContradictsIsAProblem(t *testing.T) {
	seed, err := os.ReadFile("../../testdata/seeds/benchmark-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{"serving-cell-v1", "foo/v1"} {
		b := bench(t, map[string]any{"file": "old.json", "schema": schema}, map[string]string{"old.json": string(seed)})
		if _, problems := b.Resolve(); len(problems) != 1 || problems[0].Pointer != "/schema" || !strings.Contains(problems[0].Message, "anvil-serving.benchmark/v1") {
			t.Errorf("%s: problems %+v", schema, problems)
		}
	}
}

// What is published under a schema that anvil has is relied on as such; under
// one that nobody here knows, anything may be.
func TestAClaimIsHeldAgainstTheContent(t *testing.T) {
	const row = `{"id": "a", "prompt": "p", "expected": "x"}` + "\n"
	for name, tt := range map[string]struct{ schema, content, message string }{
		"half a line":             {"anvil.attempts/v1", `{"a":`, "the file is no anvil.attempts/v1: "},
		"nothing":                 {"anvil.record/v1", "", "the file is no anvil.record/v1: "},
		"no JSON":                 {"anvil.measurement/v1", "hello", "the file is no anvil.measurement/v1: "},
		"no row":                  {"anvil.grades/v1", `{"index": 0}`, "the file is no anvil.grades/v1: "},
		"a record of others":      {"serving-cell-v1", `{"nothing": "known"}`, "the file is no serving-cell-v1: "},
		"a document without one":  {"anvil.scout/v1", `{"ok": true}`, "the file is no anvil.scout/v1: "},
		"limitations of nothing":  {"anvil.limitations/v1", `[{"code": 1}]`, "the file is no anvil.limitations/v1: /0"},
		"limitations":             {"anvil.limitations/v1", oneLimitation, ""},
		"limitations, many lines": {"anvil.limitations/v1", "[\n]\n", ""},
		"rows of a dataset":       {"anvil.dataset/v1", row + row, ""},
		"no rows of a dataset":    {"anvil.dataset/v1", `{"text": "a"}`, "the file is no anvil.dataset/v1: "},
		"a schema nobody knows":   {"foo/v1", `{"a":`, ""},
		"one of a later version":  {"anvil.replies/v1", `{"schema": "anvil.replies/v1"}`, ""},
	} {
		_, problems := bench(t, map[string]any{"file": "old.json", "schema": tt.schema}, map[string]string{"old.json": tt.content}).Resolve()
		switch {
		case tt.message == "" && len(problems) > 0:
			t.Errorf("%s: %+v", name, problems)
		case tt.message != "" && (len(problems) != 1 || problems[0].Pointer != "/schema" || !strings.HasPrefix(problems[0].Message, tt.message) || problems[0].Hint == ""):
			t.Errorf("%s: %+v, want one at /schema with %q", name, problems, tt.message)
		}
	}
}

func TestABrokenSetIsAnErrorAndNotDropped(t *testing.T) {
	for name, set := range map[string]string{"not JSON": "[", "no set": `["late"]`, "an unknown member": `[{"code": "a.b", "sev": "note"}]`} {
		with := map[string]any{"file": "rows.jsonl", "schema": "anvil.grades/v1"}
		b := bench(t, with, map[string]string{"rows.jsonl": `{"schema": "anvil.grades/v1"}` + "\n", "rows.jsonl.limitations.json": set})
		if _, err := b.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "rows.jsonl.limitations.json") {
			t.Errorf("%s: %v, want an error that names the set", name, err)
		}
	}
}

func TestResolveNamesOutputAndSchema(t *testing.T) {
	seed, err := os.ReadFile("../../testdata/seeds/benchmark-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	b := bench(t, map[string]any{"file": "old.json"}, map[string]string{"old.json": string(seed)})
	config, problems := b.Resolve()
	if len(problems) != 0 {
		t.Fatal(problems)
	}
	var with map[string]any
	if err := json.Unmarshal(config, &with); err != nil {
		t.Fatal(err)
	}
	out := Kind.Spec().Outputs(with)
	if len(out) != 1 || out[0] != (stage.Port{Name: "old.json", Schema: "anvil-serving.benchmark/v1"}) {
		t.Errorf("outputs %+v", out)
	}
}

func TestResolveRefuses(t *testing.T) {
	for name, file := range map[string]string{"an unsafe name": "-rm.json", "a name with a space": "a b.json", "unknown content": "x.json"} {
		b := bench(t, map[string]any{"file": file}, map[string]string{file: `{"nothing": "known"}`})
		if _, problems := b.Resolve(); len(problems) == 0 || problems[0].Pointer != "/file" {
			t.Errorf("%s: problems %+v, want one at /file", name, problems)
		}
	}
}
