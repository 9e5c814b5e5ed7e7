package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"anvil/pipeline/prov"
)

// differences compares what an earlier attempt was told with what n is told
// now: everything that enters the key. Paths of the configuration are written
// as the plan writes them, "with.load.concurrency"; files that "with" names
// stand under their key with their digests.
func differences(before *prov.Result, n *node, now *bound, salt string) []Difference {
	var out []Difference
	if before.Contract != n.spec.Contract {
		out = append(out, Difference{"contract", before.Contract, n.spec.Contract})
	}
	if before.Salt != salt {
		out = append(out, Difference{"salt", before.Salt, salt})
	}
	out = diffJSON(out, "with", parse(before.Config), parse(n.KeyConfig))
	return diffInputs(out, before.Inputs, now.inputs)
}

// reasonOf names the first kind of difference.
func reasonOf(diffs []Difference) Reason {
	for _, kind := range []struct {
		reason Reason
		is     func(path string) bool
	}{
		{ContractChanged, func(p string) bool { return p == "contract" }},
		{SaltChanged, func(p string) bool { return p == "salt" }},
		{ConfigChanged, func(p string) bool { return strings.HasPrefix(p, "with.") && !strings.HasSuffix(p, ".sha256") }},
		{InputChanged, func(p string) bool { return !strings.HasSuffix(p, ".limitations") }},
		{LimitationsChanged, func(string) bool { return true }},
	} {
		for _, d := range diffs {
			if kind.is(d.Path) {
				return kind.reason
			}
		}
	}
	return First
}

func parse(raw json.RawMessage) any {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return string(raw)
	}
	return v
}

// diffJSON appends one Difference for each scalar, list item or whole object
// that stands on one side alone or differs.
func diffJSON(out []Difference, path string, before, after any) []Difference {
	if b, ok := before.(map[string]any); ok {
		if a, ok := after.(map[string]any); ok {
			all := maps.Clone(b)
			maps.Copy(all, a)
			for _, k := range slices.Sorted(maps.Keys(all)) {
				out = diffJSON(out, path+"."+k, b[k], a[k])
			}
			return out
		}
	}
	if b, ok := before.([]any); ok {
		if a, ok := after.([]any); ok {
			for i := range max(len(a), len(b)) {
				out = diffJSON(out, fmt.Sprintf("%s[%d]", path, i), at(b, i), at(a, i))
			}
			return out
		}
	}
	if !same(before, after) {
		out = append(out, Difference{path, before, after})
	}
	return out
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// same compares JSON values; numbers as they enter the key, where 1 and 1.0 are one.
func same(a, b any) bool {
	if na, ok := a.(json.Number); ok {
		if nb, ok := b.(json.Number); ok && na != nb {
			fa, errA := na.Float64()
			fb, errB := nb.Float64()
			return errA == nil && errB == nil && fa == fb
		}
	}
	ra, errA := json.Marshal(a)
	rb, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(ra, rb)
}

func diffInputs(out []Difference, before, after []prov.Input) []Difference {
	b, a := byPort(before), byPort(after)
	all := maps.Clone(b)
	maps.Copy(all, a)
	for _, port := range slices.Sorted(maps.Keys(all)) {
		for i := range max(len(b[port]), len(a[port])) {
			path := inputPath(port, i, max(len(b[port]), len(a[port])))
			out = diffInput(out, path, inputAt(b[port], i), inputAt(a[port], i))
		}
	}
	return out
}

// inputPath writes the input "with./dataset" as the key "with.dataset", and
// numbers the artifacts of a port only where there are several.
func inputPath(port string, i, n int) string {
	if pointer, ok := strings.CutPrefix(port, "with./"); ok {
		return "with" + dotted(pointer)
	}
	if n == 1 {
		return "inputs." + port
	}
	return fmt.Sprintf("inputs.%s[%d]", port, i)
}

// dotted writes the pointer "graders/0/schema" as ".graders[0].schema".
func dotted(pointer string) string {
	var b strings.Builder
	for token := range strings.SplitSeq(pointer, "/") {
		if strings.Trim(token, "0123456789") == "" {
			b.WriteString("[" + token + "]")
		} else {
			b.WriteString("." + token)
		}
	}
	return b.String()
}

func diffInput(out []Difference, path string, before, after *prov.Input) []Difference {
	switch {
	case before == nil:
		return append(out, Difference{path + ".sha256", nil, after.SHA256.String()})
	case after == nil:
		return append(out, Difference{path + ".sha256", before.SHA256.String(), nil})
	}
	if before.SHA256 != after.SHA256 {
		out = append(out, Difference{path + ".sha256", before.SHA256.String(), after.SHA256.String()})
	}
	if before.Schema != after.Schema {
		out = append(out, Difference{path + ".schema", string(before.Schema), string(after.Schema)})
	}
	if before.Limitations != after.Limitations {
		out = append(out, Difference{path + ".limitations", before.Limitations.String(), after.Limitations.String()})
	}
	return out
}

func byPort(inputs []prov.Input) map[string][]prov.Input {
	out := map[string][]prov.Input{}
	for _, in := range inputs {
		out[in.Port] = append(out[in.Port], in)
	}
	return out
}

func inputAt(list []prov.Input, i int) *prov.Input {
	if i < len(list) {
		return &list[i]
	}
	return nil
}

// showValue writes one side of a difference for people.
func showValue(v any) string {
	if v == nil {
		return "(none)"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	const most = 120 // bytes; a whole object may stand on one side alone
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}
