package sim

import (
	"container/list"
	"slices"
)

const (
	cacheBlock  = 16      // tokens of a block: only whole blocks are found again
	cacheBlocks = 1 << 17 // blocks that the cache holds: 2 Mi tokens
)

// A prefixCache knows which prompts, cut into blocks, were seen before. The
// name of a block stands for everything up to its end, so a block is found
// only after all those before it. The blocks used longest ago make room.
type prefixCache struct {
	blocks map[uint64]*list.Element
	recent *list.List // of uint64, the most recent first
}

func newPrefixCache() *prefixCache {
	return &prefixCache{blocks: map[uint64]*list.Element{}, recent: list.New()}
}

// admit returns how many tokens of a prompt of that many are held, and takes
// its blocks in. The last token is always computed, as engines must: its
// result is the first token of the answer.
func (c *prefixCache) admit(blocks []uint64, tokens int) (cached int) {
	for _, b := range blocks {
		if _, ok := c.blocks[b]; !ok || cached+cacheBlock >= tokens {
			break
		}
		cached += cacheBlock
	}
	// From the last to the first: a prefix is used more recently than what follows it.
	for _, b := range slices.Backward(blocks) {
		c.touch(b)
	}
	return cached
}

func (c *prefixCache) touch(b uint64) {
	if e, ok := c.blocks[b]; ok {
		c.recent.MoveToFront(e)
		return
	}
	c.blocks[b] = c.recent.PushFront(b)
	if c.recent.Len() > cacheBlocks {
		delete(c.blocks, c.recent.Remove(c.recent.Back()).(uint64))
	}
}

func (c *prefixCache) reset() {
	clear(c.blocks)
	c.recent.Init()
}

// A blockChain names the blocks of a prompt while its tokens come by.
type blockChain struct {
	blocks []uint64
	tokens int
	sum    uint64
}

// add mixes a token into the chain: FNV-1a over everything so far, less its
// package, which would allocate for every token.
func (b *blockChain) add(token string) {
	const offset, prime = 14695981039346656037, 1099511628211
	h := b.sum ^ offset
	for i := range len(token) {
		h = (h ^ uint64(token[i])) * prime
	}
	b.sum = (h ^ uint64(len(token))) * prime
	if b.tokens++; b.tokens%cacheBlock == 0 {
		b.blocks = append(b.blocks, b.sum)
	}
}
