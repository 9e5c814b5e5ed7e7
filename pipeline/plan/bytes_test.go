package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-multierror"

	"anvil/pipeline/plan"
)

// parse reads a plan that is not on disk; paths in it start in testdata.
func parse(src string, opt plan.Options) (*plan.Plan, error) {
	return plan.Parse("testdata/p.yaml", []byte(src), fakeKinds(), opt)
}

// places lists the problems as line:column message.
func places(err error) []string {
	var out []string
	for _, p := range plan.Problems(err) {
		text := fmt.Sprintf("%d:%d %s", p.Pos.Line, p.Pos.Column, p.Message)
		if p.Path != "" {
			text = fmt.Sprintf("%d:%d %s: %s", p.Pos.Line, p.Pos.Column, p.Path, p.Message)
		}
		out = append(out, text)
	}
	return out
}

const good = "schema: anvil.plan/v1\nname: good\nstages: [{id: old, uses: import, with: {file: rows.jsonl, schema: anvil.attempts/v1}}]\n"

func TestBytesThatNoPlanMayHold(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []string
	}{
		{"NUL", "schema: anvil.plan/v1\nna\x00me: x\n", []string{"2:3 character U+0000 is not allowed"}},
		{"NUL from UTF-16", "s\x00c\x00", []string{"1:2 character U+0000 is not allowed", "1:4 character U+0000 is not allowed"}},
		{"invalid UTF-8", "schema: anvil.plan/v1\nname: caf\xe9\n", []string{"2:10 byte 0xe9 is not UTF-8"}},
		{"a lone surrogate in UTF-8", "a: \xed\xa0\x80\n", []string{"1:4 byte 0xed is not UTF-8", "1:5 byte 0xa0 is not UTF-8", "1:6 byte 0x80 is not UTF-8"}},
		{"an escaped lone surrogate", `a: "\ud800"` + "\n", []string{"1:1 YAML: found invalid Unicode character escape code"}},
		{"line separator", "name: a\u2028title: b\n", []string{"1:8 character U+2028 is not allowed"}},
		{"paragraph separator", "é: a\u2029\n", []string{"1:5 character U+2029 is not allowed"}},
		{"next line", "a: b\u0085\n", []string{"1:5 character U+0085 is not allowed"}},
		{"escape character", "a: b\x1b[31m\n", []string{"1:5 character U+001B is not allowed"}},
		{"a lone carriage return", "a: b\rc: d\n", []string{"1:5 carriage return without a line feed"}},
		{"a mark in the middle", "a: \ufeffb\n", []string{"1:4 character U+FEFF is not allowed"}},
		{"a tab before a key", "a:\n  b: 1\n\tc: 2\n", []string{"3:1 YAML: tab in the indentation"}},
		{"a tab after spaces", "a:\n  \tb: 1\n", []string{"2:3 YAML: tab in the indentation"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.src, plan.Options{})
			if diff := cmp.Diff(c.want, places(err)); diff != "" {
				t.Errorf("problems of %q (-want +got):\n%s", c.src, diff)
			}
		})
	}
}

// Windows editors write a mark and CRLF; both are fine, and places stay right.
func TestByteOrderMarkAndCRLFAreNoProblem(t *testing.T) {
	src := "\ufeff" + strings.ReplaceAll(good, "\n", "\r\n")
	p, err := parse(src, plan.Options{})
	if err != nil || p.Name != "good" {
		t.Fatalf("Parse: %v", err)
	}
	_, err = parse("\ufeffnaem: x\r\n"+strings.ReplaceAll(good, "\n", "\r\n")+"titel: y\r\n", plan.Options{})
	want := []string{`1:1 naem: unknown key "naem"`, `5:1 titel: unknown key "titel"`}
	if diff := cmp.Diff(want, places(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// Columns count characters, not bytes, as editors do.
func TestColumnsCountCharacters(t *testing.T) {
	_, err := parse(good+`params: {"é": 1, 中: {a: 1}, b: no}`+"\n", plan.Options{})
	want := []string{
		`4:10 params["é"]: key must be letters, digits, underscore and hyphen, no digit or hyphen first`,
		`4:18 params["中"]: key must be letters, digits, underscore and hyphen, no digit or hyphen first`,
		`4:21 params["中"]: must be text, a number, true or false or null, not a mapping`,
		`4:32 params.b: no is a boolean to some YAML readers and text to others`,
	}
	if diff := cmp.Diff(want, places(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestParseReturnsOneErrorOfProblemsInOrder(t *testing.T) {
	_, err := parse("titel: x\nschema: 7\nname: latest\nstages: []\n", plan.Options{})
	if _, ok := errors.AsType[*multierror.Error](err); !ok {
		t.Fatalf("error is a %T, want a *multierror.Error", err)
	}
	var first *plan.Problem
	if !errors.As(err, &first) || first.Pos != (plan.Pos{File: "testdata/p.yaml", Line: 1, Column: 1}) {
		t.Errorf("first problem is %+v", first)
	}
	want := strings.Join([]string{
		`testdata/p.yaml:1:1: titel: unknown key "titel" (did you mean "title"?)`,
		`testdata/p.yaml:2:9: schema: must be "anvil.plan/v1"`,
		`testdata/p.yaml:3:7: name: must not be "latest" (that word names the newest run)`,
		`testdata/p.yaml:4:9: stages: must have at least 1 item`,
	}, "\n")
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("error text (-want +got):\n%s", diff)
	}
	if _, err := parse(good, plan.Options{}); err != nil {
		t.Errorf("a good plan gives %v", err)
	}
}

// A plan that is wrong everywhere is answered in bounded space and says how
// much it left out.
func TestReportIsBounded(t *testing.T) {
	_, err := parse(good+"params: {"+strings.Repeat("a: no, ", 3000)+"}\n", plan.Options{})
	ps := plan.Problems(err)
	if len(ps) != 1001 || ps[1000].Message != "4999 more problems" {
		t.Errorf("%d problems, the last %v", len(ps), ps[len(ps)-1])
	}
	_, err = parse("name: "+strings.Repeat("x", 1<<20)+"\n? "+strings.Repeat("k", 1000)+"\n: 1\n", plan.Options{})
	for _, p := range plan.Problems(err) {
		if len(p.Error()) > 1200 {
			t.Errorf("a problem of %d bytes: %.100s", len(p.Error()), p.Error())
		}
	}
}

// Sizes and depths that would cost minutes or gigabytes are answered at once,
// each with one problem.
func TestOversizedPlansAreAnswered(t *testing.T) {
	many := strings.Repeat
	for _, c := range []struct{ name, src, want string }{
		{"10 MB", good + "#" + many("x", 10<<20), fmt.Sprintf("1:1 the plan has %d bytes, more than the 4194304 that a plan may have", len(good)+1+10<<20)},
		{"values", good + "x: [" + many("a,", 400_000) + "]\n", "1:1 the plan has more than 200000 entries"},
		{"10,000 deep", many("[", 10_000) + many("]", 10_000), "1:102 " + many("[0]", 100) + "...: nested more than 100 deep"},
		{"100,000 deep", many("[", 100_000), "1:1 YAML: exceeded max depth of 10000"},
		{"deep dashes", many("- ", 10_000) + "a", "1:203 " + many("[0]", 100) + "...: nested more than 100 deep"},
		{"open maps", many("{a: ", 20_000), "1:1 YAML: exceeded max depth of 10000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.src, plan.Options{})
			got := places(err)
			if len(got) == 0 || got[len(got)-1] != c.want {
				t.Errorf("got %.300q, want the last to be %q", got, c.want)
			}
		})
	}
}
