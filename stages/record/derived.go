package record

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"anvil/pipeline/digest"
	"anvil/schemas"
	"anvil/stages/internal/jsontree"
)

// DerivedSummarySchema is the id of summaries that copy figures of a benchmark
// record.
const DerivedSummarySchema schemas.ID = "anvil-serving.derived-capacity-summary/v1"

var derivedMembers = []string{
	"schema", "source_artifact", "source_schema", "measurement_protocol", "completion", "workload", "timing", "exact_metrics",
	"p99_interpretation", "cache_caveat",
}

// A copiedField is a member of the summary and where its source has it.
type copiedField struct{ group, name, from string }

// derivedFields lists what a summary copies, in its order.
func derivedFields() []copiedField {
	var out []copiedField
	add := func(group, prefix string, names ...string) {
		for _, n := range names {
			out = append(out, copiedField{group, n, prefix + n})
		}
	}
	add("completion", "", "requests", "completed", "failed", "responses_received", "performance_eligible")
	add("workload", "", "concurrency", "prompt_cache_mode", "response_words", "max_tokens", "request_canaries", "context_distribution", "context_seed", "shared_prefix_tokens")
	add("timing", "", "wall_clock_ms", "timestamp_precision", "timing_methodology")
	add("exact_metrics", "metrics/", "throughput_tok_s", "ttft_p50_ms", "e2e_p50_ms", "ttft_mean_ms", "e2e_mean_ms", "tpot_mean_ms")
	return out
}

func checkDerived(c *checker, doc jsontree.Value) {
	c.conforms(DerivedSummarySchema, doc)
	c.noTexts(doc)
	name := doc.Get("source_artifact")
	bare := name.Str() != "" && name.Str() != "." && name.Str() != ".." && !strings.ContainsAny(name.Str(), `/\`)
	c.holds(bare || !name.Is(jsontree.String), "/source_artifact", "derived.bare-name", name, nil, "want a bare file name")
	if !doc.Get("source_sha256").Exists() {
		c.note("/source_artifact", "derived.no-digest", "the summary names its source by file name alone; new ones carry source_sha256")
	}
	c.checkCompletion(doc)
	path := c.options.Source
	if path == "" && bare && c.dir != "" {
		path = filepath.Join(c.dir, name.Str())
		if _, err := os.Stat(path); err != nil {
			path = ""
		}
	}
	if path == "" {
		c.unverified = true
		c.note("/source_artifact", "derived.source-absent", "the source does not lie beside the summary: nothing witnesses its figures")
		return
	}
	c.checkCopies(doc, path)
}

// checkCompletion holds without the source: the summary repeats enough of it.
func (c *checker) checkCompletion(doc jsontree.Value) {
	requests := doc.At("completion", "requests")
	n, ok := requests.Int()
	completed, ok1 := doc.At("completion", "completed").Int()
	failed, ok2 := doc.At("completion", "failed").Int()
	if !ok || !ok1 || !ok2 {
		return // the schema names what is no count
	}
	c.totalIs("/completion/requests", "counts.sum", requests, totalOf(completed, failed), "completed %d and failed %d do not add up to %d requests", completed, failed, n)
	c.boolIs("/completion/performance_eligible", "counts.eligible", doc.At("completion", "performance_eligible"), completed == n && failed == 0, "true exactly when every request completed")
	if sizes := doc.At("workload", "context_distribution"); sizes.Is(jsontree.Object) {
		sum := tallied(sizes)
		c.holds(sum.is(n), "/workload/context_distribution", "workload.distribution", sizes, nil, "it adds up to %v, not to %d requests", sum, n)
	}
}

// checkCopies reads the source and compares every copied field, digit by digit.
func (c *checker) checkCopies(doc jsontree.Value, path string) {
	src, source, err := readDocument(path)
	if err != nil {
		c.problem("/source_artifact", "derived.source", doc.Get("source_artifact"), nil, "source %s: %v", filepath.Base(path), err)
		c.report.Unreadable = c.options.Source != "" && !isFinding(err)
		return
	}
	k, ok := kindOf(source)
	if !ok || k.ID != BenchmarkSchema || missesCore(source) {
		c.problem("/source_artifact", "derived.source", doc.Get("source_artifact"), nil, "source %s is no %s record", filepath.Base(path), BenchmarkSchema)
		return
	}
	d := digest.FromBytes(src).String()
	c.textIs("/source_sha256", "derived.digest", doc.Get("source_sha256"), d, "the digest of the source")
	c.copied(doc.Get("measurement_protocol"), "/measurement_protocol", source.Get("measurement_protocol"))
	out := jsontree.Obj{{Name: "source_sha256", Value: d}}
	var group jsontree.Obj
	for i, f := range derivedFields() {
		twin := source.At(strings.Split(f.from, "/")...)
		c.copied(doc.At(f.group, f.name), "/"+f.group+"/"+f.name, twin)
		if twin.Exists() {
			group = append(group, jsontree.Member{Name: f.name, Value: twin})
		}
		if i+1 == len(derivedFields()) || derivedFields()[i+1].group != f.group {
			out = append(out, jsontree.Member{Name: f.group, Value: group})
			group = nil
		}
	}
	c.recomputed = out
}

func (c *checker) copied(v jsontree.Value, pointer string, twin jsontree.Value) {
	if v.Exists() && !jsontree.Equal(v, twin) {
		var computed any
		if twin.Exists() {
			computed = twin
		}
		c.problem(pointer, "derived.copy", v, computed, "not what the source has")
	}
}

// readDocument reads a JSON document from a regular file.
func readDocument(path string) ([]byte, jsontree.Value, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, jsontree.Value{}, err
	}
	defer f.Close()
	src, err := openSource(f)
	if err != nil {
		return nil, jsontree.Value{}, err
	}
	defer src.plain.Close()
	text, err := src.bytes()
	if err == nil && len(text) == 0 {
		err = errors.New("the file is empty")
	}
	if err != nil {
		return nil, jsontree.Value{}, err
	}
	doc, err := jsontree.Parse(text)
	return text, doc, err
}
