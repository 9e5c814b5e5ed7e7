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
	return compare(before, n, now, salt).list()
}

// A comparison holds differences by what they are of: a path alone does not
// tell the key "sha256" of a configuration from the digest of a file.
type comparison struct {
	contract, salt, config, inputs []Difference
}

func compare(before *prov.Result, n *node, now *bound, salt string) comparison {
	var c comparison
	if before.Contract != n.spec.Contract {
		c.contract = []Difference{{"contract", before.Contract, n.spec.Contract}}
	}
	if before.Salt != salt {
		c.salt = []Difference{{"salt", before.Salt, salt}}
	}
	c.config = diffJSON(nil, "with", parse(before.Config), parse(n.KeyConfig))
	c.inputs = diffInputs(nil, before.Inputs, now.inputs)
	return c
}

func (c comparison) list() []Difference { return slices.Concat(c.contract, c.salt, c.config, c.inputs) }

// reason names the first kind of difference.
func (c comparison) reason() Reason {
	switch {
	case len(c.contract) > 0:
		return ContractChanged
	case len(c.salt) > 0:
		return SaltChanged
	case len(c.config) > 0:
		return ConfigChanged
	case slices.ContainsFunc(c.inputs, func(d Difference) bool { return !strings.HasSuffix(d.Path, ".limitations") }):
		return InputChanged
	case len(c.inputs) > 0:
		return LimitationsChanged
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
