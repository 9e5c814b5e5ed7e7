package derive

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"anvil/stages/record"
)

// evidence_fields: the answer states the fields that the dataset expects, each
// with its value: in a JSON object anywhere in the answer (of several the one
// with most of the fields, the last of equals), else in lines `name: value`.
// Every field must be right; the score is the share that is.
var evidenceFieldsGrader = graderType{
	name:  "evidence_fields",
	keys:  map[string]any{"from": "/expected/fields", "fields": nil, "normalize": []any{"trim", "casefold", "nfc", "number"}},
	build: buildEvidenceFields,
}

type evidenceFields struct {
	from   string
	fields []string // nil: all that are expected
	steps  map[string]bool
}

func buildEvidenceFields(s GraderSpec, b *builder) (grader, error) {
	g := &evidenceFields{from: "/expected/fields", fields: s.Fields, steps: map[string]bool{}}
	if s.From != nil {
		g.from = *s.From
	}
	if !validPointer(g.from) {
		return nil, &keyError{"from", fmt.Sprintf("%q is no JSON pointer", g.from), "/expected/fields"}
	}
	for _, step := range s.Normalize {
		if !slices.Contains(normalizations, step) {
			return nil, &keyError{"normalize", fmt.Sprintf("unknown step %q", step), suggest(step, normalizations)}
		}
		g.steps[step] = true
	}
	b.need(g.from)
	return g, nil
}

func (g *evidenceFields) judge(a *answer) judgement {
	want, problem := g.wanted(a)
	if problem != nil {
		return *problem
	}
	found, from, to := findFields(a.text, sortedKeys(want))
	if len(found) == 0 {
		return fail("the answer states none of the fields %s", strings.Join(sortedKeys(want), ", "))
	}
	var wrong []string
	for _, name := range sortedKeys(want) {
		got, ok := found[name]
		switch {
		case !ok:
			wrong = append(wrong, name+" is missing")
		case !sameValue(want[name], got, g.steps):
			wrong = append(wrong, fmt.Sprintf("%s is %s, want %s", name, shown(got), shown(want[name])))
		}
	}
	j := pass("all of " + plural(len(want), "field") + " right")
	if len(wrong) > 0 {
		j = judgement{verdict: record.Fail, reason: strings.Join(wrong, "; ")}
		j.score = float64(len(want)-len(wrong)) / float64(len(want))
	}
	return j.from(a, from, to)
}

func (g *evidenceFields) wanted(a *answer) (map[string]any, *judgement) {
	v, problem := a.expected(g.from)
	if problem != nil {
		return nil, problem
	}
	all, ok := v.(map[string]any)
	if !ok || len(all) == 0 {
		return nil, new(graderError("%s of the dataset's row is no object of fields", g.from))
	}
	if g.fields == nil {
		return all, nil
	}
	some := map[string]any{}
	for _, name := range g.fields {
		value, ok := all[name]
		if !ok {
			return nil, new(graderError("%s of the dataset's row has no field %s", g.from, name))
		}
		some[name] = value
	}
	return some, nil
}

// findFields finds the fields by name and the bounds of the text that states them.
func findFields(text string, names []string) (found map[string]any, from, to int) {
	jsonObjects(text, func(f, t int, object map[string]any) {
		some := map[string]any{}
		for _, name := range names {
			if v, ok := object[name]; ok {
				some[name] = v
			}
		}
		if len(some) > 0 && len(some) >= len(found) {
			found, from, to = some, f, t
		}
	})
	if len(found) > 0 {
		return found, from, to
	}
	return fieldLines(text, names)
}

// fieldLine is `name: value` or `name = value`, also as an item of a list and
// in bold; group 1 is the name and group 2 the value.
var fieldLine = regexp.MustCompile(`(?m)^[ \t]*(?:[-*•]|\d+[.)])?[ \t]*[*_"]{0,3}([\pL\pN_][\pL\pN_ .-]*?)[*_"]{0,3}[ \t]*[:=][*_]{0,2}[ \t]*(.+?)[ \t]*,?\r?$`)

func fieldLines(text string, names []string) (found map[string]any, from, to int) {
	found = map[string]any{}
	for _, m := range fieldLine.FindAllStringSubmatchIndex(text, -1) {
		name := text[m[2]:m[3]]
		i := slices.IndexFunc(names, func(n string) bool { return folded(n) == folded(name) })
		if i < 0 {
			continue
		}
		if len(found) == 0 {
			from = m[2]
		}
		to = m[5]
		found[names[i]] = strings.Trim(text[m[4]:m[5]], "\"'*_` ")
	}
	return found, from, to
}
