package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-multierror"

	"anvil/schemas"
)

// FlagSet is the File of a Pos that is no place in a file but the command
// line's --set.
const FlagSet = "--set"

// String returns "file:line:column", or the flag's name.
func (p Pos) String() string {
	if p.File == FlagSet {
		return FlagSet
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Compare orders places by file, line and column.
func (p Pos) Compare(q Pos) int {
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// A Problem is one thing that is wrong with a plan.
type Problem struct {
	Pos     Pos
	Path    string // "stages[2].with.load.rate"; "" for the file as a whole
	Message string
	Hint    string // how to put it right; may be empty
}

// Error is one line: "plans/x.yaml:14:9: stages[2].with.load.rate: must be > 0 (hint)".
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Pos.String())
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Problems returns what Parse found wrong, in order; nil for another error.
func Problems(err error) []*Problem {
	all, ok := errors.AsType[*multierror.Error](err)
	if !ok {
		return nil
	}
	out := make([]*Problem, 0, len(all.Errors))
	for _, e := range all.Errors {
		if p, ok := errors.AsType[*Problem](e); ok {
			out = append(out, p)
		}
	}
	return out
}

// Limits on the report of a file that is wrong everywhere.
const (
	maxProblems = 1000 // reported
	maxFound    = 5000 // looked at, to be sorted
	maxText     = 300  // bytes of a message, a hint or a path
)

// problems collects what is wrong, each thing once.
type problems struct {
	list    []*Problem
	seen    map[Problem]bool
	dropped int
	advice  int // words compared in search of what was meant
}

// maxAdvice bounds the search for what was meant, which costs more than finding
// what is wrong.
const maxAdvice = 100_000

// near looks for the known word that was meant.
func (ps *problems) near(word string, known func() []string) (string, bool) {
	if ps.advice > maxAdvice {
		return "", false
	}
	words := known()
	ps.advice += len(words)
	return schemas.Closest(word, words)
}

func (ps *problems) full() bool { return len(ps.list) >= maxFound }

func (ps *problems) add(p Problem) {
	p.Path, p.Message, p.Hint = short(p.Path), short(p.Message), short(p.Hint)
	if ps.seen[p] {
		return
	}
	if ps.full() {
		ps.dropped++
		return
	}
	if ps.seen == nil {
		ps.seen = map[Problem]bool{}
	}
	ps.seen[p] = true
	ps.list = append(ps.list, &p)
}

// short keeps a text on one line of bounded length: a plan's own words stand
// in it.
func short(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// err returns everything as one error, sorted by place, or nil.
func (ps *problems) err() error {
	slices.SortStableFunc(ps.list, func(a, b *Problem) int {
		return cmp.Or(a.Pos.Compare(b.Pos), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	errs := &multierror.Error{ErrorFormat: lines}
	for i, p := range ps.list {
		if i == maxProblems {
			more := len(ps.list) - i + ps.dropped
			errs = multierror.Append(errs, &Problem{Pos: p.Pos, Message: fmt.Sprintf("%d more problems", more)})
			break
		}
		errs = multierror.Append(errs, p)
	}
	return errs.ErrorOrNil()
}

func lines(errs []error) string {
	out := make([]string, len(errs))
	for i, e := range errs {
		out[i] = e.Error()
	}
	return strings.Join(out, "\n")
}
