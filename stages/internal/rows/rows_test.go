package rows

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachLineHasItsNumberAndNothingAroundIt(t *testing.T) {
	var got []string
	err := Each(strings.NewReader("\ufeff\n {\"a\":1} \r\n\t\n{\"b\":2}"), func(n int, raw []byte) error {
		got = append(got, fmt.Sprintf("%d %s", n, raw))
		return nil
	})
	if diff := cmp.Diff([]string{`2 {"a":1}`, `4 {"b":2}`}, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	stop := errors.New("stop")
	if err := Each(strings.NewReader("{}\n{}"), func(int, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error %v, want the one of the row", err)
	}
}

func TestALineWithoutEndIsRefused(t *testing.T) {
	err := Each(endless{}, func(int, []byte) error { return errors.New("a row") })
	if err == nil || !strings.Contains(err.Error(), "line 1: line too long") {
		t.Errorf("error %v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestStrictNamesWhatALenientReaderWouldChange(t *testing.T) {
	for raw, want := range map[string]string{
		`[1]`:              "want one JSON object a line",
		`{"a":1,"a":2}`:    `column 8: duplicate key "a"`,
		"{\"a\":\"\xff\"}": "UTF-8",
		`{"a":"\ud800"}`:   "other half",
		`{"a":1e400}`:      "beyond a double",
		`{"a":1} {}`:       "more after the end",
		`{"a":`:            "the text ends",
	} {
		if err := Strict([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
	if err := Strict([]byte(`{"a":9007199254740993}`)); err != nil {
		t.Error(err)
	}
}
