package derive

import "regexp"

// regex: the pattern (RE2) matches anywhere; its first group, or the whole
// match, is what was extracted.
var regexGrader = graderType{
	name: "regex",
	keys: map[string]any{"pattern": nil}, build: buildRegex,
}

type regexMatch struct{ pattern *regexp.Regexp }

func buildRegex(s GraderSpec, _ *builder) (grader, error) {
	if s.Pattern == "" {
		return nil, &keyError{"pattern", "is required", "a regular expression (RE2)"}
	}
	pattern, err := compilePattern("pattern", s.Pattern)
	if err != nil {
		return nil, err
	}
	return &regexMatch{pattern}, nil
}

func (g *regexMatch) judge(a *answer) judgement {
	m := g.pattern.FindStringSubmatchIndex(a.text)
	if m == nil {
		return fail("nothing matches %s", quoted(g.pattern.String()))
	}
	from, to := m[0], m[1]
	if len(m) > 2 && m[2] >= 0 {
		from, to = m[2], m[3]
	}
	return pass("matches "+quoted(g.pattern.String())).from(a, from, to)
}
