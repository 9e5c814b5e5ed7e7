package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"anvil/stages/internal/jsontree"
)

// A place is one scalar of a document.
type place struct {
	pointer string
	v       jsontree.Value
}

func scalars(v jsontree.Value, pointer string) (out []place) {
	switch v.Kind() {
	case jsontree.Object:
		for name, m := range v.Members() {
			out = append(out, scalars(m, jsontree.Child(pointer, name))...)
		}
	case jsontree.Array:
		for i, e := range v.Elems() {
			out = append(out, scalars(e, jsontree.Index(pointer, i))...)
		}
	default:
		out = append(out, place{pointer, v})
	}
	return out
}

// others are texts of other values of the same type, small and large steps.
func others(v jsontree.Value) (out []string) {
	raw := string(v.Raw())
	switch v.Kind() {
	case jsontree.Null:
		return []string{`1`, `"x"`, `true`}
	case jsontree.Bool:
		return []string{strconv.FormatBool(raw == "false")}
	case jsontree.String:
		return []string{raw[:len(raw)-1] + `x"`, `""`, `"0` + raw[1:], `null`}
	}
	if n, ok := v.Int(); ok {
		for _, m := range []int64{n + 1, n - 1, 2*n + 7, -n - 1, 0} {
			out = append(out, strconv.FormatInt(m, 10))
		}
	} else {
		f, _ := v.Float()
		for _, m := range []float64{f * (1 + 1e-6), f * (1 - 1e-6), f + 1, 2 * f, f / 2, -f, 0} {
			out = append(out, string(jsontree.AppendFloat(nil, m)))
		}
	}
	return append(slices.DeleteFunc(out, func(s string) bool { return s == raw }), "null")
}

// validOthers are values that the schema allows too and a blind change does not
// hit upon.
var validOthers = map[string][]string{
	"/configuration_fingerprint":                  {`"sha256:` + strings.Repeat("0", 64) + `"`},
	"/clock_domain_id":                            {`"host-a"`},
	"/serve_flags/thinking_mode":                  {`"enabled"`, `"disabled"`},
	"/sampling/temperature/requested":             {`0.0`},
	"/sampling/top_p/requested":                   {`0.9`},
	"/sampling/top_p/effective_request":           {`0.9`},
	"/controlled_output_policy":                   {`"observe"`},
	"/prompt_cache_mode":                          {`"shared"`},
	"/measurement_protocol":                       {`"capacity-v3"`, `"capacity-v2"`},
	"/metric_population/p99_interpretation":       {`"tail-estimate"`},
	"/request_timings/0/output_token_source":      {`"content_chunks"`},
	"/request_timings/0/controlled_output/policy": {`"observe"`},
	"/started_at":                                 {`"2026-09-17T17:21:05Z"`, `"2026-09-20T14:31:30.083421+00:00"`},
	"/finished_at":                                {`"2026-09-17T17:21:30Z"`},
	"/run_id":                                     {`"benchmark-20260917T172105Z"`},
	"/status":                                     {`"aborted"`, `"failed"`},
	"/evidence_mode":                              {`"controlled"`},
	"/cases/0/outcome":                            {`"fail"`, `"timeout"`},
	"/cases/0/primary_outcome":                    {`"unverified"`, `"fail"`},
	"/performance/cache_state":                    {`"unknown"`},
	"/performance/token_accounting":               {`"unknown"`},
	"/performance/stream_interval_basis":          {`"not_measured"`},
	"/suite_sha256":                               {`"` + strings.Repeat("0", 64) + `"`},
	"/evaluator_sha256":                           {`"` + strings.Repeat("0", 64) + `"`},
	"/deployment/source_url":                      {`"https://github.com/x/y"`},
	"/completed_at":                               {`"2026-09-20T15:32:32.769010+00:00"`},
}

func splice(src []byte, v jsontree.Value, text string) []byte {
	from := cap(src) - cap(v.Raw()) // a value is a part of its source
	return slices.Concat(src[:from], []byte(text), src[from+len(v.Raw()):])
}

// survivors are the scalars of which some other value is not caught.
func survivors(t *testing.T, src []byte, remake func([]byte) []byte) (out []string, n int) {
	t.Helper()
	doc, err := jsontree.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range scalars(doc, "") {
		n++
		for _, text := range append(others(p.v), validOthers[p.pointer]...) {
			mutant := splice(src, p.v, text)
			if remake != nil {
				mutant = remake(mutant)
			}
			r := CheckReader("mutant", bytes.NewReader(mutant), Options{})
			if len(r.Problems) == 0 {
				out = append(out, fmt.Sprintf("%s: %s to %s", p.pointer, p.v.Raw(), text))
				break
			}
			repeatsWhatIsStored(t, mutant, r)
			for _, p := range r.Problems {
				if !json.Valid(p.Stored) || !json.Valid(p.Computed) || p.Rule == "" || p.Text == "" {
					t.Fatalf("a problem that cannot be printed: %+v", p)
				}
			}
		}
	}
	return out, n
}

// repeatsWhatIsStored: a problem gives the value at its pointer, an object too.
func repeatsWhatIsStored(t *testing.T, src []byte, r Report) {
	t.Helper()
	doc, err := jsontree.Parse(src)
	if err != nil {
		return
	}
	for _, p := range r.Problems {
		v := at(doc, p.Pointer)
		want := []byte("null")
		if p.Pointer != "" && v.Exists() && len(v.Raw()) <= maxStored {
			want = compact(v.Raw())
		}
		if !bytes.Equal(p.Stored, want) {
			t.Errorf("%s [%s]: stored %s in the problem, %s in the record", p.Pointer, p.Rule, p.Stored, want)
		}
		if cut := strings.Contains(p.Text, "not repeated here"); cut != (p.Pointer != "" && len(v.Raw()) > maxStored) {
			t.Errorf("%s [%s]: a text says that its value is too long: %v", p.Pointer, p.Rule, cut)
		}
	}
}

// benchmarkSurvivors are what nothing else in the record witnesses, and why.
var benchmarkSurvivors = map[string]string{
	"/base_url":                               "declared text; names where, and is never parsed",
	"/clock_domain_id":                        "the operator's claim; nothing in the record can attest it",
	"/concurrency":                            "a limit: a higher one is as plausible (a lower one than the overlap is caught)",
	"/configuration_fingerprint":              "the operator's claim; its form alone is checked",
	"/engine":                                 "the operator's free text",
	"/finished_at_unix_ns":                    "a clock stamp may differ from the monotonic clock within the tolerance of 5 ms",
	"/gpu":                                    "the operator's free text",
	"/manifest":                               "a link to a recipe that nobody filled",
	"/max_context_tokens":                     "read from the endpoint: any window that holds prompt and answer is as plausible",
	"/max_tokens":                             "declared: the answers stayed under it",
	"/model":                                  "an alias, free text",
	"/metric_population/failure_policy":       "a definition in words",
	"/serve_flags/no_thinking":                "declared; older records show it false beside every thinking mode",
	"/serve_flags/reasoning_effort":           "declared free text",
	"/serve_flags/shared_prefix_burst":        "declared",
	"/serve_flags/thinking_mode":              "declared; a model may think unasked",
	"/sampling/temperature/requested":         "declared: asking for what is sent anyway changes nothing",
	"/sampling/temperature/effective_request": "declared: nothing in the answers shows the temperature",
	"/source_recipe":                          "a link to a recipe that nobody filled",
	"/started_at_unix_ns":                     "a clock stamp may differ from the monotonic clock within the tolerance of 5 ms",
	"/tier":                                   "a link to a recipe that nobody filled",
	"/timestamp_precision":                    "a definition in words",
	"/context_tokens":                         "null means sampled, which any distribution fits (any other number is caught)",
	"/metrics/prefix_cache_hit_avg":           "rows hold no cached tokens (a share outside 0 to 1 is caught)",
}

func TestEveryWitnessedScalarOfTheBenchmarkSeedIsChecked(t *testing.T) {
	src := testdata(t, filepath.Join(seeds, "benchmark-v1.json"))
	got, n := survivors(t, src, nil)
	t.Logf("%d of %d scalars survive some change", len(got), n)
	compareSurvivors(t, got, func(pointer string) bool {
		switch {
		case strings.HasPrefix(pointer, "/timing_methodology/"): // definitions in words
			return true
		case strings.HasSuffix(pointer, "/request_canary/observed_marker_count"): // one marker or more
			return true
		}
		return benchmarkSurvivors[pointer] != ""
	}, benchmarkSurvivors)
}

func compareSurvivors(t *testing.T, got []string, expected func(pointer string) bool, table map[string]string) {
	t.Helper()
	survived := map[string]bool{}
	for _, s := range got {
		pointer, _, _ := strings.Cut(s, ": ")
		survived[pointer] = true
		if !expected(pointer) {
			t.Errorf("not caught: %s", s)
		}
	}
	for pointer, why := range table {
		if !survived[pointer] && why != "" {
			t.Errorf("%s is listed as a survivor (%s), and every change of it is caught: take it off the list", pointer, why)
		}
	}
}

// records.md 4: of the 414 numbers and booleans of an 8-request record changing
// any one alone is caught for 396 at least.
func TestTheEightRequestRecordMeetsTheBar(t *testing.T) {
	src := testdata(t, filepath.Join(corpus, "glm-capacity-c4-16word-scout.json"))
	n, missed := 0, []string{}
	for _, p := range scalars(mustParse(t, src), "") {
		if !p.v.Is(jsontree.Number) && !p.v.Is(jsontree.Bool) {
			continue
		}
		n++
		if r := CheckReader("mutant", bytes.NewReader(splice(src, p.v, others(p.v)[0])), Options{}); r.OK {
			missed = append(missed, p.pointer)
		}
	}
	if n != 414 || n-len(missed) < 396 {
		t.Errorf("%d of %d are caught, want at least 396 of 414; missed: %s", n-len(missed), n, strings.Join(missed, " "))
	}
}

// The run id of a serving cell is the digest of all the rest: nothing survives.
func TestNoChangeOfTheServingCellSeedIsMissed(t *testing.T) {
	got, n := survivors(t, testdata(t, filepath.Join(seeds, "serving-cell-record.json")), nil)
	t.Logf("%d of %d scalars survive some change", len(got), n)
	for _, s := range got {
		t.Errorf("not caught: %s", s)
	}
}

// servingSurvivors are what only the run id witnesses: whoever mints a new one
// can state them as he likes.
var servingSurvivors = map[string]string{
	"/comparison_key":                       "declared",
	"/completed_at":                         "a later finish is as plausible",
	"/deployment/concurrency":               "configured slots, declared",
	"/deployment/context_limit":             "configured window, declared",
	"/deployment/hardware":                  "declared text",
	"/deployment/id":                        "declared text",
	"/deployment/model":                     "declared text",
	"/deployment/node_count":                "declared",
	"/deployment/profile":                   "declared text",
	"/deployment/quantization":              "declared text",
	"/deployment/revision":                  "declared text",
	"/deployment/runtime":                   "declared text",
	"/deployment/runtime_version":           "declared text",
	"/deployment/source_url":                "declared; a known host, https and no query are checked",
	"/deployment/variant":                   "declared text",
	"/deployment/weights_verified":          "declared; the evidence is elsewhere",
	"/evaluator_sha256":                     "digest of something elsewhere",
	"/evidence_mode":                        "declared",
	"/performance/actual_input_tokens_max":  "rows hold no tokens (below the minimum is caught)",
	"/performance/actual_input_tokens_min":  "rows hold no tokens (above the maximum is caught)",
	"/performance/cache_state":              "declared",
	"/performance/client_concurrency_limit": "a limit: a higher one is as plausible",
	"/performance/target_input_tokens":      "nominal, declared",
	"/performance/token_accounting":         "declared",
	"/metrics/0/samples":                    "no case holds its tokens",
	"/metrics/0/value":                      "any whole number of tokens is as plausible",
	"/metrics/1/samples":                    "no case holds its first output",
	"/metrics/1/value":                      "no case holds its first output (after the completion is caught)",
	"/metrics/2/samples":                    "no case holds its first content",
	"/metrics/2/value":                      "no case holds its first content (after the completion is caught)",
	"/metrics/5/samples":                    "no case holds its intervals",
	"/metrics/5/value":                      "no case holds its intervals",
	"/run_id":                               "the public id is declared; a new digest fits any",
	"/started_at":                           "an earlier launch is as plausible",
	"/status":                               "a cell may be called failed for reasons of its own",
	"/suite_sha256":                         "digest of something elsewhere",
	"/suite_version":                        "declared text",
}

// remint gives a changed record the run id of its new content.
func remint(src []byte) []byte {
	doc, err := jsontree.Parse(src)
	if err != nil || !doc.Get("run_id").Is(jsontree.String) {
		return src
	}
	public, ok := splitRunID(doc.Get("run_id").Str())
	id, err := MintRunID(src, public)
	if !ok || err != nil {
		return src
	}
	return splice(src, doc.Get("run_id"), `"`+id+`"`)
}

func TestWhatOnlyTheRunIDWitnesses(t *testing.T) {
	got, n := survivors(t, testdata(t, filepath.Join(seeds, "serving-cell-record.json")), remint)
	t.Logf("%d of %d scalars survive some change", len(got), n)
	compareSurvivors(t, got, func(pointer string) bool {
		for _, text := range []string{"/title", "/summary", "/label", "/definition", "/unit"} { // public texts
			if strings.HasSuffix(pointer, text) {
				return true
			}
		}
		if strings.HasPrefix(pointer, "/cases/") && strings.HasSuffix(pointer, "/duration_ms") {
			return true // median and p95 see four of the eight, and of a small change of the others the sum sees nothing
		}
		return strings.HasPrefix(pointer, "/conditions/") || strings.HasPrefix(pointer, "/limitations/") || servingSurvivors[pointer] != ""
	}, servingSurvivors)
}
