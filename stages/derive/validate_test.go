package derive_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

func TestValidateReachesLevel3(t *testing.T) {
	l, p, _ := golden(t)
	v := l.validate(p.artifacts["record.json"])
	for _, problem := range v.Problems {
		t.Errorf("%s%s %s: %s", problem.Artifact, problem.Pointer, problem.Rule, problem.Text)
	}
	if !v.OK || v.Level != 3 || v.BytesEqual == nil || !*v.BytesEqual {
		t.Errorf("ok %v, level %d, bytes equal %v", v.OK, v.Level, v.BytesEqual)
	}
	if want := []string{"grade/grades.jsonl", "summarize/record.json"}; !slices.Equal(v.Rederived, want) {
		t.Errorf("derived again %v, want %v", v.Rederived, want)
	}
	if v.Artifacts != 5 { // record, attempts, measurement, grades, dataset
		t.Errorf("%d artifacts read, want 5", v.Artifacts)
	}
}

// replaced is the closure of a record whose bytes were exchanged: what a forger
// makes who also mends the digests.
func (l *lab) replaced(old stage.Artifact, doc []byte) (stage.Artifact, *closure) {
	c := l.closure(old)
	set := old.LimitationSet()
	a := l.artifact(old.Stage, old.Name, old.Schema, doc, set)
	c.made[a.SHA256] = c.made[old.SHA256]
	return a, c
}

// A mutation changes one scalar of a document, in place in its bytes.
type mutation struct {
	pointer  string
	from, to int // of the scalar's text
	text     string
}

var digits = regexp.MustCompile(`/[0-9]+`)

// mutations lists one change for every scalar of a document.
func mutations(t *testing.T, doc []byte) []mutation {
	t.Helper()
	var out []mutation
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var walk func(pointer string)
	walk = func(pointer string) {
		tok, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		end := int(dec.InputOffset())
		switch tok := tok.(type) {
		case json.Delim:
			for i := 0; dec.More(); i++ {
				at := fmt.Sprintf("%s/%d", pointer, i)
				if tok == '{' {
					key, _ := dec.Token()
					at = pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key.(string))
				}
				walk(at)
			}
			_, _ = dec.Token()
		default:
			text, changed := change(tok)
			from := bytes.LastIndex(doc[:end], []byte(text))
			out = append(out, mutation{pointer, from, end, changed})
		}
	}
	walk("")
	return out
}

// change returns a scalar's text and another one of its type.
func change(v any) (text, changed string) {
	switch v := v.(type) {
	case nil:
		return "null", `"something"`
	case bool:
		return fmt.Sprint(v), fmt.Sprint(!v)
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			f, _ := v.Float64()
			return v.String(), fmt.Sprint(f*1.000001 + 1e-9)
		}
		return v.String(), v.String() + "1"
	case string:
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(v)
		text := strings.TrimSuffix(b.String(), "\n")
		if len(v) == 64 { // digests stay digests
			flip := "0"
			if v[63] == '0' {
				flip = "1"
			}
			return text, `"` + v[:63] + flip + `"`
		}
		return text, text[:len(text)-1] + `x"`
	}
	return "", ""
}

// explained are the scalars of a final record that no rule and nothing in the
// closure witnesses, each with the reason.
var explained = map[string]string{
	"/plan/sha256":          "the plan's text is no part of the closure: run.json and the run's statement hold its digest",
	"/plan/resolved_sha256": "as the plan's",
}

// every asks for all scalars; without it of each kind, such as the unit of a
// metric, the first three stand for all. CI and the last word on a change use it.
var every = flag.Bool("every", false, "change every scalar of the golden record")

func TestEveryScalarOfARecordIsWitnessed(t *testing.T) {
	l, p, _ := golden(t)
	doc := p.raw["record.json"]
	all := mutations(t, doc)
	if !*every {
		seen := map[string]int{}
		all = slices.DeleteFunc(all, func(m mutation) bool {
			kind := digits.ReplaceAllString(m.pointer, "/#")
			seen[kind]++
			return seen[kind] > 3
		})
	}
	var survivors []string
	for _, m := range all {
		forged := slices.Concat(doc[:m.from], []byte(m.text), doc[m.to:])
		// The forger also gives the record a fitting id, the id's own change excepted.
		if m.pointer != "/id" {
			blank := bytes.Replace(forged, forged[bytes.Index(forged, []byte(`"rec-`)):][:22], []byte(`"`+record.BlankID+`"`), 1)
			minted, err := record.MintID(blank)
			if err != nil {
				t.Fatal(err)
			}
			forged = minted
		}
		a, c := l.replaced(p.artifacts["record.json"], forged)
		if validateWith(t, a, c).OK {
			survivors = append(survivors, m.pointer)
		}
	}
	var want []string
	for pointer := range explained {
		want = append(want, pointer)
	}
	slices.Sort(want)
	slices.Sort(survivors)
	if !slices.Equal(survivors, want) {
		t.Errorf("of %d changed scalars these survive: %v, want %v", len(all), survivors, want)
	}
	t.Logf("%d scalars changed, %d caught, survivors %v", len(all), len(all)-len(survivors), survivors)
}

func TestEveryByteOfTheClosureIsWitnessed(t *testing.T) {
	l, p, _ := golden(t)
	rec := p.artifacts["record.json"]
	for _, a := range append(l.closure(rec).all, rec) {
		whole := l.objects[a.SHA256]
		flipped := bytes.Clone(whole)
		flipped[len(flipped)/2] ^= 0x20
		l.objects[a.SHA256] = flipped
		v := validateWith(t, rec, l.closure(rec))
		l.objects[a.SHA256] = whole
		if v.OK || v.Level != 0 {
			t.Errorf("%s/%s: level %d with a flipped byte", a.Stage, a.Name, v.Level)
		}
		if i := slices.IndexFunc(v.Problems, func(p record.ValidationProblem) bool { return p.Rule == "digest" && p.Artifact == a.Stage+"/"+a.Name }); i < 0 {
			t.Errorf("%s/%s is not named: %+v", a.Stage, a.Name, v.Problems)
		}
	}
}

func TestAMissingObjectIsNamed(t *testing.T) {
	l, p, _ := golden(t)
	rec := p.artifacts["record.json"]
	for _, a := range l.closure(rec).all {
		whole := l.objects[a.SHA256]
		delete(l.objects, a.SHA256)
		v := validateWith(t, rec, l.closure(rec))
		l.objects[a.SHA256] = whole
		if v.Level != 0 || v.Problems[0].Artifact != a.Stage+"/"+a.Name || v.Problems[0].Rule != "unreadable" {
			t.Errorf("%s/%s: level %d, first problem %+v", a.Stage, a.Name, v.Level, v.Problems[0])
		}
	}
}

func TestALostLimitationIsNamed(t *testing.T) {
	l, p, f := golden(t)
	rec := p.artifacts["record.json"]
	for i, lost := range f.Limitations {
		kept := stage.NewLimitationSet(slices.Delete(slices.Clone(f.Limitations), i, i+1)...)
		// A record made as if the limitation had never been: consistent in itself.
		forged := f
		forged.Limitations = nil
		forged.Count = len(kept)
		_, forged.SetSHA256 = kept.Canonical()
		forged.ID = record.BlankID
		doc, err := stage.MarshalDocument(forged, kept)
		if err != nil {
			t.Fatal(err)
		}
		if doc, err = record.MintID(doc); err != nil {
			t.Fatal(err)
		}
		c := l.closure(rec)
		a := l.artifact(rec.Stage, rec.Name, rec.Schema, doc, kept)
		c.made[a.SHA256] = c.made[rec.SHA256]
		v := validateWith(t, a, c)
		if !slices.ContainsFunc(v.Problems, func(p record.ValidationProblem) bool {
			return p.Rule == "limitation-missing" && strings.Contains(p.Text, lost.Code)
		}) {
			t.Errorf("%s of %s was lost unnoticed; problems %+v", lost.Code, lost.Origin, v.Problems)
		}
	}
}

func TestAnInventedLimitationIsNamed(t *testing.T) {
	l, p, f := golden(t)
	rec := p.artifacts["record.json"]
	invented := stage.Limitation{Code: "tls.unverified", Severity: stage.Caveat, Origin: "measure", AppliesTo: []string{"*"}, Text: "x"}
	set := f.Limitations.Union(stage.NewLimitationSet(invented))
	f.Limitations, f.ID, f.Count = nil, record.BlankID, len(set)
	_, f.SetSHA256 = set.Canonical()
	doc, err := stage.MarshalDocument(f, set)
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = record.MintID(doc); err != nil {
		t.Fatal(err)
	}
	c := l.closure(rec)
	a := l.artifact(rec.Stage, rec.Name, rec.Schema, doc, set)
	c.made[a.SHA256] = c.made[rec.SHA256]
	v := validateWith(t, a, c)
	if !slices.ContainsFunc(v.Problems, func(p record.ValidationProblem) bool { return p.Rule == "limitation-unwitnessed" }) {
		t.Errorf("problems %+v", v.Problems)
	}
	// The executor's own cannot be computed here and are no fault.
	if v := l.validate(l.withRunLimitation(rec)); !v.OK {
		t.Errorf("a limitation of origin run: %+v", v.Problems)
	}
}

// withRunLimitation is the record as another run takes it over: the same bytes
// with a set that the executor extended.
func (l *lab) withRunLimitation(rec stage.Artifact) stage.Artifact {
	reused := stage.Limit("run.reused-evidence")
	reused.Origin = stage.OriginRun
	set := rec.LimitationSet().Union(stage.NewLimitationSet(reused))
	return l.artifact(rec.Stage, rec.Name, rec.Schema, l.objects[rec.SHA256], set)
}

func TestForgedGradesAreCaught(t *testing.T) {
	l, p, _ := golden(t)
	rec := p.artifacts["record.json"]
	grades := l.made[rec.SHA256].Inputs["grades"][0]
	forged := bytes.Replace(l.objects[grades.SHA256], []byte(`"verdict":"fail"`), []byte(`"verdict":"pass"`), 1)
	a := l.artifact(grades.Stage, grades.Name, grades.Schema, forged, grades.LimitationSet())
	l.made[a.SHA256] = l.made[grades.SHA256]
	made := l.made[rec.SHA256]
	inputs := maps.Clone(made.Inputs)
	inputs["grades"] = []stage.Artifact{a}
	made.Inputs = inputs
	l.made[rec.SHA256] = made
	v := validateWith(t, rec, l.closure(rec))
	if !slices.ContainsFunc(v.Problems, func(p record.ValidationProblem) bool {
		return p.Artifact == "grade/grades.jsonl" && p.Rule == "rederive" && strings.HasSuffix(p.Pointer, "/verdict")
	}) {
		t.Errorf("problems %+v", v.Problems)
	}
}

func TestARecordThatIsNoJSONIsLevel1(t *testing.T) {
	l, p, _ := golden(t)
	rec := p.artifacts["record.json"]
	for name, doc := range map[string]string{"empty": "", "cut": string(p.raw["record.json"][:500]), "array": "[]", "twice": `{"schema":"anvil.record/v1","schema":"x"}`} {
		a, c := l.replaced(rec, []byte(doc))
		if v := validateWith(t, a, c); v.OK || v.Level != 1 {
			t.Errorf("%s: ok %v, level %d, want level 1", name, v.OK, v.Level)
		}
	}
}

// What the import says of the file stands in no document that it took over.
func TestAnImportAddsLimitationsOfItsOwn(t *testing.T) {
	l, p, _ := golden(t)
	made := p.artifacts["record.json"]
	unverified := stage.Limit("import.unverified", "file", "record.json")
	unverified.Origin = "old"
	set := made.LimitationSet().Union(stage.NewLimitationSet(unverified))
	c := l.closure(made)
	rec := l.artifact("old", "record.json", made.Schema, l.objects[made.SHA256], set)
	c.made[rec.SHA256] = stage.Production{Stage: "old", Kind: "import", Raised: set}
	if v := validateWith(t, rec, c); v.Level != 2 {
		t.Errorf("level %d, problems %+v", v.Level, v.Problems)
	}
	c.made[rec.SHA256] = stage.Production{Stage: "old", Kind: "summarize", Raised: set}
	if v := validateWith(t, rec, c); v.Level >= 2 {
		t.Errorf("a record that lost a limitation of its own stage reaches level %d", v.Level)
	}
}

func TestAnImportedRecordReachesLevel2(t *testing.T) {
	l, p, _ := golden(t)
	rec := p.artifacts["record.json"]
	c := l.closure(rec)
	delete(c.made, rec.SHA256)
	if v := validateWith(t, rec, c); v.Level != 2 || v.BytesEqual != nil {
		t.Errorf("level %d, bytes equal %v, problems %+v", v.Level, v.BytesEqual, v.Problems)
	}
}

func TestGoldenRecord(t *testing.T) {
	_, p, _ := golden(t)
	path := filepath.Join("testdata", "record.golden.json")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, p.raw["record.json"], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(p.raw["record.json"]), "\n")); diff != "" {
		t.Errorf("the record differs from %s; with -update it is written anew (-want +got):\n%s", path, diff)
	}
}

// A sweep: each cell has its own attempts, measurement and grades, and the
// repetitions make groups.
func TestASweepReachesLevel3(t *testing.T) {
	l := newLab(t)
	ports := map[string][]stage.Artifact{}
	for _, concurrency := range []int{1, 4} {
		for rep := 1; rep <= 2; rep++ {
			id := fmt.Sprintf("measure[concurrency=%d,rep=%d]", concurrency, rep)
			rows, dataset := goldenRows()
			h := header(len(rows))
			h.Cell = map[string]any{"concurrency": concurrency, "rep": rep}
			h.Load = map[string]any{"mode": "closed", "concurrency": concurrency}
			attempts := l.attempts(id, h, rows)
			graded, err := l.grade(attempts, dataset, map[string]any{"graders": []any{map[string]any{"id": "fields", "type": "evidence_fields"}}})
			if err != nil {
				t.Fatal(err)
			}
			ports["attempts"] = append(ports["attempts"], attempts)
			ports["measurement"] = append(ports["measurement"], l.document(id, "measurement.json", record.MeasurementSchema, measurement(4000*float64(rep), rows)))
			ports["grades"] = append(ports["grades"], graded.artifacts["grades.jsonl"])
		}
	}
	p, f := l.summarize(map[string]any{}, ports)
	if len(f.Cells) != 4 || len(f.Groups) != 2 {
		t.Fatalf("%d cells and %d groups, want 4 and 2", len(f.Cells), len(f.Groups))
	}
	for _, m := range f.Groups[1].Metrics {
		if m.ID == "duration_s" && (*m.Value != 6 || *m.Min != 4 || *m.Max != 8 || m.Samples != 2) {
			t.Errorf("duration over repetitions %v in [%v, %v] of %d", *m.Value, *m.Min, *m.Max, m.Samples)
		}
	}
	if f.Cells[0].Comparison.Conditions["load.concurrency"] != 1.0 || f.Cells[3].Comparison.Conditions["load.concurrency"] != 4.0 {
		t.Error("the cells' conditions do not name their own load")
	}
	if v := l.validate(p.artifacts["record.json"]); !v.OK || v.Level != 3 || len(v.Rederived) != 5 {
		t.Errorf("level %d, derived again %v, problems %+v", v.Level, v.Rederived, v.Problems)
	}
}

func TestAnotherContractIsNotDerivedAgain(t *testing.T) {
	l, p, _ := golden(t)
	rec := p.artifacts["record.json"]
	made := l.made[rec.SHA256]
	made.Contract++
	l.made[rec.SHA256] = made
	v := validateWith(t, rec, l.closure(rec))
	if v.Level != 2 || !slices.ContainsFunc(v.Problems, func(p record.ValidationProblem) bool { return p.Rule == "contract" }) {
		t.Errorf("level %d, problems %+v", v.Level, v.Problems)
	}
}

// Whatever stands in the place of a record is answered, never a panic, and only
// the record itself is proven.
func FuzzValidate(f *testing.F) {
	l, p, _ := golden(f)
	doc := p.raw["record.json"]
	f.Add(doc)
	for _, cut := range []int{0, 1, 100, 2000, len(doc) / 2} {
		f.Add(doc[:cut])
	}
	f.Add([]byte(`{"schema":"anvil.record/v1","cells":[{"correctness":{},"cases":[{}]}],"groups":[{"cells":["x"]}],"evidence":[{}],"limitations":[{}]}`))
	f.Add(bytes.Replace(doc, []byte(`"planned": 8`), []byte(`"planned": 9223372036854775807`), 1))
	f.Fuzz(func(t *testing.T, forged []byte) {
		a, c := l.replaced(p.artifacts["record.json"], forged)
		v := validateWith(t, a, c)
		delete(l.objects, a.SHA256)
		l.objects[p.artifacts["record.json"].SHA256] = doc
		if v.OK && !bytes.Equal(forged, doc) {
			var final record.Final
			if err := json.Unmarshal(forged, &final); err != nil || final.ID == "" {
				t.Errorf("proven: %.200q", forged)
			}
		}
	})
}

// validation.json is a pure artifact: the same faults are told in the same
// order, whatever way maps are walked.
func TestFaultsAreToldInTheSameOrder(t *testing.T) {
	l, p, _ := golden(t)
	numerators := regexp.MustCompile(`"(numerator|denominator|ok|pass|fail|truncated)":( ?)([0-9]+)`)
	forged := numerators.ReplaceAll(p.raw["record.json"], []byte(`"$1":${2}1$3`))
	a, c := l.replaced(p.artifacts["record.json"], forged)
	first := validateWith(t, a, c)
	if len(first.Problems) < 6 {
		t.Fatalf("got %d problems, want the changes named", len(first.Problems))
	}
	for range 20 {
		if diff := cmp.Diff(first, validateWith(t, a, c)); diff != "" {
			t.Fatalf("the same record was told of otherwise (-first +again):\n%s", diff)
		}
	}
}
