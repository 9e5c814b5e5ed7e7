package stage

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const key = "sk-TOP/SECRET+123456789"

func hidden(t *testing.T) *Secrets {
	t.Helper()
	s := &Secrets{}
	s.Hide(key)
	return s
}

// However a server mixes the escapes of JSON and of URLs, what it spells is
// hidden, and what stands around it stays.
func TestRedactHidesEscapedSpellings(t *testing.T) {
	s := hidden(t)
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for i := range len(key) {
			c := key[i]
			spellings := []string{string(c), fmt.Sprintf(`\u%04x`, c), fmt.Sprintf(`\\u%04X`, c), fmt.Sprintf("%%%02x", c), fmt.Sprintf("%%%02X", c)}
			if c == '/' {
				spellings = append(spellings, `\/`)
			}
			b.WriteString(rapid.SampledFrom(spellings).Draw(t, "spelling"))
		}
		before, after := rapid.SampledFrom([]string{"", "a ", `{"x":"`, "100% "}).Draw(t, "before"), rapid.SampledFrom([]string{"", " b", `\n"}`}).Draw(t, "after")
		if got, want := s.Redact(before+b.String()+after), before+strings.Repeat("*", b.Len())+after; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// A variable set with a line end at its end is sent, and echoed, without it.
func TestBlanksAroundASecretDoNotMatter(t *testing.T) {
	s := &Secrets{}
	s.Hide(" " + key + "\n")
	if got := s.Redact("bad key " + key); got != "bad key "+strings.Repeat("*", len(key)) {
		t.Errorf("got %q", got)
	}
}

func TestInnocentEscapesStay(t *testing.T) {
	s := hidden(t)
	for _, text := range []string{`100% \u0073\u006b`, `\\`, `%`, `\`, `\u`, `\u12`, `sk-TOP\u00e9`, `中 \u4e2d %zz \u00zz`} {
		if got := s.RedactCut(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// A text that breaks off within a secret shows no more than its first bytes.
func TestRedactCutHidesABeginning(t *testing.T) {
	s := hidden(t)
	escaped := strings.ReplaceAll(key, "S", `\u0053`)
	for _, spelling := range []string{key, escaped} {
		for n := range len(spelling) {
			got := s.RedactCut("key " + spelling[:n])
			if len(got) != 4+n || strings.Contains(got, key[:shortest+1]) || n > 30 && got != "key "+strings.Repeat("*", n) {
				t.Errorf("cut after %d bytes: %q", n, got)
			}
		}
	}
	if text := key[:shortest] + " at the end of nothing " + key[:shortest]; s.RedactCut(text) != text {
		t.Errorf("a common beginning became %q", s.RedactCut(text))
	}
}

func TestScanFindsASecretAcrossPieces(t *testing.T) {
	s := hidden(t)
	escaped := strings.ReplaceAll(key, "S", `\u0053`)
	for _, tt := range []struct {
		text string
		want bool
	}{{"nothing", false}, {key, true}, {escaped, true}, {escaped[:len(escaped)-2], true}, {key[1:], false}} {
		for _, before := range []int{0, scanStep - 20, scanStep + s.Longest()*longestEscape - 10} {
			scan := s.Scan()
			text := strings.Repeat("x", before) + tt.text
			for len(text) > 0 {
				n := min(7, len(text))
				scan.Write([]byte(text[:n]))
				text = text[n:]
			}
			if got := scan.Found(); got != tt.want {
				t.Errorf("%q after %d bytes: found %v", tt.text, before, got)
			}
		}
	}
	if none := (&Secrets{}).Scan(); none.Found() {
		t.Error("found one where none is known")
	}
}
