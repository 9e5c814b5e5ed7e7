package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestPrintableEscapesWhatATerminalWouldObey(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünïcode, 中, 🙂":     "plain, ünïcode, 中, 🙂",
		"two\nlines\tand a tab":    "two\nlines\tand a tab",
		"\x1b[31mred":              `\x1b[31mred`,
		"bell\a and \r return":     `bell\x07 and \x0d return`,
		"\u009b31m":                `\u009b31m`,
		"\u202egnp.exe":            `\u202egnp.exe`,
		"bad \xff byte":            `bad \xff byte`,
		"\xed\xa0\x80":             `\xed\xa0\x80`,
		"replacement \ufffd stays": "replacement \ufffd stays",
		"line\u2028separator":      `line\u2028separator`,
		"\U000e0041 tag":           `\U000e0041 tag`,
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLineStaysOneLine(t *testing.T) {
	if got := line("a\nb\tc\x1b"); strings.ContainsAny(got, "\n\t\x1b") {
		t.Errorf("got %q", got)
	}
}

func TestDiagnosisIsPrintable(t *testing.T) {
	var out bytes.Buffer
	log := (&app{logLevel: "warn"}).logger(&out)
	log.Warn().Msg("the server said \x1b[31mred\nand more")
	if got := out.String(); strings.Contains(got, "\x1b") || strings.Count(got, "\n") != 1 || !strings.Contains(got, `\x1b[31mred\nand more`) {
		t.Errorf("got %q", got)
	}
}
