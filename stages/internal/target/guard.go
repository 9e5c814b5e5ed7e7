package target

import (
	"crypto/sha256"

	"anvil/pipeline/stage"
	"anvil/stages/internal/engine"
)

// A guard keeps secrets that a server echoes out of one answer, and tells whether
// its bytes in the capture spell one: in pieces, in escapes, or broken off. One
// that came whole in plain letters the capture has hidden itself.
type guard struct {
	secrets *stage.Secrets
	scan    *stage.Scan
	leaked  bool
}

func newGuard(s *stage.Secrets) *guard { return &guard{secrets: s, scan: s.Scan()} }

func (g *guard) look(body []byte) { g.scan.Write(body) }

func (g *guard) hide(text string) string {
	shown := g.secrets.RedactCut(text)
	g.leaked = g.leaked || shown != text
	return shown
}

func (g *guard) found() bool { return g.scan.Found() || g.leaked }

// texts looks at all that the answer said in pieces, also what is not kept.
func (g *guard) texts(d *engine.Decoder) {
	if g.scan == nil {
		return
	}
	for text := range d.Texts {
		g.leaked = g.leaked || g.secrets.In(text)
	}
}

// answer hides. The digest of a text is of what may be shown of it.
func (g *guard) answer(a *engine.Answer) {
	if shown := g.hide(a.Content); shown != a.Content {
		a.TextSHA256 = sha256.Sum256([]byte(shown))
		if a.Text != nil {
			*a.Text = shown[:len(*a.Text)] // of equal length
		}
		a.Content = shown
	}
	for _, s := range []*string{a.Reasoning, a.Model} {
		if s != nil {
			*s = g.hide(*s)
		}
	}
	if a.Error != nil {
		a.Error.Class, a.Error.Message = g.hide(a.Error.Class), g.hide(a.Error.Message)
	}
	for i := range a.FinishReasons {
		a.FinishReasons[i] = g.hide(a.FinishReasons[i])
	}
	for i := range a.ToolCalls {
		c := &a.ToolCalls[i]
		c.ID, c.Name, c.Arguments = g.hide(c.ID), g.hide(c.Name), g.hide(c.Arguments)
	}
}
