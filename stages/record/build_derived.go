package record

import (
	"errors"
	"fmt"
	"strings"

	"anvil/pipeline/digest"
	"anvil/stages/internal/jsontree"
)

// BuildDerivedSummary copies from a benchmark record of the newest shape, given
// by its bytes and its bare file name, digit by digit; it adds the digest of
// those bytes. The caveat and the text about p99 are the plan's; both are required.
func BuildDerivedSummary(source []byte, name, cacheCaveat, p99 string) ([]byte, error) {
	doc, err := jsontree.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", name, err)
	}
	if k, ok := kindOf(doc); !ok || k.ID != BenchmarkSchema {
		return nil, fmt.Errorf("source %s: no %s record", name, BenchmarkSchema)
	}
	if cacheCaveat == "" || p99 == "" {
		return nil, errors.New("derived summary: a cache caveat and a text about p99 are required")
	}
	out := jsontree.Obj{
		{Name: "schema", Value: string(DerivedSummarySchema)},
		{Name: "source_artifact", Value: name},
		{Name: "source_sha256", Value: digest.FromBytes(source).String()},
		{Name: "source_schema", Value: string(BenchmarkSchema)},
		{Name: "measurement_protocol", Value: doc.Get("measurement_protocol")},
	}
	var group jsontree.Obj
	fields := derivedFields()
	for i, f := range fields {
		v := doc.At(strings.Split(f.from, "/")...)
		if !v.Exists() {
			return nil, fmt.Errorf("source %s: /%s is missing: summaries are made of the newest shape", name, f.from)
		}
		group = append(group, jsontree.Member{Name: f.name, Value: v})
		if i+1 == len(fields) || fields[i+1].group != f.group {
			out = append(out, jsontree.Member{Name: f.group, Value: group})
			group = nil
		}
	}
	out = append(
		out,
		jsontree.Member{Name: "p99_interpretation", Value: p99},
		jsontree.Member{Name: "cache_caveat", Value: cacheCaveat},
	)
	return jsontree.Renderer{}.Render(out)
}
