package derive_test

import (
	"bytes"
	"slices"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/internal/weights"
	"anvil/stages/record"
)

// A document of a schema without rules of its own is read as strictly as
// artifact check reads it.
func TestDocumentsOfTheClosureAreReadStrictly(t *testing.T) {
	file := weights.File{Path: "x.gguf", Size: 1, SHA256: digest.FromBytes([]byte("x"))}
	sum := weights.Manifest{Schema: weights.ManifestSchema, Files: []weights.File{file}}.Digest()
	for name, c := range map[string]struct{ from, to, rule string }{
		"unchanged":                  {`"bytes": 1`, `"bytes": 1`, ""},
		"a key twice":                {`"bytes": 1`, `"bytes": 2, "bytes": 1`, "json.duplicate-key"},
		"more than a double holds":   {`"bytes": 1`, `"bytes": 1, "more": 1e400`, "json.number-range"},
		"more than a fraction holds": {`"bytes": 1`, `"bytes": 1, "more": 1e2000000`, "json.number-range"},
		"another schema's word":      {`"bytes": 1`, `"bytes": "1"`, "schema.violation"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			rows, _ := goldenRows()
			attempts := l.attempts("measure", header(len(rows)), rows, userStamps)
			whole := l.document("weights", "weights.json", "anvil.weights-verification/v1", map[string]any{
				"schema": "anvil.weights-verification/v1", "ok": true, "manifest_sha256": sum, "reference": nil, "repo": nil, "revision": nil, "bytes": 1,
				"replicas": []any{map[string]any{
					"name": "local", "root": "x", "manifest_sha256": sum, "files": []any{weights.Checked{File: file, OK: true}}, "missing": []any{}, "unexpected": []any{}, "ignored": []any{}, "incomplete": []any{},
				}},
			})
			src := bytes.Replace(l.objects[whole.SHA256], []byte(c.from), []byte(c.to), 1)
			weights := l.artifact("weights", "weights.json", whole.Schema, src, whole.LimitationSet())
			// Summarize has its own reader; the document is put into its closure.
			p, _ := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {attempts}})
			rec := p.artifacts["record.json"]
			made := l.made[rec.SHA256]
			made.Inputs["weights"] = []stage.Artifact{weights}
			var rules []string
			for _, problem := range validateWith(t, rec, l.closure(rec)).Problems {
				if problem.Artifact == "weights/weights.json" && problem.Level == record.LevelConsistent {
					rules = append(rules, problem.Rule)
				}
			}
			if c.rule == "" && len(rules) > 0 || c.rule != "" && !slices.Contains(rules, c.rule) {
				t.Errorf("rules %v, want %q", rules, c.rule)
			}
		})
	}
}
