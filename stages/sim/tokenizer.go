package sim

import (
	"hash/fnv"
	"iter"
	"unicode"
	"unicode/utf8"
)

// Longest pieces of the tokenizer's three kinds of run, in characters.
const (
	letterPiece = 8
	digitPiece  = 3
	blankPiece  = 16
)

// Tokens cuts a text into the engine's tokens; joined they are the text again.
//
//   - Letters (and the marks on them) go together, at most 8 to a token.
//   - Digits go together, at most 3 to a token.
//   - Any other visible character is a token of its own.
//   - One space before a visible character belongs to that character's token.
//   - Other white space goes together, at most 16 to a token.
//
// English prose comes to about 1.3 tokens a word. A byte that is not UTF-8 is
// a token of its own.
func Tokens(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n := tokenLen(text)
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// CountTokens returns the number of tokens of a text.
func CountTokens(text string) int {
	n := 0
	for range Tokens(text) {
		n++
	}
	return n
}

type runeClass int

const (
	symbol runeClass = iota
	letter
	digit
	blank
)

func classOf(r rune) runeClass {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
		return letter
	case r >= '0' && r <= '9':
		return digit
	case r < utf8.RuneSelf:
		if unicode.IsSpace(r) {
			return blank
		}
		return symbol
	case unicode.IsLetter(r), unicode.IsMark(r):
		return letter
	case unicode.IsDigit(r):
		return digit
	case unicode.IsSpace(r):
		return blank
	default:
		return symbol
	}
}

// tokenLen returns the length in bytes of the token that text begins with.
func tokenLen(text string) int {
	lead := 0
	r, size := utf8.DecodeRuneInString(text)
	if r == ' ' && len(text) > size {
		if next, n := utf8.DecodeRuneInString(text[size:]); classOf(next) != blank {
			lead, r, size = size, next, n
		}
	}
	switch class := classOf(r); class {
	case letter:
		return lead + runLen(text[lead:], class, letterPiece)
	case digit:
		return lead + runLen(text[lead:], class, digitPiece)
	case blank:
		return blankLen(text)
	default:
		return lead + size
	}
}

// runLen returns the length in bytes of the run of class that text begins
// with, at most limit characters of it.
func runLen(text string, class runeClass, limit int) int {
	n := 0
	for i, r := range text {
		if n == limit || classOf(r) != class {
			return i
		}
		n++
	}
	return len(text)
}

// blankLen is runLen for white space, less a last space that belongs to the
// character after it.
func blankLen(text string) int {
	n := runLen(text, blank, blankPiece)
	if n > 1 && n < len(text) && text[n-1] == ' ' {
		if r, _ := utf8.DecodeRuneInString(text[n:]); classOf(r) != blank {
			return n - 1
		}
	}
	return n
}

// tokenID numbers a token. Different tokens may share a number, so ids serve
// for counting and comparing, not for turning back into text.
func tokenID(token string) int {
	h := fnv.New32a()
	h.Write([]byte(token))
	return int(h.Sum32() % vocabulary)
}

const vocabulary = 1 << 17
