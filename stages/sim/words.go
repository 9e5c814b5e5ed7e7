package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// The words that invented answers are made of. Each is at most eight letters
// long, so that each is one token.
var (
	plainWords = newLexicon(`the a each every this that one some little old quiet early late
river garden harbour letter window bridge morning evening winter summer market station village
stone lantern ledger engine signal paper copper wooden narrow open distant careful steady plain
keeps holds carries follows turns opens closes crosses answers counts records measures returns
waits stands rests moves grows settles gathers leaves finds brings shows marks under over beside
between along toward beyond near after before with without from into upon while where when until
and then but so again often seldom always slowly gently clearly first last second`)
	thinkWords = newLexicon(`first look at what was asked then check the facts that are stated note
which of them matter compare each with the question keep the order of the parts and answer plain
so far this fits it needs no more than that let me read it again and make sure nothing is missing`)
)

// A lexicon is words with the space that parts them from what stands before,
// as they are in a long answer: all its tokens share their bytes.
type lexicon []string

func newLexicon(words string) lexicon {
	var v lexicon
	for w := range strings.FieldsSeq(words) {
		v = append(v, " "+w)
	}
	return v
}

// A writer makes text of words, one token after the other.
type writer struct {
	rand     *rand.Rand
	words    lexicon
	tokens   []string
	sentence int // tokens left in the sentence
}

// write appends n tokens. The text begins with a capital and holds a full stop
// every 6 to 18 words, which is a token too.
func (w *writer) write(n int) {
	w.tokens = slices.Grow(w.tokens, n)
	for range n {
		switch {
		case w.sentence == 1 && len(w.tokens) > 0:
			w.tokens = append(w.tokens, ".")
			w.sentence = 0
			continue
		case w.sentence == 0:
			w.sentence = 7 + w.rand.IntN(13)
			w.add(capital(w.pick()))
		default:
			w.add(w.pick())
		}
		w.sentence--
	}
}

// pick draws a word, with its space.
func (w *writer) pick() string { return w.words[w.rand.IntN(len(w.words))] }

func (w *writer) add(spaced string) {
	if len(w.tokens) == 0 {
		spaced = spaced[1:]
	}
	w.tokens = append(w.tokens, spaced)
}

func capital(spaced string) string { return " " + strings.ToUpper(spaced[1:2]) + spaced[2:] }
