package record

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func someGrades() (GradesHeader, []Grade, GradesFooter) {
	item, score, got := "a", 1.0, "<blue & green>"
	rows := []Grade{
		{Index: 0, Item: &item, Outcome: OutcomeOK, Verdict: Pass, Score: &score, Extracted: &got, Span: &[2]int{0, 14}, Reason: "r", Votes: []any{}, Graders: []GraderResult{}, Tags: []string{}},
		{Index: 1, Outcome: OutcomeCut, Verdict: Unscorable, Reason: "cut", Votes: []any{}, Graders: []GraderResult{}, Tags: []string{}},
	}
	footer := GradesFooter{Complete: true, Counts: map[Verdict]int{Pass: 1, Fail: 0, Unscorable: 1, GraderError: 0}}
	return GradesHeader{Schema: GradesSchema, Graders: []byte(`[]`), Reducer: "none"}, rows, footer
}

func written(t *testing.T) string {
	t.Helper()
	header, rows, footer := someGrades()
	var b bytes.Buffer
	if err := WriteGrades(&b, header, rows, footer); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func readAll(src string) (rows []Grade, footer *GradesFooter, err error) {
	r, err := NewGradesReader(strings.NewReader(src))
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	for g, err := range r.All() {
		if err != nil {
			return rows, nil, err
		}
		rows = append(rows, g)
	}
	return rows, r.Footer(), nil
}

func TestGradesReadAsWritten(t *testing.T) {
	_, want, _ := someGrades()
	rows, footer, err := readAll(written(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if footer.Lines != 2 || !footer.Footer || !footer.Complete {
		t.Errorf("footer %+v", footer)
	}
	if !strings.Contains(written(t), "<blue & green>") {
		t.Error("text is escaped for HTML")
	}
}

func TestGradesThatWereCutOffAreIncomplete(t *testing.T) {
	whole := written(t)
	lines := strings.SplitAfter(whole, "\n")
	for name, src := range map[string]string{
		"no footer": strings.Join(lines[:3], ""), "no rows": lines[0], "empty": "", "half a line": whole[:len(whole)-30],
	} {
		_, footer, err := readAll(src)
		if err == nil || footer != nil {
			t.Errorf("%s is read as whole", name)
		}
		if name == "no footer" && !errors.Is(err, ErrIncomplete) {
			t.Errorf("%s: %v, want ErrIncomplete", name, err)
		}
	}
	for name, src := range map[string]string{
		"a lost line": strings.Join(append(lines[:1:1], lines[2:]...), ""), "more after the footer": whole + lines[1], "another schema": strings.Replace(whole, "anvil.grades/v1", "anvil.grades/v2", 1),
	} {
		if _, _, err := readAll(src); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}

func TestMintedIDIsChecked(t *testing.T) {
	doc := []byte("{\n  \"schema\": \"anvil.record/v1\",\n  \"id\": \"" + BlankID + "\",\n  \"x\": \"rec-0000000000000000\"\n}\n")
	minted, err := MintID(doc)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(minted, doc) || !bytes.Contains(minted, []byte(`"x": "rec-0000000000000000"`)) {
		t.Errorf("minted %s", minted)
	}
	if want, ok, err := CheckID(minted); err != nil || !ok {
		t.Errorf("minted id is not %s (%v)", want, err)
	}
	for i := range minted {
		if i >= bytes.Index(minted, []byte("rec-")) && i < bytes.Index(minted, []byte("rec-"))+20 {
			continue
		}
		changed := bytes.Clone(minted)
		changed[i] ^= 1
		if _, ok, err := CheckID(changed); ok && err == nil {
			t.Errorf("byte %d changed and the id still fits", i)
		}
	}
	for _, bad := range []string{"", "{}", `{"id": "rec-12"}`, `{"id": "xyz-0000000000000000"}`} {
		if _, err := MintID([]byte(bad)); err == nil {
			t.Errorf("an id was minted into %q", bad)
		}
	}
}
