package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anvil/stages/internal/jsontree"
)

const (
	corpus = "../../testdata/corpus"
	seeds  = "../../testdata/seeds"
)

func testdata(tb testing.TB, path string) []byte {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func describe(r Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", filepath.Base(r.File), r.Status)
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "\n  %s [%s] %s (stored %s, computed %s)", p.Pointer, p.Rule, p.Text, p.Stored, p.Computed)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\n  note %s [%s] %s", n.Pointer, n.Rule, n.Text)
	}
	return b.String()
}

// The table of corpus/index.md: what a correct reader recomputes. The last
// digit given is the last compared; "*" is stored and has no witness.
func TestCorpusRecomputes(t *testing.T) {
	const null = "null"
	for _, c := range []struct {
		file, shape, status                     string
		requests, completed, failed             int
		p50, p95, p99, tpot, tokens, throughput string
	}{
		{"glm-capacity-16word-probe", "newest", "ok", 1, 1, 0, "2627.842", "2627.842", "2627.842", "13.4389", "168", "56.655661"},
		{"glm-capacity-c4-16word-scout", "newest", "ok", 8, 8, 0, "21523.919", "38919.218", "38919.218", "96.7189", "1181", "24.663643"},
		{"glm-capacity-c4-16word-final", "newest", "ok", 100, 100, 0, "21977.725", "31950.975", "33826.245", "132.3876", "13530", "21.765362"},
		{"baseline-capacity-1", "newest", "ok", 4, 2, 2, "20848.072", "21014.168", "21014.168", "22.0191", "1318", null},
		{"v3-ab-default-128k-r1", "capacity-v3", "ok", 2, 2, 0, "11114.933", "11197.303", "11197.303", "5.7050", "119", "5.177547"},
		{"v3-ab-tuned-128k-r1", "capacity-v3", "ok", 2, 2, 0, "10879.532", "10958.595", "10958.595", "5.7438", "118", "5.242243"},
		{"v3-ab-default-8k-c16-r1", "capacity-v3", "ok", 32, 32, 0, "1049.119", "3918.935", "4000.942", "49.0835", "1982", "214.863225"},
		{"v3-burst-named-c1", "capacity-v3", "ok", 4, 4, 0, "6117.235", "12180.281", "12180.281", "14.8501", "219", "16.641477"},
		{"v3-reasoning-conflated-probe", "capacity-v3", "ok", 3, 3, 0, "26676.778", "41543.830", "41543.830", "6.9555", "1066", "10.495332"},
		{"v3-1-of-12", "capacity-v3", "ok", 12, 1, 11, "17616.372", "17616.372", "17616.372", "14.2510", "204", "0.684570"},
		{"v4-11-of-12", "capacity-v4-reasoning", "ok", 12, 11, 1, "34647.914", "84408.051", "84408.051", "86.4485", "4898", "8.980381"},
		{"v4-2-of-3-warm", "capacity-v4-reasoning", "ok", 3, 2, 1, "3215.108", "4069.841", "4069.841", "15.5473", "494", "12.279463"},
		{"v4-3-of-3-warm", "capacity-v4-reasoning", "ok", 3, 3, 0, "3533.825", "3830.975", "3830.975", "15.3706", "604", "59.635629"},
		{"v4-cold-first-request", "capacity-v4-reasoning", "ok", 3, 3, 0, "1778.923", "2362.943", "2362.943", "8.7330", "495", "86.222791"},
		{"v3-0-of-1", "capacity-v3", "ok", 1, 0, 1, null, null, null, null, "0", "0.000000"},
		{"v4-prefix-cold", "capacity-v4-reasoning", "ok", 1, 1, 0, "9944.867", "9944.867", "9944.867", "7.0531", "151", "14.965498"},
		{"v4-prefix-replay", "capacity-v4-reasoning", "ok", 1, 1, 0, "2460.063", "2460.063", "2460.063", "8.7273", "245", "92.657943"},
		{"v4-4-of-6-eviction", "capacity-v4-reasoning", "ok", 6, 4, 2, "19542.320", "22046.911", "22046.911", "8.4210", "1231", "9.449013"},
		{"v4-c16", "capacity-v4-reasoning", "ok", 16, 16, 0, "3627.593", "6036.375", "6036.375", "14.8025", "3179", "513.539645"},
		{"v3-first-output-is-ttft", "capacity-v3", "ok", 3, 3, 0, "10390.474", "10718.491", "10718.491", "14.3344", "160", "4.741920"},
	} {
		r := CheckFile(filepath.Join(corpus, c.file+".json"), Options{})
		if r.Kind == nil || *r.Kind != BenchmarkSchema || r.Shape == nil || *r.Shape != c.shape || string(r.Status) != c.status {
			t.Errorf("%s, want %s and shape %s", describe(r), c.status, c.shape)
			continue
		}
		var got struct {
			Requests, Completed, Failed int
			Metrics                     map[string]any
		}
		if err := json.Unmarshal(r.Recomputed, &got); err != nil {
			t.Fatalf("%s: %v", c.file, err)
		}
		if got.Requests != c.requests || got.Completed != c.completed || got.Failed != c.failed {
			t.Errorf("%s: recomputed %d/%d/%d, want %d/%d/%d", c.file, got.Requests, got.Completed, got.Failed, c.requests, c.completed, c.failed)
		}
		for name, want := range map[string]string{
			"ttft_p50_ms": c.p50, "ttft_p95_ms": c.p95, "ttft_p99_ms": c.p99, "tpot_mean_ms": c.tpot, "output_tokens": c.tokens, "throughput_tok_s": c.throughput,
		} {
			v, ok := got.Metrics[name]
			if !ok {
				t.Errorf("%s: %s is not recomputed", c.file, name)
			}
			text := null
			if f, ok := v.(float64); ok {
				_, decimals, _ := strings.Cut(want, ".")
				text = fmt.Sprintf("%.*f", len(decimals), f)
			}
			if text != want {
				t.Errorf("%s: %s recomputed as %s (%v), want %s", c.file, name, text, v, want)
			}
		}
	}
}

func TestSeedsHold(t *testing.T) {
	for file, kind := range map[string]string{
		"benchmark-v1.json": "anvil-serving.benchmark/v1", "serving-cell-record.json": "serving-cell-v1", "live-http-run.json": "anvil.live-http-run/v1",
	} {
		r := CheckFile(filepath.Join(seeds, file), Options{})
		if !r.OK || r.Status != StatusOK || r.Kind == nil || string(*r.Kind) != kind {
			t.Errorf("%s, want ok and kind %s", describe(r), kind)
		}
	}
	r := CheckFile(filepath.Join(corpus, "glm-capacity-c4-16word-final-summary.json"), Options{})
	if r.Status != StatusOK {
		t.Errorf("%s, want ok: its source lies beside it", describe(r))
	}
	seed := filepath.Join(seeds, "derived-capacity-summary-v1.json")
	if r := CheckFile(seed, Options{}); r.Status != StatusUnverified || !r.OK {
		t.Errorf("%s, want unverified: its source is elsewhere", describe(r))
	}
	if r := CheckFile(seed, Options{Source: filepath.Join(corpus, "glm-capacity-c4-16word-final.json")}); r.Status != StatusOK {
		t.Errorf("%s, want ok against the source that was named", describe(r))
	}
	for _, name := range []string{"pre-protocol-c128-a", "pre-protocol-c128-b", "pre-protocol-flattened-text", "pre-protocol-warm-cache", "v2-c32-no-rows"} {
		if r := CheckFile(filepath.Join(corpus, name+".json"), Options{}); r.Status != StatusUnverified || !r.OK {
			t.Errorf("%s, want unverified: there are no rows", describe(r))
		}
	}
}

// Rows are what the figures stand on, in every shape: a record that states none
// is no worse than its word (contracts.md 5).
func TestRecordsWithoutRowsAreUnverified(t *testing.T) {
	without := func(path, from, to string) []byte {
		src := testdata(t, path)
		rows := mustParse(t, src).Get("request_timings")
		if !rows.Is(jsontree.Array) {
			t.Fatalf("%s has no rows", path)
		}
		src = bytes.Replace(splice(src, rows, "0"), []byte(`"request_timings": 0,`), nil, 1)
		out := bytes.Replace(src, []byte(from), []byte(to), 1)
		if from != "" && bytes.Equal(out, src) {
			t.Fatalf("%q is not in %s", from, path)
		}
		return out
	}
	for path, shape := range map[string]string{
		seeds + "/benchmark-v1.json": "newest", corpus + "/baseline-capacity-1.json": "newest", corpus + "/v4-2-of-3-warm.json": "capacity-v4-reasoning",
		corpus + "/v3-first-output-is-ttft.json": "capacity-v3", corpus + "/v3-1-of-12.json": "capacity-v3",
	} {
		r := CheckReader(path, bytes.NewReader(without(path, "", "")), Options{})
		if !r.OK || r.Status != StatusUnverified || r.Shape == nil || *r.Shape != shape {
			t.Errorf("%s, want unverified and shape %s", describe(r), shape)
		}
		if Exit([]Report{r}, false) != 0 || Exit([]Report{r}, true) != 5 {
			t.Errorf("%s: exit %d and strict %d, want 0 and 5", path, Exit([]Report{r}, false), Exit([]Report{r}, true))
		}
		var got struct {
			Metrics  map[string]any
			Requests *int
			Received *int  `json:"responses_received"`
			Eligible *bool `json:"performance_eligible"`
		}
		if err := json.Unmarshal(r.Recomputed, &got); err != nil || len(got.Metrics) > 0 || got.Requests != nil || got.Received != nil || got.Eligible != nil {
			t.Errorf("%s: recomputed from no rows: %s, %v", path, r.Recomputed, err)
		}
	}
	failed, whole := corpus+"/baseline-capacity-1.json", seeds+"/benchmark-v1.json"
	for name, c := range map[string]struct{ path, from, to, pointer, rule string }{
		"an answer more":        {failed, `"responses_received": 4`, `"responses_received": 3`, "/responses_received", "counts.responses-received"},
		"eligible all the same": {failed, "\n  \"performance_eligible\": false", "\n  \"performance_eligible\": true", "/performance_eligible", "counts.eligible"},
		"not eligible":          {whole, "\n  \"performance_eligible\": true", "\n  \"performance_eligible\": false", "/performance_eligible", "counts.eligible"},
		"completed":             {whole, `"completed": 4`, `"completed": 3`, "/requests", "counts.sum"},
		"null":                  {whole, `"requests": 4`, `"request_timings": null, "requests": 4`, "/request_timings", "schema.type"},
	} {
		if r := CheckReader(name, bytes.NewReader(without(c.path, c.from, c.to)), Options{}); !hasProblem(r, c.pointer, c.rule) {
			t.Errorf("%s: want %s at %s, got %s", name, c.rule, c.pointer, describe(r))
		}
	}
}

func TestAlienIsRejectedWithAllThatItLacks(t *testing.T) {
	r := CheckFile(filepath.Join(corpus, "alien-same-schema.json"), Options{})
	if r.OK || r.Shape != nil {
		t.Errorf("%s, want problems and no shape", describe(r))
	}
	for _, name := range []string{
		"base_url", "completed", "max_context_tokens", "max_tokens", "requests", "metrics/ttft_p50_ms", "metrics/ttft_p95_ms", "metrics/e2e_p50_ms",
		"metrics/e2e_p95_ms", "metrics/output_tokens", "metrics/prefix_cache_hit_avg",
	} {
		if !hasProblem(r, "/"+name, "schema.required") {
			t.Errorf("/%s is missing and not named: %s", name, describe(r))
		}
	}
}

func hasProblem(r Report, pointer, rule string) bool {
	for _, p := range r.Problems {
		if p.Pointer == pointer && p.Rule == rule {
			return true
		}
	}
	return false
}
