package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTokens(t *testing.T) {
	for in, want := range map[string][]string{
		"":                       nil,
		"hello world":            {"hello", " world"},
		"Restoration":            {"Restorat", "ion"},
		"20260920":               {"202", "609", "20"},
		"at 4,310.5 m":           {"at", " 4", ",", "310", ".", "5", " m"},
		"a  b":                   {"a", " ", " b"},
		"a\n\n  b ":              {"a", "\n\n ", " b", " "},
		" ":                      {" "},
		"don't":                  {"don", "'", "t"},
		"é中🙂x":                   {"é中", "🙂", "x"},
		"e\u0301te\u0301":        {"e\u0301te\u0301"},
		"\xffa\xfe":              {"\xff", "a", "\xfe"},
		"ANVIL_REQ_7_00003":      {"ANVIL", "_", "REQ", "_", "7", "_", "000", "03"},
		strings.Repeat("\t", 17): {strings.Repeat("\t", 16), "\t"},
	} {
		if got := slices.Collect(Tokens(in)); !cmp.Equal(got, want) {
			t.Errorf("Tokens(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTokensJoinToTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ \n\tA-Za-z0-9,.é]{0,60}`)).Draw(t, "text")
		checkTokens(t, text)
	})
}

func FuzzTokens(f *testing.F) {
	f.Add("the river  stone\r\n\r\n 12,345.6 Übergröße \xf0\x9f")
	f.Fuzz(func(t *testing.T, text string) { checkTokens(t, text) })
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func checkTokens(t fataler, text string) {
	t.Helper()
	tokens := slices.Collect(Tokens(text))
	if got := strings.Join(tokens, ""); got != text {
		t.Fatalf("tokens of %q join to %q", text, got)
	}
	if slices.Contains(tokens, "") {
		t.Fatalf("%q has an empty token", text)
	}
}

// An answer is composed token by token; counting its text must give the same.
func TestInventedTextHasTheTokensItWasMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{rand: stream(rapid.Int64().Draw(t, "seed"), "test", 0), words: plainWords}
		if rapid.Bool().Draw(t, "marked") {
			w.addText("ANVIL_REQ_7_00003")
		}
		w.write(rapid.IntRange(0, 300).Draw(t, "n"))
		if got := slices.Collect(Tokens(strings.Join(w.tokens, ""))); !slices.Equal(got, w.tokens) {
			t.Fatalf("text has tokens %q, was made of %q", got, w.tokens)
		}
	})
}
