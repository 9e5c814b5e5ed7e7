package plan

import (
	"regexp"
	"strconv"
	"strings"

	"anvil/schemas"
)

// A spot is a line and a column, from 1, the column in characters.
type spot struct{ line, column int }

// A place is where a value of the plan stands in the file; it mirrors the
// value's shape. A value that came through an alias is where its anchor has it,
// apart from the alias itself.
type place struct {
	at, key spot // of the value, of its key
	bad     bool // reported: the value is a stand-in and nothing that follows from it is news
	fields  map[string]*place
	order   []string // keys as written, merged ones last
	items   []*place
}

func (p *place) child(token string) *place {
	if c, ok := p.fields[token]; ok {
		return c
	}
	if i, err := strconv.Atoi(token); err == nil && 0 <= i && i < len(p.items) {
		return p.items[i]
	}
	return nil
}

// find follows a JSON pointer as far as the file goes. exact is false where a
// default or a kind made the rest; bad where the way leads over a reported value.
func (p *place) find(pointer string) (found *place, exact, bad bool) {
	found = p
	for _, token := range schemas.Split(pointer) {
		bad = bad || found.bad
		c := found.child(token)
		if c == nil {
			return found, false, bad
		}
		found = c
	}
	return found, true, bad || found.bad
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// dotted writes a pointer as people write paths: stages[2].with.load.rate.
func (p *place) dotted(pointer string) string {
	var b strings.Builder
	at := p
	for _, token := range schemas.Split(pointer) {
		i, err := strconv.Atoi(token)
		switch {
		case err == nil && (at == nil || at.fields == nil) && i >= 0:
			b.WriteString("[" + token + "]")
		case plainKey.MatchString(token):
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(token)
		default:
			b.WriteString("[" + strconv.Quote(token) + "]")
		}
		if at != nil {
			at = at.child(token)
		}
	}
	return b.String()
}
