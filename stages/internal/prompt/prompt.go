// Package prompt makes what is asked: synthetic prompts that are a function of
// (seed, stream, index), and the rows of datasets.
//
// Prompts of different streams, seeds or indexes begin with different text, so
// that a prefix cache that holds one of them helps none of the others.
package prompt

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gowebpki/jcs"

	"anvil/pipeline/digest"
	"anvil/stages/internal/engine"
)

// A Prompt is one request's question.
type Prompt struct {
	Item     string           // the dataset row's id, "" for a synthetic prompt
	Text     string           // where Messages is empty
	Messages []engine.Message // the conversation of a dataset row
	Planned  int              // size in tokens: aimed at, or of a row estimated; 0 where nothing is known of it
	Digest   digest.Digest    // of Text, or of the JCS form of the messages

	Marker string // canary: what the answer must begin with; "" for none
	Words  int    // code words that the answer must consist of; 0 for none
}

// A Source gives prompt i. Equal sources give equal prompts in any order of
// asking, and are safe for concurrent use.
type Source interface {
	// Len is the number of prompts, -1 for no end.
	Len() int
	At(i int) Prompt
}

// Checks are what each answer is asked to hold so that it can be checked.
type Checks struct {
	Canaries bool
	Words    int   // numbered code words
	Seed     int64 // stands in the markers
}

// Marker is the canary of request i.
func (c Checks) Marker(i int) string { return fmt.Sprintf("ANVIL_REQ_%d_%05d", c.Seed, i) }

// CodeWord is the word of that number, which counts from 1.
func CodeWord(n int) string { return fmt.Sprintf("w%05d", n) }

// ask is the paragraph that asks for marker and words; "" for neither.
func (c Checks) ask(i int) string {
	var b strings.Builder
	if c.Canaries {
		fmt.Fprintf(&b, "\n\nBegin the answer with %s and write no other marker of this kind.", c.Marker(i))
	}
	if c.Words > 0 {
		then := "Write"
		if c.Canaries {
			then = "Then write"
		}
		fmt.Fprintf(&b, "\n\n%s exactly %d numbered code words, in this order and nothing else:", then, c.Words)
		for n := range c.Words {
			b.WriteByte(' ')
			b.WriteString(CodeWord(n + 1))
		}
	}
	return b.String()
}

func (c Checks) put(p *Prompt, i int) {
	if c.Canaries {
		p.Marker = c.Marker(i)
	}
	p.Words = c.Words
}

// digestMessages names a conversation by its canonical form.
func digestMessages(ms []engine.Message) (digest.Digest, error) {
	raws := make([]json.RawMessage, len(ms))
	for i, m := range ms {
		raws[i] = m.Raw
	}
	raw, err := json.Marshal(raws)
	if err == nil {
		raw, err = jcs.Transform(raw)
	}
	return digest.FromBytes(raw), err
}
