package derive

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// words: the answer has exactly the requested number of words.
var wordsGrader = graderType{
	name: "words", instead: "requested",
	keys: map[string]any{"requested": nil, "from": nil}, build: buildWords,
}

type words struct {
	requested *int
	pointer   string
}

func buildWords(s GraderSpec, b *builder) (grader, error) {
	g := &words{requested: s.Requested, pointer: defaultFrom}
	if s.Requested != nil {
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

func (g *words) judge(a *answer) judgement {
	want := 0
	if g.requested != nil {
		want = *g.requested
	} else {
		v, problem := a.expected(g.pointer)
		if problem != nil {
			return *problem
		}
		n, _ := v.(json.Number)
		count, err := strconv.Atoi(n.String())
		if err != nil {
			return graderError("what is expected is no whole number")
		}
		want = count
	}
	got := len(strings.Fields(a.text))
	j := passWhen(got == want, fmt.Sprintf("%d words, want %d", got, want))
	if j.score == 0 && got > 0 && want > 0 {
		j.score = float64(min(got, want)) / float64(max(got, want))
	}
	return j
}
