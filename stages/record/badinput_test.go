package record

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"anvil/stages/internal/jsontree"
)

// seed returns the benchmark seed with a text replaced.
func seed(tb testing.TB, from, to string) []byte {
	tb.Helper()
	src := testdata(tb, seeds+"/benchmark-v1.json")
	out := bytes.Replace(src, []byte(from), []byte(to), 1)
	if from != "" && bytes.Equal(src, out) {
		tb.Fatalf("%q is not in the seed", from)
	}
	return out
}

func TestBadInputIsOneClearLine(t *testing.T) {
	whole := string(seed(t, "", ""))
	for name, c := range map[string]struct {
		src, rule, text string
		exit            int
	}{
		"empty":          {"", "file.empty", "the file is empty", 2},
		"blank":          {" \n", "json.syntax", "the text ends where a value must stand", 2},
		"truncated":      {whole[:4000], "json.syntax", "line ", 2},
		"text":           {"hello", "json.syntax", "line 1, column 1: 'h' where a value must stand", 2},
		"binary":         {"\x00\x01\x02", "json.syntax", "line 1, column 1", 2},
		"NaN":            {strings.Replace(whole, "25669.25319400616", "NaN", 1), "json.syntax", "NaN is not JSON", 2},
		"duplicate key":  {strings.Replace(whole, `"completed": 4,`, `"completed": 4, "completed": 5,`, 1), "json.duplicate-key", `duplicate key "completed"`, 5},
		"huge number":    {strings.Replace(whole, "25669.25319400616", "1e400", 1), "json.number-range", "beyond a double", 5},
		"lone surrogate": {strings.Replace(whole, `"vllm"`, `"\ud800"`, 1), "json.surrogate", "surrogate", 5},
		"deep":           {strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), "json.depth", "nested deeper than 256", 2},
		"deep inside":    {strings.Replace(whole, `"vllm"`, strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000), 1), "json.depth", "nested deeper", 2},
		"trailing":       {whole + "\n{}", "json.syntax", "there is more", 2},
		"invalid UTF-8":  {strings.Replace(whole, `"vllm"`, "\"\xff\"", 1), "json.utf8", "not valid UTF-8", 2},
		"number":         {"42", "kind.unknown", "the document is a number", 5},
		"array":          {"[1, 2]", "kind.unknown", "an array of something else", 5},
		"another kind":   {`{"schema": "acme.record/v9", "x": 1}`, "kind.unknown", `the schema "acme.record/v9" is not known`, 5},
		"no kind":        {`{"x": 1}`, "kind.unknown", "it has no schema", 5},
		"lines as one":   {"{\n\"schema\": \"anvil.attempts/v1\"}", "kind.lines", "is JSON Lines", 5},
		"broken zstd":    {"\x28\xb5\x2f\xfd\x00\x00\x00\x00\x00\x00", "file.unreadable", "", 2},
	} {
		r := CheckReader(name, strings.NewReader(c.src), Options{})
		if len(r.Problems) != 1 || r.Problems[0].Rule != c.rule || !strings.Contains(r.Problems[0].Text, c.text) || strings.Contains(r.Problems[0].Text, "\n") {
			t.Errorf("%s: %s, want one line, rule %s, with %q", name, describe(r), c.rule, c.text)
		}
		if got := Exit([]Report{r}, false); got != c.exit {
			t.Errorf("%s: exit %d, want %d", name, got, c.exit)
		}
	}
}

// Every value of a record replaced by one of every other type: no panic, and
// each is a problem at its own place.
func TestWrongTypesAreNamedEverywhere(t *testing.T) {
	for _, path := range []string{seeds + "/benchmark-v1.json", corpus + "/baseline-capacity-1.json", seeds + "/serving-cell-record.json", seeds + "/live-http-run.json", seeds + "/derived-capacity-summary-v1.json"} {
		src := testdata(t, path)
		doc, err := jsontree.Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range every(doc, "") {
			for _, text := range []string{`{}`, `[]`, `"x"`, `true`, `-1.5`} {
				r := CheckReader("mutant", bytes.NewReader(splice(src, p.v, text)), Options{})
				repeatsWhatIsStored(t, splice(src, p.v, text), r)
				if r.Kind == nil || mustParse(t, []byte(text)).Kind() == p.v.Kind() {
					continue
				}
				if r.OK && !freeText(p, text) {
					t.Errorf("%s: %s as %s is not noticed", filepath.Base(path), p.pointer, text)
				}
			}
		}
	}
}

// freeText tells whether a nullable text stands where the seed has null.
func freeText(p place, text string) bool { return p.v.Is(jsontree.Null) && text == `"x"` }

func every(v jsontree.Value, pointer string) []place {
	out := []place{}
	if pointer != "" {
		out = append(out, place{pointer, v})
	}
	for name, m := range v.Members() {
		out = append(out, every(m, jsontree.Child(pointer, name))...)
	}
	for i, e := range v.Elems() {
		out = append(out, every(e, jsontree.Index(pointer, i))...)
	}
	return out
}

func hasNote(r Report, rule string) bool {
	for _, n := range r.Notes {
		if n.Rule == rule {
			return true
		}
	}
	return false
}

func TestFindingsThatAreNoFaultsAreNotes(t *testing.T) {
	reports, err := Check(context.Background(), []string{corpus}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"cache.warm-rows":    {"glm-capacity-c4-16word-final"},
		"p99.few-samples":    {"baseline-capacity-1", "glm-capacity-16word-probe", "glm-capacity-c4-16word-scout"},
		"throughput.partial": {"v3-0-of-1", "v3-1-of-12", "v4-11-of-12", "v4-2-of-3-warm", "v4-4-of-6-eviction"},
		"run-id.collides":    {"pre-protocol-c128-a", "pre-protocol-c128-b"},
		"outputs.at-cap":     {"v3-ab-default-8k-c16-r1"},
		"samples.one":        {"glm-capacity-16word-probe", "v3-1-of-12", "v4-prefix-cold", "v4-prefix-replay"},
		"derived.no-digest":  {"glm-capacity-c4-16word-final-summary"},
	}
	for rule, files := range want {
		var got []string
		for _, r := range reports {
			if hasNote(r, rule) {
				got = append(got, strings.TrimSuffix(filepath.Base(r.File), ".json"))
			}
		}
		if strings.Join(got, " ") != strings.Join(files, " ") {
			t.Errorf("note %s stands on %v, want %v", rule, got, files)
		}
	}
	for _, r := range reports {
		if hasNote(r, "cache.warm-rows") && !strings.Contains(describe(r), "requests 0, 4, 5, 6, 7 were") {
			t.Errorf("the warm rows are not 0, 4, 5, 6, 7: %s", describe(r))
		}
	}
	if got := Exit(reports, false); got != 5 {
		t.Errorf("exit %d, want 5: the alien is among them", got)
	}
}

// A copy in another layout is told from another run under the same id.
func TestCollidingRunIDsSayWhetherTheContentDiffers(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, src []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, src, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cell, run := testdata(t, seeds+"/serving-cell-record.json"), seed(t, "", "")
	const same, other = "too, with the same content: ", "too, with other content: "
	for name, c := range map[string]struct {
		files [][]byte
		want  []string // in the note of each, "" for none
	}{
		"the same bytes":      {[][]byte{run, run}, []string{"", ""}},
		"a cell, compacted":   {[][]byte{cell, compact(cell)}, []string{"1.json bears glm53-flash-stock-serving-4k-c1-pilot-119f8a2564a2 " + same, "0.json bears glm53-flash-stock-serving-4k-c1-pilot-119f8a2564a2 " + same}},
		"a run, compacted":    {[][]byte{run, compact(run)}, []string{same, same}},
		"members moved":       {[][]byte{run, moved(t, run)}, []string{same, same}},
		"another number text": {[][]byte{run, bytes.Replace(run, []byte("6069.0"), []byte("6069.00"), 1)}, []string{other, other}},
		"another run":         {[][]byte{run, compact(run), seed(t, `"model": "`, `"model": "x`)}, []string{"2.json bears benchmark-20260917T172104Z " + other, "2.json bears benchmark-20260917T172104Z " + other, "0.json bears benchmark-20260917T172104Z " + other}},
	} {
		var files []string
		for i, src := range c.files {
			files = append(files, write(fmt.Sprintf("%d.json", i), src))
		}
		reports, err := Check(context.Background(), files, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range reports {
			n := slices.IndexFunc(r.Notes, func(n Note) bool { return n.Rule == "run-id.collides" })
			if n < 0 != (c.want[i] == "") || n >= 0 && !strings.Contains(r.Notes[n].Text, c.want[i]) {
				t.Errorf("%s: want %q in the note of file %d: %s", name, c.want[i], i, describe(r))
			}
		}
	}
}

// moved puts the first member last.
func moved(t *testing.T, src []byte) []byte {
	t.Helper()
	o := members(mustParse(t, src))
	text, err := jsontree.Renderer{}.Render(append(o[1:], o[0]))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestUnverifiedIsAFindingOnlyWhenStrict(t *testing.T) {
	r := CheckFile(filepath.Join(corpus, "v2-c32-no-rows.json"), Options{})
	if Exit([]Report{r}, false) != 0 || Exit([]Report{r}, true) != 5 {
		t.Errorf("exit %d and strict %d, want 0 and 5", Exit([]Report{r}, false), Exit([]Report{r}, true))
	}
}

// Rules that the mutations of the seeds do not reach.
func TestRulesOfTheNewestShape(t *testing.T) {
	failed := string(testdata(t, corpus+"/baseline-capacity-1.json"))
	for name, c := range map[string]struct{ src, from, to, pointer, rule string }{
		"reasoning under v3":      {"", `"capacity-v4-reasoning"`, `"capacity-v3"`, "/request_timings/0/reasoning_chunks", "protocol.no-reasoning"},
		"a class without cause":   {failed, `"controlled_output_failed"`, `"request_canary_failed"`, "/failures/0/failure_class", "failure.class"},
		"elapsed below e2e":       {failed, `"elapsed_ms": 17405.23385896813`, `"elapsed_ms": 17405.0`, "/failures/0/elapsed_ms", "failure.elapsed"},
		"usage total":             {failed, `"total_tokens": 6425`, `"total_tokens": 6426`, "/failures/0/response_metadata/usage/total_tokens", "failure.usage-total"},
		"said twice":              {failed, "\"response_metadata\": {\n        \"content_chunks\": 72", "\"response_metadata\": {\n        \"content_chunks\": 71", "/failures/0/response_metadata/content_chunks", "failure.said-twice"},
		"received without timing": {failed, `"response_received": true`, `"response_received": false`, "/failures/0/response_received", "failure.received"},
		"no metadata":             {failed, `"response_metadata": {`, `"x": {`, "/failures/0/response_metadata", "failure.answer"},
		"metadata of nothing":     {failed, `"response_metadata": {`, `"response_metadata": null, "x": {`, "/failures/0/response_metadata", "failure.answer"},
		"no canary":               {failed, "\n      \"request_canary\": {", "\n      \"x\": {", "/failures/0/request_canary", "failure.answer"},
		"no words":                {failed, "\n      \"controlled_output\": {", "\n      \"x\": {", "/failures/0/controlled_output", "failure.answer"},
		"chunks for known tokens": {"", `"content_chunks_s": null`, `"content_chunks_s": 3.0`, "/metrics/content_chunks_s", "metrics.value"},
		"a row index twice":       {"", `"request_index": 1,`, `"request_index": 0,`, "/request_timings/1/request_index", "index.once"},
		"shared prefix":           {"", `"prompt_cache_mode": "unique"`, `"prompt_cache_mode": "shared"`, "/shared_prefix_tokens", "workload.shared-prefix"},
		"window":                  {"", `"max_context_tokens": 327680`, `"max_context_tokens": 20000`, "/context_distribution/8192", "workload.window"},
		"concurrency":             {"", `"concurrency": 4`, `"concurrency": 3`, "/concurrency", "wall.in-flight"},
		"label":                   {"", `"schema": "anvil-serving.benchmark/v1"`, `"schema": "anvil-serving.benchmark/v2"`, "/schema", "schema.enum"},
		"a stamp beyond int64":    {"", `"finished_at_unix_ns": 1789665689912896690`, `"finished_at_unix_ns": 99999999999999999999`, "/finished_at_unix_ns", "number.int64"},
		"a seed beyond int64":     {"", `"context_seed": 0`, `"context_seed": -9223372036854775809`, "/context_seed", "number.int64"},
		"a count beyond int64":    {"", `"content_chunks": 292`, `"content_chunks": 9223372036854775808`, "/metrics/content_chunks", "number.int64"},
		"a size beyond int64":     {"", `"8192": 4`, `"8192": 4, "99999999999999999999": 1`, "/context_distribution/99999999999999999999", "number.int64"},
		"a row in doubt":          {"", `"time_to_first_output_ms": 1656.3155159819871`, `"time_to_first_output_ms": 18995.5`, "/request_timings/0/ttft_ms", "row.order"},
	} {
		if c.src == "" {
			c.src = string(seed(t, "", ""))
		}
		mutant := strings.Replace(c.src, c.from, c.to, 1)
		if mutant == c.src {
			t.Fatalf("%s: %q is not in the record", name, c.from)
		}
		r := CheckReader(name, strings.NewReader(mutant), Options{})
		repeatsWhatIsStored(t, []byte(mutant), r)
		if !hasProblem(r, c.pointer, c.rule) || r.Kind == nil || *r.Kind != BenchmarkSchema {
			t.Errorf("%s: want %s at %s, got %s", name, c.rule, c.pointer, describe(r))
		}
	}
}

// The label of an old record says which rules hold: one that is too old, or gone,
// is no way around them.
func TestLabelsOlderThanTheContentAreNamed(t *testing.T) {
	label := func(from, to string) func(string) string {
		return func(src string) string { return strings.Replace(src, "\n  \"measurement_protocol\": "+from, to, 1) }
	}
	relabel := func(from, to string) func(string) string {
		return label(`"`+from+`"`, "\n  \"measurement_protocol\": \""+to+`"`)
	}
	unmarked := func(src string) string { // then it looks like v4
		for _, mark := range newestMarks {
			src = strings.Replace(src, "\n  \""+mark+`":`, "\n  \"x-"+mark+`":`, 1)
		}
		return src
	}
	for name, c := range map[string]struct {
		file        string
		edit        func(string) string
		shape, text string
	}{
		"v4 as v2":     {"v4-2-of-3-warm", relabel("capacity-v4-reasoning", "capacity-v2"), "capacity-v2", "finished_at, request_timings, started_at, timing_methodology, wall_clock_ms, metrics/decode_tok_s_p50, "},
		"v4 as none":   {"v4-2-of-3-warm", label(`"capacity-v4-reasoning",`, ""), "none", "context_distribution, context_seed, engine, "},
		"v3 as v2":     {"v3-1-of-12", relabel("capacity-v3", "capacity-v2"), "capacity-v2", "request_timings"},
		"v2 as none":   {"v2-c32-no-rows", label(`"capacity-v2",`, ""), "none", "failed, failures, "},
		"newest as v4": {"baseline-capacity-1", unmarked, "capacity-v4-reasoning", "clock_domain_id, configuration_fingerprint, controlled_output_policy, "},
	} {
		src := string(testdata(t, corpus+"/"+c.file+".json"))
		mutant := c.edit(src)
		if mutant == src {
			t.Fatalf("%s: the record has no such label", name)
		}
		r := CheckReader(name, strings.NewReader(mutant), Options{})
		n, text := 0, ""
		for _, p := range r.Problems {
			if p.Rule == "shape.contradicts" {
				n, text = n+1, p.Text
			}
		}
		if n != 1 || !strings.Contains(text, c.text) || !hasProblem(r, "/measurement_protocol", "shape.contradicts") || r.Shape == nil || *r.Shape != c.shape {
			t.Errorf("%s: want one problem that names %s under shape %s, got %s", name, c.text, c.shape, describe(r))
		}
	}
}

// Generated text is what live runs alone keep: under none of the names that
// clients use may it stand in another kind, however deep.
func TestTextsOfAnswersAreProblems(t *testing.T) {
	failed := testdata(t, corpus+"/baseline-capacity-1.json")
	summary := testdata(t, corpus+"/glm-capacity-c4-16word-final-summary.json")
	inRow := func(member string) []byte {
		return seed(t, `"request_index": 1,`, `"request_index": 1, `+member+`,`)
	}
	for name, c := range map[string]struct {
		src     []byte
		pointer string // of the one problem; "" for none
		note    string // pointer of the note on an unknown member, "" for none
	}{
		"text":                 {inRow(`"text": "secret"`), "/request_timings/1/text", ""},
		"content":              {inRow(`"content": "secret"`), "/request_timings/1/content", ""},
		"reasoning":            {inRow(`"reasoning": "secret"`), "/request_timings/1/reasoning", ""},
		"output text":          {inRow(`"output_text": "secret"`), "/request_timings/1/output_text", ""},
		"response":             {inRow(`"response": {"id": 1, "choices": ["secret"]}`), "/request_timings/1/response", ""},
		"answer":               {inRow(`"answer": "secret"`), "/request_timings/1/answer", ""},
		"prompt":               {inRow(`"prompt": "secret"`), "/request_timings/1/prompt", ""},
		"messages":             {inRow(`"messages": [{"role": "user", "content": "secret"}]`), "/request_timings/1/messages", ""},
		"spelt with an escape": {inRow(`"t\u0065xt": "secret"`), "/request_timings/1/text", ""},
		"deep in another":      {inRow(`"raw": [{"message": {"content": "secret"}}]`), "/request_timings/1/raw/0/message/content", "/request_timings/1/raw"},
		"no text in it":        {inRow(`"text": null`), "", "/request_timings/1/text"},
		"a count of that name": {inRow(`"reasoning": 12`), "", "/request_timings/1/reasoning"},
		"another member":       {inRow(`"queue_ms": 1.5`), "", "/request_timings/1/queue_ms"},
		"of a failure":         {bytes.Replace(failed, []byte(`"error_type"`), []byte(`"content": "secret", "error_type"`), 1), "/failures/0/content", ""},
		"of an answer":         {bytes.Replace(failed, []byte(`"finish_reasons"`), []byte(`"text": "secret", "finish_reasons"`), 1), "/failures/0/response_metadata/text", ""},
		"of the record":        {seed(t, `"concurrency": 4`, `"prompt": "secret", "concurrency": 4`), "/prompt", ""},
		"of a summary":         {bytes.Replace(summary, []byte(`"cache_caveat"`), []byte(`"answer": "secret", "cache_caveat"`), 1), "/answer", ""},
	} {
		r := CheckReader(name, bytes.NewReader(c.src), Options{})
		if r.OK != (c.pointer == "") || !r.OK && (len(r.Problems) != 1 || !hasProblem(r, c.pointer, "text.kept")) || strings.Contains(describe(r), "secret") {
			t.Errorf("%s: want text.kept at %q alone, the text not repeated: %s", name, c.pointer, describe(r))
		}
		noted := ""
		for _, n := range r.Notes {
			if n.Rule == "shape.unknown-member" {
				noted += n.Pointer
			}
		}
		if noted != c.note {
			t.Errorf("%s: unknown members are noted at %q, want %q", name, noted, c.note)
		}
	}
}

func TestUnknownMembersOfKnownPartsAreNoted(t *testing.T) {
	src := string(testdata(t, corpus+"/baseline-capacity-1.json"))
	for from, to := range map[string]string{
		`"temperature": {`:       "/sampling/temperature/x",
		`"sampling": {`:          "/sampling/x",
		`"serve_flags": {`:       "/serve_flags/x",
		`"metric_population": {`: "/metric_population/x",
		`"request_timings": [{`:  "/request_timings/0/x",
		`"request_canary": {`:    "/failures/0/request_canary/x",
		`"controlled_output": {`: "/failures/0/controlled_output/x",
		`"response_timing": {`:   "/failures/0/response_timing/x",
		`"response_metadata": {`: "/failures/0/response_metadata/x",
		`"failures": [{`:         "/failures/0/x",
		`{`:                      "/x",
	} {
		if at, ok := strings.CutSuffix(from, "[{"); ok { // the first of a list
			i := strings.Index(src, at+"[")
			from = src[i : i+strings.IndexByte(src[i:], '{')+1]
		}
		mutant := strings.Replace(src, from, from+`"x": 1, `, 1)
		r := CheckReader(to, strings.NewReader(mutant), Options{})
		var noted []string
		for _, n := range r.Notes {
			if n.Rule == "shape.unknown-member" {
				noted = append(noted, n.Pointer)
			}
		}
		if mutant == src || strings.Join(noted, " ") != to {
			t.Errorf("want one note, at %s, got %v: %s", to, noted, describe(r))
		}
	}
	usage := strings.Replace(src, `"usage": {`, `"usage": {"prompt_tokens_details": null, `, 1)
	if r := CheckReader("usage", strings.NewReader(usage), Options{}); usage == src || hasNote(r, "shape.unknown-member") {
		t.Errorf("usage is kept as the endpoint sent it, and is noted: %s", describe(r))
	}
	many := strings.ReplaceAll(src, `"time_to_first_output_ms":`, `"queue_ms": 1.5, "time_to_first_output_ms":`)
	r := CheckReader("many", strings.NewReader(many), Options{})
	if text := describe(r); !strings.Contains(text, "/request_timings/0/queue_ms [shape.unknown-member] no shape of this kind has it; it was not checked, nor were 1 more of the name") || strings.Count(text, "queue_ms") != 2 {
		t.Errorf("want one note for rows and one for the answers of failures: %s", text)
	}
}

// A rate of chunks stands for one of tokens, in every shape.
func TestChunkRatesStandForUnknownTokens(t *testing.T) {
	for file, rule := range map[string]string{"v4-2-of-3-warm": "metrics.value", "v3-1-of-12": "metrics.value", "v3-0-of-1": "metrics.value", "v2-c32-no-rows": "metrics.chunk-rate"} {
		src := testdata(t, corpus+"/"+file+".json")
		mutant := bytes.Replace(src, []byte(`"content_chunks_s": null`), []byte(`"content_chunks_s": 3.0`), 1)
		r := CheckReader(file, bytes.NewReader(mutant), Options{})
		if bytes.Equal(mutant, src) || len(r.Problems) != 1 || !hasProblem(r, "/metrics/content_chunks_s", rule) {
			t.Errorf("want one problem, of %s: %s", rule, describe(r))
		}
	}
	unknown := strings.NewReplacer(`"content_chunks_s": null`, `"content_chunks_s": 3.0`, `"output_tokens": 3942`, `"output_tokens": null`, `"usage": 64`, `"content_chunks": 64`)
	src := unknown.Replace(string(testdata(t, corpus+"/v2-c32-no-rows.json")))
	if r := CheckReader("unknown", strings.NewReader(src), Options{}); !r.OK {
		t.Errorf("a rate of chunks where no token is known: %s", describe(r))
	}
}

func TestProblemsGiveStoredAndComputedValues(t *testing.T) {
	r := CheckReader("x", bytes.NewReader(seed(t, `"ttft_p50_ms": 19149.811200913973`, `"ttft_p50_ms": 19149.90`)), Options{})
	if len(r.Problems) != 1 {
		t.Fatal(describe(r))
	}
	p := r.Problems[0]
	if p.Pointer != "/metrics/ttft_p50_ms" || string(p.Stored) != "19149.90" || string(p.Computed) != "19149.811200913973" {
		t.Errorf("got %+v, want stored 19149.90 as written and computed 19149.811200913973", p)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"file", "kind", "shape", "ok", "status", "problems", "notes", "recomputed"} {
		if _, ok := doc[key]; !ok {
			t.Errorf("the report lacks %s", key)
		}
	}
	if len(doc) != 8 {
		t.Errorf("the report has %d members, want 8: %s", len(doc), text)
	}
}

func TestDerivedSummaryMustCopyDigitByDigit(t *testing.T) {
	src := testdata(t, corpus+"/glm-capacity-c4-16word-final-summary.json")
	source := filepath.Join(corpus, "glm-capacity-c4-16word-final.json")
	doc, err := jsontree.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range scalars(doc, "") {
		if p.pointer == "/cache_caveat" || p.pointer == "/p99_interpretation" || p.pointer == "/source_artifact" {
			continue // words of its own; where the source is, was said
		}
		for _, text := range others(p.v) {
			r := CheckReader("mutant", bytes.NewReader(splice(src, p.v, text)), Options{Source: source})
			if r.OK {
				t.Errorf("not caught: %s from %s to %s", p.pointer, p.v.Raw(), text)
			}
			repeatsWhatIsStored(t, splice(src, p.v, text), r)
		}
	}
	for name, c := range map[string]struct{ from, to, pointer, rule string }{
		"counts":       {`"completed": 100`, `"completed": 99`, "/completion/requests", "counts.sum"},
		"eligible":     {`"performance_eligible": true`, `"performance_eligible": false`, "/completion/performance_eligible", "counts.eligible"},
		"distribution": {`"32768": 100`, `"32768": 99`, "/workload/context_distribution", "workload.distribution"},
		"sums wrap":    {`"32768": 100`, `"32768": 9223372036854775807, "1": 9223372036854775807, "2": 102`, "/workload/context_distribution", "workload.distribution"},
	} {
		mutant := bytes.Replace(src, []byte(c.from), []byte(c.to), 1)
		r := CheckReader(name, bytes.NewReader(mutant), Options{}) // no source in reach
		if bytes.Equal(mutant, src) || !hasProblem(r, c.pointer, c.rule) {
			t.Errorf("%s: want %s at %s: %s", name, c.rule, c.pointer, describe(r))
		}
	}
	wrong := filepath.Join(corpus, "glm-capacity-c4-16word-scout.json")
	if r := CheckReader("summary", bytes.NewReader(src), Options{Source: wrong}); r.OK || !hasProblem(r, "/exact_metrics/ttft_p50_ms", "derived.copy") {
		t.Errorf("against another source: %s", describe(r))
	}
	stamped := bytes.Replace(src, []byte(`"source_schema"`), []byte(`"source_sha256": "`+strings.Repeat("0", 64)+`", "source_schema"`), 1)
	if r := CheckReader("summary", bytes.NewReader(stamped), Options{Source: source}); !hasProblem(r, "/source_sha256", "derived.digest") {
		t.Errorf("a wrong digest: %s", describe(r))
	}
	if r := CheckReader("summary", bytes.NewReader(src), Options{Source: "absent.json"}); !hasProblem(r, "/source_artifact", "derived.source") {
		t.Errorf("a source that is not there: %s", describe(r))
	}
}

// An object is a value like another; one too long to repeat is said to be.
func TestProblemsRepeatStoredObjects(t *testing.T) {
	src := testdata(t, corpus+"/glm-capacity-c4-16word-final-summary.json")
	source := Options{Source: filepath.Join(corpus, "glm-capacity-c4-16word-final.json")}
	for name, c := range map[string]struct{ from, to, pointer, stored string }{
		"small": {`"32768": 100`, `"32768": 99`, "/workload/context_distribution", `{"32768":99}`},
		"long":  {`"clock": "`, `"clock": "` + strings.Repeat("x", maxStored), "/timing/timing_methodology", "null"},
	} {
		mutant := bytes.Replace(src, []byte(c.from), []byte(c.to), 1)
		r := CheckReader(name, bytes.NewReader(mutant), source)
		repeatsWhatIsStored(t, mutant, r)
		i := slices.IndexFunc(r.Problems, func(p Problem) bool { return p.Pointer == c.pointer && p.Rule == "derived.copy" })
		if i < 0 || string(r.Problems[i].Stored) != c.stored {
			t.Errorf("%s: want stored %s at %s, got %s", name, c.stored, c.pointer, describe(r))
		}
	}
}

// With a run id of their own content, so that nothing else gives them away.
func TestServingCellRules(t *testing.T) {
	src := testdata(t, seeds+"/serving-cell-record.json")
	for name, c := range map[string]struct{ from, to, pointer, rule string }{
		"a negative throughput":     {`"value": 21.182677917950876`, `"value": -21.182677917950876`, "/metrics/0/value", "metrics.sign"},
		"a negative first output":   {`"value": 2563.1885`, `"value": -5.0`, "/metrics/1/value", "metrics.sign"},
		"no duration of the batch":  {`"value": 37.15299845696427`, `"value": null`, "/metrics/0/value", "metrics.incomplete"},
		"a duration of nothing":     {`"value": 37.15299845696427`, `"value": 0.0`, "/metrics/0/value", "metrics.incomplete"},
		"no input tokens":           {"\"actual_input_tokens_max\": 3735,\n    \"actual_input_tokens_min\": 3704", "\"actual_input_tokens_max\": null,\n    \"actual_input_tokens_min\": null", "/metrics/0/value", "metrics.incomplete"},
		"verified, without name":    {`"revision": "eb9eb208eb0d988989d07a6a12d0fdeb5f52574a"`, `"revision": ""`, "/deployment/weights_verified", "deployment.verified"},
		"verified, without any":     {`"revision": "eb9eb208eb0d988989d07a6a12d0fdeb5f52574a"`, `"revision": null`, "/deployment/weights_verified", "deployment.verified"},
		"outcomes that do not sort": {"\"fail\": 2,\n      \"pass\": 6", `"pass": 6, "fail": 2`, "/counts/outcomes", "counts.order"},
		"a count of none":           {`"fail": 2`, `"error": 0, "fail": 2`, "/counts/outcomes/error", "schema.minimum"},
	} {
		mutant := bytes.Replace(src, []byte(c.from), []byte(c.to), 1)
		if bytes.Equal(mutant, src) {
			t.Fatalf("%s: %q is not in the seed", name, c.from)
		}
		mutant = remint(mutant)
		r := CheckReader(name, bytes.NewReader(mutant), Options{})
		repeatsWhatIsStored(t, mutant, r)
		if !hasProblem(r, c.pointer, c.rule) || hasProblem(r, "/run_id", "run-id.content") {
			t.Errorf("%s: want %s at %s, got %s", name, c.rule, c.pointer, describe(r))
		}
	}
}

func TestLiveRunRules(t *testing.T) {
	src := string(testdata(t, seeds+"/live-http-run.json"))
	for name, c := range map[string]struct{ from, to, pointer, rule string }{
		"goodput half a unit off": {`"ttft_goodput_rps": 0.875`, `"ttft_goodput_rps": 0.876`, "/ttft_goodput_rps", "live.goodput"},
		"no objective":            {`"ttft_slo_ms": 500`, `"ttft_slo_ms": null`, "/ttft_goodput_rps", "live.goodput"},
		"a stricter objective":    {`"ttft_slo_ms": 500`, `"ttft_slo_ms": 286`, "/ttft_goodput_rps", "live.goodput"},
		"an event more":           {`"content_events": 24`, `"content_events": 25`, "/requests/0/content_events", "live.events"},
		"ends before its events":  {`"e2e_ms": 1163.249`, `"e2e_ms": 1160.249`, "/requests/0/e2e_ms", "live.order"},
		"outlasts the run":        {`"duration_s": 3.428`, `"duration_s": 1.1`, "/requests/0/e2e_ms", "live.duration"},
		"shed beyond the rows":    {`"client_shed_requests": 0`, `"client_shed_requests": 100`, "/client_shed_requests", "live.shed"},
		"offered":                 {`"offered_requests": 6`, `"offered_requests": 7`, "/offered_requests", "live.offered"},
		"a ttft of a failure":     {`"error": "HTTP`, `"ttft_ms": 1.0, "error": "HTTP`, "/requests/1/ttft_ms", "schema.additionalProperties"},
		"shed is not stated":      {`"client_shed_requests": 0,`, ``, "/client_shed_requests", "schema.required"},
	} {
		mutant := strings.Replace(src, c.from, c.to, 1)
		if mutant == src {
			t.Fatalf("%s: %q is not in the seed", name, c.from)
		}
		if r := CheckReader(name, strings.NewReader(mutant), Options{}); !hasProblem(r, c.pointer, c.rule) {
			t.Errorf("%s: want %s at %s, got %s", name, c.rule, c.pointer, describe(r))
		}
	}
	shed := strings.Replace(strings.Replace(src, `"client_shed_requests": 0`, `"client_shed_requests": 2`, 1), `"offered_requests": 6`, `"offered_requests": 8`, 1)
	inRows := strings.Replace(src, `"client_shed_requests": 0`, `"client_shed_requests": 1`, 1)
	huge := strings.Replace(shed, `"client_shed_requests": 2`, `"client_shed_requests": 9223372036854775807`, 1)
	for name, c := range map[string]struct {
		src, offered string
		ok           bool
	}{
		"no request was shed":         {src, "6", true},
		"shed requests without rows":  {shed, "8", true},
		"shed requests among failed":  {inRows, "6", true},
		"more than an int64 can hold": {huge, "9223372036854775813", false},
	} {
		r := CheckReader(name, strings.NewReader(c.src), Options{})
		if r.OK != c.ok || !strings.Contains(string(r.Recomputed), `"offered_requests": `+c.offered+",") {
			t.Errorf("%s: want ok %v and %s offered, got %s, recomputed %s", name, c.ok, c.offered, describe(r), r.Recomputed)
		}
	}
}

func TestRunIDVerifiesAndMints(t *testing.T) {
	src := testdata(t, seeds+"/serving-cell-record.json")
	got, err := MintRunID(src, "glm53-flash-stock-serving-4k-c1-pilot")
	if want := "glm53-flash-stock-serving-4k-c1-pilot-119f8a2564a2"; err != nil || got != want {
		t.Errorf("MintRunID = %q, %v, want %q", got, err, want)
	}
	d, err := runIDDigest(members(mustParse(t, src)), "glm53-flash-stock-serving-4k-c1-pilot")
	if want := "119f8a2564a272bc786521f42c043c16f4496d12f88c72e377d4df1a127dd0c5"; err != nil || d.String() != want {
		t.Errorf("full digest %s, %v, want %s", d, err, want)
	}
	if _, err := MintRunID(src, strings.Repeat("x", 150)); err == nil {
		t.Error("an id of more than 160 characters gave no error")
	}
	if _, err := MintRunID(src, "-x"); err == nil {
		t.Error("an id that begins with a dash gave no error")
	}
}

func mustParse(t *testing.T, src []byte) jsontree.Value {
	t.Helper()
	v, err := jsontree.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRecogniseGoesByContent(t *testing.T) {
	for path, want := range map[string]string{
		seeds + "/benchmark-v1.json": "anvil-serving.benchmark/v1", seeds + "/serving-cell-record.json": "serving-cell-v1",
		seeds + "/live-http-run.json": "anvil.live-http-run/v1", seeds + "/derived-capacity-summary-v1.json": "anvil-serving.derived-capacity-summary/v1",
		corpus + "/pre-protocol-flattened-text.json": "anvil-serving.benchmark/v1",
	} {
		src := testdata(t, path)
		for _, label := range []string{`"schema"`, `"no-schema"`} {
			got, err := Recognise(bytes.NewReader(bytes.Replace(src, []byte(`"schema"`), []byte(label), 1)))
			if err != nil || string(got) != want {
				t.Errorf("%s with %s: %q, %v, want %q", filepath.Base(path), label, got, err, want)
			}
		}
	}
	if got, err := Recognise(bytes.NewReader(testdata(t, corpus+"/alien-same-schema.json"))); err == nil || !strings.Contains(err.Error(), "base_url, completed, max_context_tokens, max_tokens, requests") {
		t.Errorf("the alien: %q, %v, want an error that names what it lacks", got, err)
	}
	if got, err := Recognise(bytes.NewReader(writeAttempts(t))); err != nil || got != AttemptsSchema {
		t.Errorf("attempts: %q, %v", got, err)
	}
	if got, err := Recognise(strings.NewReader(`{"schema": "anvil.measurement/v1"}`)); err != nil || got != MeasurementSchema {
		t.Errorf("measurement: %q, %v", got, err)
	}
}

// FuzzCheck: whatever the bytes, a report that can be printed and no panic.
func FuzzCheck(f *testing.F) {
	for _, path := range []string{seeds + "/benchmark-v1.json", corpus + "/baseline-capacity-1.json", corpus + "/v3-1-of-12.json", corpus + "/alien-same-schema.json", seeds + "/serving-cell-record.json", seeds + "/live-http-run.json", seeds + "/derived-capacity-summary-v1.json"} {
		f.Add(testdata(f, path))
	}
	f.Add(writeAttempts(f, sampleAttempt(0)))
	f.Add(plain(f, writeAttempts(f, sampleAttempt(0), sampleAttempt(1))))
	f.Add([]byte(`{"schema":"anvil.grades/v1"}` + "\n" + `{"index":0,"verdict":"pass"}` + "\n" + `{"footer":true,"lines":1}`))
	f.Add([]byte(`[{"code":"a.b"}]`))
	f.Fuzz(func(t *testing.T, src []byte) {
		r := CheckReader("fuzz", bytes.NewReader(src), Options{})
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
		if r.OK != (len(r.Problems) == 0) || r.OK == (r.Status == StatusProblems) {
			t.Fatalf("ok, status and problems disagree: %+v", r)
		}
		if reader, err := NewAttemptsReader(bytes.NewReader(src)); err == nil {
			for _, err := range reader.All() {
				_ = err
			}
			reader.Close()
		}
	})
}
