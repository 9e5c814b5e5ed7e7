package derive

import (
	"encoding/json"
	"fmt"
	"strings"

	"anvil/stages/record"
)

// all, any, at_least: graders of graders.
func allGrader() graderType {
	return graderType{name: "all", subject: otherGraders, keys: map[string]any{"of": nil}, build: func(s GraderSpec, b *builder) (grader, error) {
		members, err := b.build(s.Of)
		return &atLeast{n: len(members), of: members}, err
	}}
}

func anyGrader() graderType {
	return graderType{name: "any", subject: otherGraders, keys: map[string]any{"of": nil}, build: func(s GraderSpec, b *builder) (grader, error) {
		members, err := b.build(s.Of)
		return &atLeast{n: 1, of: members}, err
	}}
}

func atLeastGrader() graderType {
	return graderType{name: "at_least", subject: otherGraders, keys: map[string]any{"n": nil, "of": nil}, build: func(s GraderSpec, b *builder) (grader, error) {
		members, err := b.build(s.Of)
		if err == nil && (s.N < 1 || s.N > len(members)) {
			err = &keyError{"n", fmt.Sprintf("must be from 1 to %d", len(members)), ""}
		}
		return &atLeast{n: s.N, of: members}, err
	}}
}

func (b *builder) build(of []json.RawMessage) ([]*wrapped, error) {
	if len(of) == 0 {
		return nil, &keyError{"of", "is required", "of: [{id: a, type: contains, any: [blue]}]"}
	}
	out := make([]*wrapped, len(of))
	for i, raw := range of {
		w, err := b.grader(raw, fmt.Sprintf("%s/of/%d", b.at, i))
		if err != nil {
			return nil, fmt.Errorf("of[%d]: %w", i, err)
		}
		out[i] = w
	}
	return out, nil
}

type atLeast struct {
	n  int
	of []*wrapped
}

// judge decides as soon as what is known decides: n passes, or so many
// failures that n passes are out of reach.
func (g *atLeast) judge(a *answer) judgement {
	var passed, failed, broken int
	var score float64
	parts := make([]string, len(g.of))
	for i, member := range g.of {
		j := member.judge(a)
		parts[i] = fmt.Sprintf("%s %s (%s)", member.spec.ID, j.verdict, j.reason)
		score += j.score
		switch j.verdict {
		case record.Pass:
			passed++
		case record.Fail:
			failed++
		case record.GraderError:
			broken++
		case record.Unscorable: // decides nothing
		}
	}
	out := judgement{score: min(1, score/float64(g.n)), reason: strings.Join(parts, "; ")}
	switch {
	case passed >= g.n:
		out.verdict, out.score = record.Pass, 1
	case len(g.of)-failed < g.n:
		out.verdict = record.Fail
	case broken > 0:
		out.verdict = record.GraderError
	default:
		out.verdict = record.Unscorable
	}
	return out
}
