package prov_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	provenancev1 "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intotov1 "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"anvil/pipeline/digest"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); -update writes it:\n%s", file, diff)
	}
}

// papers are the documents of one run, as they stand in its folder.
func papers(t *testing.T) map[string][]byte {
	t.Helper()
	run := build(t, demo()).open(t)
	out := map[string][]byte{}
	for _, name := range []string{
		prov.ManifestName, prov.StatementName, prov.JournalName,
		"stages/measure/1/result.json", "stages/measure/1/statement.json", "stages/summarize/1/statement.json",
	} {
		b, err := run.ReadFile(name)
		must(t, err)
		out[name] = b
	}
	return out
}

// attestation 403, scorecard 5225, temporal/cli 558: what a marshaller wrote was
// not the same twice. The golden bytes of both statements are compared, and the
// official bindings read them in the test below.
func TestPapersAreTheSameBytesEveryTime(t *testing.T) {
	first := papers(t)
	for name, b := range papers(t) {
		if !bytes.Equal(first[name], b) {
			t.Errorf("%s: a second run of the same writes other bytes", name)
		}
	}
	golden(t, "stage-statement.json", first["stages/summarize/1/statement.json"])
	golden(t, "run-statement.json", first[prov.StatementName])
	golden(t, "result.json", first["stages/measure/1/result.json"])
	golden(t, "run.json", first[prov.ManifestName])
	golden(t, "journal.jsonl", first[prov.JournalName])
}

func TestPapersFitTheirSchemas(t *testing.T) {
	p := papers(t)
	for name, id := range map[string]schemas.ID{
		prov.ManifestName:                   prov.ManifestSchema,
		prov.StatementName:                  prov.RunStatementSchema,
		"stages/measure/1/result.json":      prov.ResultSchema,
		"stages/measure/1/statement.json":   prov.StageStatementSchema,
		"stages/summarize/1/statement.json": prov.StageStatementSchema,
	} {
		fits(t, id, p[name])
	}
	for line := range bytes.Lines(p[prov.JournalName]) {
		fits(t, prov.JournalSchema, line)
	}
}

func fits(t *testing.T, id schemas.ID, b []byte) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var doc any
	must(t, dec.Decode(&doc))
	if err := schemas.Check(id, doc); err != nil {
		t.Errorf("%s: %v\n%s", id, err, b)
	}
}

// TestStatementsAreReadByTheOfficialBindings parses both with the in-toto and
// SLSA bindings, which refuse unknown fields, and lets these judge them.
func TestStatementsAreReadByTheOfficialBindings(t *testing.T) {
	p := papers(t)
	for _, name := range []string{prov.StatementName, "stages/measure/1/statement.json"} {
		t.Run(name, func(t *testing.T) {
			var ours prov.Statement
			must(t, json.Unmarshal(p[name], &ours))
			var s intotov1.Statement
			if err := protojson.Unmarshal(p[name], &s); err != nil {
				t.Fatalf("in-toto: %v", err)
			}
			if err := s.Validate(); err != nil {
				t.Errorf("in-toto: %v", err)
			}
			predicate, err := protojson.Marshal(s.GetPredicate())
			must(t, err)
			var slsa provenancev1.Provenance
			if err := protojson.Unmarshal(predicate, &slsa); err != nil {
				t.Fatalf("SLSA: %v", err)
			}
			if err := slsa.Validate(); err != nil {
				t.Errorf("SLSA: %v", err)
			}
			compareBindings(t, ours, &s, &slsa)
		})
	}
}

func compareBindings(t *testing.T, ours prov.Statement, s *intotov1.Statement, slsa *provenancev1.Provenance) {
	t.Helper()
	if len(ours.Subject) < 2 || len(s.GetSubject()) != len(ours.Subject) {
		t.Fatalf("got %d subjects, want %d", len(s.GetSubject()), len(ours.Subject))
	}
	for i, r := range s.GetSubject() {
		a := r.GetAnnotations().AsMap()
		if r.GetDigest()["sha256"] != ours.Subject[i].Digest["sha256"] || a["limitations"] != ours.Subject[i].Annotations["limitations"] || a["size"] == nil || a["schema"] == "" {
			t.Errorf("subject %d: got %v, want %v", i, r, ours.Subject[i])
		}
	}
	def, want := slsa.GetBuildDefinition(), ours.Predicate.BuildDefinition
	if def.GetBuildType() != want.BuildType || len(def.GetResolvedDependencies()) != len(want.ResolvedDependencies) || len(want.ResolvedDependencies) == 0 {
		t.Errorf("got build definition %v, want %+v", def, want)
	}
	meta := slsa.GetRunDetails().GetMetadata()
	if !meta.GetStartedOn().AsTime().Equal(ours.Predicate.RunDetails.Metadata.StartedOn.Time) || meta.GetInvocationId() != ours.Predicate.RunDetails.Metadata.InvocationID {
		t.Errorf("got metadata %v, want %+v", meta, ours.Predicate.RunDetails.Metadata)
	}
	if b := slsa.GetRunDetails().GetBuilder(); b.GetId() != "urn:anvil:builder:local" || b.GetVersion()["anvil"] != tool.Version {
		t.Errorf("got builder %v", b)
	}
}

func TestRunStatementNamesEveryArtifactWithItsSetInTheRun(t *testing.T) {
	b := build(t, demo())
	run := b.open(t)
	text, err := run.ReadFile(prov.StatementName)
	must(t, err)
	var s prov.Statement
	must(t, json.Unmarshal(text, &s))
	got := map[string]any{}
	for _, r := range s.Subject {
		got[r.Name] = r.Annotations["limitations"]
	}
	if len(got) != 11 || got["artifacts/grade/rows.jsonl"] == nil || got["run.json"] == nil {
		t.Errorf("got subjects %v, want run.json and ten artifacts", got)
	}
	l := limitation("weights.unbound")
	l.Origin = "weights"
	_, want := stage.NewLimitationSet(l).Union(reused).Canonical()
	if got["artifacts/weights/doc.json"] != want.String() {
		t.Errorf("got set %v of what was taken over, want %s with what the executor added", got["artifacts/weights/doc.json"], want)
	}
	_, err = prov.RunStatement(context.Background(), []byte(`{}`), prov.NewReader(b.store))
	if err == nil {
		t.Error("a statement was made of a file that is no run.json")
	}
}

func TestStageStatementRefusesWhatIsNoResult(t *testing.T) {
	for _, text := range []string{"", "{}", `{"schema":"anvil.run/v1"}`, "[]"} {
		if _, err := prov.StageStatement([]byte(text), tool); err == nil {
			t.Errorf("a statement was made of %q", text)
		}
	}
}

func TestStatementOfAnAttemptWithoutOutputsIsAboutItsResult(t *testing.T) {
	b, err := prov.EncodeResult(prov.Result{Run: thisRun, Stage: "grade", Kind: "grade", Contract: 1, Attempt: 1, Status: prov.Failed, Config: json.RawMessage("{}")})
	must(t, err)
	s, err := prov.StageStatement(b, tool)
	must(t, err)
	text, err := s.Encode()
	must(t, err)
	var official intotov1.Statement
	must(t, protojson.Unmarshal(text, &official))
	if err := official.Validate(); err != nil {
		t.Errorf("in-toto: %v", err)
	}
	if len(s.Subject) != 1 || s.Subject[0].Digest["sha256"] != digest.FromBytes(b).String() {
		t.Errorf("got subjects %+v, want result.json", s.Subject)
	}
}

func TestGoldenKeyOfAResult(t *testing.T) {
	res := prov.Result{
		Kind: "grade", Contract: 2, Config: json.RawMessage(`{"graders": [{"type": "equals"}], "n": 1.50}`), Salt: "s",
		Inputs: []prov.Input{{Port: "attempts", Name: "attempts.jsonl.zst", Ref: stage.Ref{Schema: "anvil.attempts/v1", SHA256: digest.FromBytes([]byte("a")), Size: 1, Limitations: digest.FromBytes([]byte("[]"))}}},
	}
	got, err := prov.KeyOf(&res)
	must(t, err)
	if want := digest.MustParse(goldenKey); got != want {
		t.Errorf("got key %s, want %s: every stored result would be lost", got, want)
	}
}

// goldenKey was computed by another program: SHA-256 of the sorted, compact JSON.
const goldenKey = "5709e0312360d5ab3ae138796ccdd5f46b8b2d27409d22ac2c2463b0f38e60ce"
