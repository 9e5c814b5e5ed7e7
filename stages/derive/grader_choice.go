package derive

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// choice: the answer names one letter of several: alone, after a word such as
// "answer", before a bracket, a full stop or a colon at the start of a line, or
// as the only letter that stands by itself. A small letter will do where it
// can be no word: "the answer is a pity" chooses nothing.
var choiceGrader = graderType{
	name: "choice", instead: "value",
	keys: map[string]any{"value": nil, "from": nil, "letters": "ABCD"}, build: buildChoice,
}

type choice struct {
	want                         literalSource
	letters                      string
	alone, named, leading, stood *regexp.Regexp
}

func buildChoice(s GraderSpec, b *builder) (grader, error) {
	if s.Letters == "" || strings.ContainsFunc(s.Letters, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return nil, &keyError{"letters", fmt.Sprintf("%q: capital letters A to Z are wanted", s.Letters), "ABCD"}
	}
	want, err := b.literal(s, func(text string) error {
		if !isLetterOf(s.Letters, text) {
			return fmt.Errorf("%q is none of the letters %s", text, s.Letters)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	class := "([" + s.Letters + strings.ToLower(s.Letters) + "])"
	upper := "([" + s.Letters + "])"
	lower := "([" + strings.ToLower(s.Letters) + "])"
	return &choice{
		want: want, letters: s.Letters,
		alone: regexp.MustCompile(`^[\s(\[*"']*` + class + `[\s)\].,:*"']*$`),
		named: regexp.MustCompile(`(?i:\b(?:answer|choice|option)\b)[\s*:]*(?i:is|would be|:)?[\s*:("'\[]*(?:` +
			upper + `(?:[^\pL\pN]|$)|` + lower + `(?:[)\].,:;!?*"']+(?:\s|$)|\s*$|[ \t]*[\r\n]|[ \t]+[-–—]))`),
		leading: regexp.MustCompile(`(?m)^[\s(\[*]*(?:` + upper + `[)\].:]|` + lower + `[)\].:]+(?:\s|$))`),
		stood:   regexp.MustCompile(`(?:^|[^\pL\pN'])` + upper + `(?:[^\pL\pN']|$)`),
	}, nil
}

func (g *choice) judge(a *answer) judgement {
	wanted, problem := g.want.texts(a)
	if problem != nil {
		return *problem
	}
	wanted = slices.DeleteFunc(wanted, func(w string) bool { return !isLetterOf(g.letters, w) })
	if len(wanted) == 0 {
		return graderError("what is expected is none of the letters %s", g.letters)
	}
	at, reason := g.find(a.text)
	if reason != "" {
		return judgement{verdict: "fail", reason: reason}
	}
	got := strings.ToUpper(a.text[at : at+1])
	for _, w := range wanted {
		if strings.EqualFold(strings.TrimSpace(w), got) {
			return pass("chose "+got).from(a, at, at+1)
		}
	}
	return fail("chose %s, want %s", got, strings.Join(wanted, " or ")).from(a, at, at+1)
}

func isLetterOf(letters, text string) bool {
	letter := strings.ToUpper(strings.TrimSpace(text))
	return len(letter) == 1 && strings.Contains(letters, letter)
}

// find returns where the chosen letter stands.
func (g *choice) find(text string) (at int, reason string) {
	from, to := trimmed(text)
	if m := g.alone.FindStringSubmatchIndex(text[from:to]); m != nil {
		return from + m[2], ""
	}
	for _, re := range []*regexp.Regexp{g.named, g.leading} {
		if all := re.FindAllStringSubmatchIndex(text, -1); len(all) > 0 {
			if re == g.leading && len(distinct(text, all)) > 1 {
				continue // the answer repeats the list of choices
			}
			return letterAt(all[len(all)-1]), ""
		}
	}
	all := g.stood.FindAllStringSubmatchIndex(text, -1)
	switch len(distinct(text, all)) {
	case 0:
		return 0, "names none of the letters " + g.letters
	case 1:
		return letterAt(all[0]), ""
	}
	return 0, "names several letters and says of none that it is the answer"
}

func distinct(text string, matches [][]int) map[string]bool {
	letters := map[string]bool{}
	for _, m := range matches {
		at := letterAt(m)
		letters[strings.ToUpper(text[at:at+1])] = true
	}
	return letters
}

// letterAt is where the letter of a match stands, whichever group took it.
func letterAt(match []int) int {
	if match[2] < 0 {
		return match[4]
	}
	return match[2]
}
