package derive

import (
	"strings"
)

// contains: the answer holds any, or all, of the literals.
var containsGrader = graderType{
	name: "contains",
	keys: map[string]any{"any": nil, "all": nil}, build: buildContains,
}

type contains struct{ any, all []string }

func buildContains(s GraderSpec, _ *builder) (grader, error) {
	switch {
	case len(s.Any) == 0 && len(s.All) == 0:
		return nil, &keyError{"any", "`any` or `all` is required", "any: [blue, azure]"}
	case len(s.Any) > 0 && len(s.All) > 0:
		return nil, &keyError{"any", "`any` and `all` exclude each other", "combine two graders by type `all` or `any`"}
	}
	return &contains{s.Any, s.All}, nil
}

func (g *contains) judge(a *answer) judgement {
	if len(g.any) > 0 {
		for _, want := range g.any {
			if i := strings.Index(a.text, want); i >= 0 {
				return pass("contains "+quoted(want)).from(a, i, i+len(want))
			}
		}
		return fail("contains none of %s", strings.Join(mapOf(g.any, quoted), ", "))
	}
	return g.judgeAll(a)
}

func (g *contains) judgeAll(a *answer) judgement {
	var missing []string
	from, to := len(a.text), 0
	for _, want := range g.all {
		i := strings.Index(a.text, want)
		if i < 0 {
			missing = append(missing, want)
			continue
		}
		from, to = min(from, i), max(to, i+len(want))
	}
	found := len(g.all) - len(missing)
	j := pass("contains all of them")
	if len(missing) > 0 {
		j = fail("lacks %s", strings.Join(mapOf(missing, quoted), ", "))
		j.score = float64(found) / float64(len(g.all))
	}
	if found == 0 {
		return j
	}
	return j.from(a, from, to)
}
