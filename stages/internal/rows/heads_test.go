package rows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeadsNameTheRowThatIsBroken(t *testing.T) {
	for src, want := range map[string]string{
		"":                                   "the dataset has no rows",
		"\n \n":                              "the dataset has no rows",
		`{"id":"a"}` + "\n\n[]":              "line 3: want one JSON object",
		`{"id":"a","id":"b"}`:                `line 1: not a JSON object: column 11: duplicate key "id"`,
		`{"id":"a"}` + "\n" + `{"tags":[]}`:  `line 2: a row needs an "id"`,
		`{"id":"a","graders":"g"}`:           `line 1: "graders": want a list`,
		`{"id":"a"}` + "\n" + `{"id":"a"}`:   `line 2: item "a" stands in line 1 already`,
		`{"id":"a"}` + "\n" + `{"id":"b"`:    "line 2: not a JSON object",
		"\ufeff" + `{"id":"a"}` + "\r\n\r\n": "",
	} {
		items := Items{}
		err := Heads(strings.NewReader(src), func(line int, h Head, _ []byte) error { return items.Add(h.ID, line) })
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%q: %v, want %q", src, err, want)
		}
	}
}

func TestItemsAreTheRowsById(t *testing.T) {
	items := Items{}
	var heads []Head
	err := Heads(strings.NewReader(`{"id":"a","tags":["t"]}`+"\n"+`{"id":"b","graders":["g"]}`), func(line int, h Head, raw []byte) error {
		if !strings.Contains(string(raw), h.ID) {
			t.Errorf("line %d: %s is not the row of %s", line, raw, h.ID)
		}
		heads = append(heads, h)
		return items.Add(h.ID, line)
	})
	if diff := cmp.Diff([]Head{{ID: "a", Tags: []string{"t"}}, {ID: "b", Graders: []string{"g"}}}, heads); err != nil || diff != "" {
		t.Errorf("%v, heads (-want +got):\n%s", err, diff)
	}
	if !items.Has("a") || !items.Has("b") || items.Has("c") {
		t.Errorf("items %v", items)
	}
}
