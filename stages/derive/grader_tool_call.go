package derive

import (
	"fmt"
	"strings"

	"anvil/stages/record"
)

// tool_call: the answer calls the tool by name. What is expected is a name, or
// an object of name and arguments; arguments may also stand in a file, an object
// of them. They are compared member by member, and the F1 of expected and given
// members must reach min_f1. Of several calls the best one counts.
var toolCallGrader = graderType{
	name: "tool_call", subject: theAnswer, instead: "name",
	keys: map[string]any{"name": nil, "from": nil, "arguments": nil, "min_f1": 1}, build: buildToolCall,
}

type toolCall struct {
	name      *string
	pointer   string
	arguments map[string]any // of the file; nil: none
	minF1     float64
}

func buildToolCall(s GraderSpec, b *builder) (grader, error) {
	if s.MinF1 < 0 || s.MinF1 > 1 {
		return nil, &keyError{"min_f1", "must be from 0 to 1", "min_f1: 1"}
	}
	g := &toolCall{name: s.Name, pointer: defaultFrom, minF1: s.MinF1}
	if src, ok := b.file("arguments"); ok {
		v, err := decodeAnswer(string(src))
		if err != nil {
			return nil, &keyError{"arguments", fmt.Sprintf("the file is no JSON: %v", err), ""}
		}
		if g.arguments, ok = v.(map[string]any); !ok {
			return nil, &keyError{"arguments", "the file holds no JSON object", `{"city": "Rome"}`}
		}
	}
	if s.Name != nil {
		return g, nil
	}
	if s.From != nil {
		g.pointer = *s.From
	}
	if !validPointer(g.pointer) {
		return nil, &keyError{"from", fmt.Sprintf("%q is no JSON pointer", g.pointer), defaultFrom}
	}
	b.need(g.pointer)
	return g, nil
}

func (g *toolCall) judge(a *answer) judgement {
	name, arguments, problem := g.wanted(a)
	if problem != nil {
		return *problem
	}
	if len(a.attempt.ToolCalls) == 0 {
		return fail("no tool was called, want %s", quoted(name))
	}
	best := judgement{score: -1}
	for _, call := range a.attempt.ToolCalls {
		if j := g.judgeCall(call, name, arguments); j.score > best.score || j.verdict == record.Pass && best.verdict != record.Pass {
			best = j
		}
	}
	return best
}

func (g *toolCall) wanted(a *answer) (name string, arguments map[string]any, problem *judgement) {
	if g.name != nil {
		return *g.name, g.arguments, nil
	}
	v, problem := a.expected(g.pointer)
	if problem != nil {
		return "", nil, problem
	}
	switch v := v.(type) {
	case string:
		return v, g.arguments, nil
	case map[string]any:
		name, _ := v["name"].(string)
		arguments, ok := v["arguments"].(map[string]any)
		if !ok {
			arguments = g.arguments
		}
		if name != "" {
			return name, arguments, nil
		}
	}
	return "", nil, new(graderError("what is expected is neither a tool's name nor an object with a name"))
}

func (g *toolCall) judgeCall(call record.ToolCall, name string, want map[string]any) judgement {
	extracted := call.Name + " " + call.Arguments
	if len(extracted) > maxExtracted {
		extracted = strings.ToValidUTF8(extracted[:maxExtracted], "")
	}
	j := g.compare(call, name, want)
	j.extracted = &extracted
	return j
}

func (g *toolCall) compare(call record.ToolCall, name string, want map[string]any) judgement {
	if call.Name != name {
		return fail("called %s, want %s", quoted(call.Name), quoted(name))
	}
	if strings.TrimSpace(call.Arguments) == "" {
		if len(want) > 0 {
			return fail("the call of %s has no arguments at all", name)
		}
		return pass("called " + name) // a tool that takes none is called so
	}
	v, err := decodeAnswer(call.Arguments)
	got, ok := v.(map[string]any)
	switch {
	case err != nil:
		return fail("the arguments of %s are no JSON: %v", name, err)
	case !ok:
		return fail("the arguments of %s are no object", name)
	case want == nil:
		return pass("called " + name)
	}
	return g.score(name, want, got)
}

func (g *toolCall) score(name string, want, got map[string]any) judgement {
	var wrong []string
	right := 0
	for _, key := range sortedKeys(want) {
		value, ok := got[key]
		switch {
		case !ok:
			wrong = append(wrong, "argument "+key+" is missing")
		case !sameJSON(want[key], value):
			wrong = append(wrong, fmt.Sprintf("argument %s is %s, want %s", key, shown(value), shown(want[key])))
		default:
			right++
		}
	}
	for _, key := range sortedKeys(got) {
		if _, ok := want[key]; !ok {
			wrong = append(wrong, "argument "+key+" was not wanted")
		}
	}
	f1 := 1.0
	if len(want)+len(got) > 0 {
		f1 = 2 * float64(right) / float64(len(want)+len(got))
	}
	j := passWhen(f1 >= g.minF1, fmt.Sprintf("called %s, F1 of arguments %.3g", name, f1))
	if len(wrong) > 0 {
		j.reason += ": " + strings.Join(wrong, "; ")
	}
	j.score = f1
	return j
}
