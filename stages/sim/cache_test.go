package sim

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func chain(text string) blockChain {
	var p prompt
	p.addText(text)
	return p.chain
}

func (c *prefixCache) admitText(text string) (cached, tokens int) {
	b := chain(text)
	return c.admit(b.blocks, b.tokens), b.tokens
}

func TestOnlyWholeBlocksOfACommonPrefixAreCached(t *testing.T) {
	base := strings.Repeat("stone ", 64) // 64 tokens and a last blank
	for name, tc := range map[string]struct {
		text string
		want int
	}{
		"the same":              {base, 64},
		"longer":                {base + "and more of it after that", 64},
		"shorter by one block":  {strings.Repeat("stone ", 47), 32},
		"one of three blocks":   {strings.Repeat("stone ", 20) + strings.Repeat("river ", 44), 16},
		"another first word":    {"river " + base, 0},
		"less than a block":     {"stone stone", 0},
		"exactly its own block": {strings.TrimSpace(strings.Repeat("stone ", 16)), 0}, // the last token is computed
	} {
		c := newPrefixCache()
		c.admitText(base)
		if got, tokens := c.admitText(tc.text); got != tc.want || got >= tokens {
			t.Errorf("%s: %d of %d tokens cached, want %d", name, got, tokens, tc.want)
		}
	}
}

func TestCacheForgetsWhatWasUsedLongestAgo(t *testing.T) {
	c := newPrefixCache()
	text := func(i int) string { return strings.TrimSpace(strings.Repeat(fmt.Sprintf("w%d ", i), cacheBlock*500)) }
	blocks := len(chain(text(0)).blocks)
	kept := 0
	for i := 0; kept < 2*cacheBlocks; i++ {
		c.admitText(text(0)) // used again and again
		c.admitText(text(i))
		kept += blocks
	}
	if n := len(c.blocks); n > cacheBlocks || n != c.recent.Len() {
		t.Errorf("%d blocks are held in %d places, at most %d may be", n, c.recent.Len(), cacheBlocks)
	}
	if cached, tokens := c.admitText(text(0)); cached < tokens-cacheBlock-1 {
		t.Errorf("%d of %d tokens of the prompt in constant use are cached", cached, tokens)
	}
	if cached, _ := c.admitText(text(1)); cached != 0 {
		t.Errorf("%d tokens of a prompt used long ago are cached", cached)
	}
}

// The cache against all prompts that were ever seen, compared token by token.
func TestCacheAgreesWithComparingPrompts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newPrefixCache()
		var seen [][]string
		for range rapid.IntRange(1, 8).Draw(t, "prompts") {
			words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 70).Draw(t, "words")
			same := rapid.IntRange(0, 60).Draw(t, "same") // a run that many prompts share
			words = append(strings.Fields(strings.Repeat("x ", same)), words...)
			var b blockChain
			for _, w := range words {
				b.add(w)
			}
			best := 0
			for _, s := range seen {
				n := 0
				for n < len(s) && n < len(words) && s[n] == words[n] {
					n++
				}
				best = max(best, n/cacheBlock*cacheBlock)
			}
			for best > 0 && best >= len(words) {
				best -= cacheBlock
			}
			if got := c.admit(b.blocks, b.tokens); got != best {
				t.Fatalf("%d tokens of %v cached, want %d", got, words, best)
			}
			seen = append(seen, words)
		}
	})
}
