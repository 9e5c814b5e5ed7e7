package grade

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/schemas"
)

// opened resolves a configuration below the given stages, with files that can be
// opened by name.
func opened(t *testing.T, with string, files map[string]string, upstream ...stage.Peer) *stage.Resolution {
	t.Helper()
	r := &stage.Resolution{With: object(t, with), ID: "grade", Upstream: upstream}
	r.Open = func(name string) (io.ReadCloser, error) {
		src, ok := files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(src)), nil
	}
	if err := schemas.Fill("anvil.grade-config/v1", r.With); err != nil {
		t.Fatal(err)
	}
	resolve(r)
	return r
}

// sender is a measure stage with what the plan says of its load and workload.
func sender(t *testing.T, id, with string) stage.Peer {
	t.Helper()
	return stage.Peer{ID: id + "[n=1]", Of: id, Kind: "measure", Direct: true, With: object(t, with)}
}

const (
	sendsABC = `{"load": {"duration": "1s"}, "workload": {"source": "dataset", "file": "abc.jsonl", "format": "anvil", "order": "file", "epochs": 1}}`
	sendsOne = `{"load": {"requests": 1}, "workload": {"source": "dataset", "file": "abc.jsonl", "format": "anvil", "order": "file", "epochs": 1}}`
	mixesOne = `{"load": {"requests": 1}, "workload": {"source": "dataset", "file": "abc.jsonl", "format": "anvil", "order": "shuffle", "epochs": 1}}`
	sendsOdd = `{"load": {"requests": 2}, "workload": {"source": "dataset", "file": "odd.jsonl", "format": "openai-evals", "order": "file", "epochs": 1}}`
	makesUp  = `{"load": {"requests": 2}, "workload": {"source": "synthetic"}}`
)

// What would fail after all answers are paid for is found in the plan: a row
// that cannot be read, a grader that nobody has, rows of other items alone.
func TestDatasetIsReadWithThePlan(t *testing.T) {
	files := map[string]string{
		"abc.jsonl":     `{"id":"a","prompt":"p"}` + "\n" + `{"id":"b","prompt":"p"}` + "\n\n" + `{"id":"c","prompt":"p"}`,
		"odd.jsonl":     `{"input":"p"}` + "\n" + `{"id":"z","input":"p"}`,
		"c.jsonl":       `{"id":"x"}` + "\n" + `{"id":"c","expected":"x"}`,
		"line-1.jsonl":  `{"id":"line-1"}`,
		"other.jsonl":   "\ufeff" + `{"id":"other"}`,
		"broken.jsonl":  `{"id":"a"}` + "\n{bad",
		"twice.jsonl":   `{"id":"a"}` + "\n" + `{"id":"a"}`,
		"nobody.jsonl":  `{"id":"a","graders":["g","G1"]}` + "\n" + `{"id":"b","graders":["zz","G1"]}`,
		"nobody!.jsonl": `{"id":"a","graders":["zz"]}` + "\n{bad",
		"some.jsonl":    `{"id":"a","expected":"x"}` + "\n" + `{"id":"b"}`,
		"empty.jsonl":   "\n",
	}
	imported := stage.Peer{ID: "old", Of: "old", Kind: "import", Direct: true, With: map[string]any{}}
	far := sender(t, "far", sendsABC)
	far.Direct = false
	for name, tt := range map[string]struct {
		dataset  string
		upstream []stage.Peer
		want     []string
	}{
		"broken row":         {"broken.jsonl", []stage.Peer{sender(t, "m", sendsABC)}, []string{"broken.jsonl: line 2: not a JSON object"}},
		"item twice":         {"twice.jsonl", []stage.Peer{sender(t, "m", makesUp)}, []string{`twice.jsonl: line 2: item "a" stands in line 1 already`}},
		"no rows":            {"empty.jsonl", []stage.Peer{imported}, []string{"empty.jsonl: the dataset has no rows"}},
		"unknown graders":    {"nobody.jsonl", []stage.Peer{imported}, []string{`line 1: item "a" names grader "G1"`, `line 2: item "b" names grader "zz"`}},
		"both":               {"nobody!.jsonl", []stage.Peer{imported}, []string{`names grader "zz"`, "line 2: not a JSON"}},
		"other items":        {"other.jsonl", []stage.Peer{sender(t, "m", sendsABC)}, []string{`other.jsonl: no row has the id of an item that stage "m" sends`}},
		"items never sent":   {"c.jsonl", []stage.Peer{sender(t, "m", sendsOne)}, []string{"no row has the id"}},
		"other foreign ones": {"other.jsonl", []stage.Peer{sender(t, "m", sendsOdd)}, []string{"no row has the id"}},
		"one in common":      {"c.jsonl", []stage.Peer{sender(t, "m", sendsABC)}, nil},
		"in any order":       {"c.jsonl", []stage.Peer{sender(t, "m", mixesOne)}, nil},
		"foreign ids":        {"line-1.jsonl", []stage.Peer{sender(t, "m", sendsOdd)}, nil},
		"some rows alike":    {"some.jsonl", []stage.Peer{sender(t, "m", sendsABC)}, nil},
		"what is sent":       {"./abc.jsonl", []stage.Peer{sender(t, "m", sendsABC)}, nil},
		"synthetic":          {"other.jsonl", []stage.Peer{sender(t, "m", makesUp)}, nil},
		"imported":           {"other.jsonl", []stage.Peer{imported, far}, nil},
		"imported or not":    {"other.jsonl", []stage.Peer{sender(t, "m", sendsABC), imported}, nil},
		"one of two":         {"line-1.jsonl", []stage.Peer{sender(t, "m", sendsABC), sender(t, "n", sendsOdd)}, nil},
		"none of two":        {"other.jsonl", []stage.Peer{sender(t, "m", sendsABC), sender(t, "n", sendsOdd)}, []string{`stage "m"`}},
		"missing":            {"nowhere.jsonl", []stage.Peer{sender(t, "m", sendsABC)}, nil},
	} {
		r := opened(t, fmt.Sprintf(`{"dataset": %q, "graders": [{"id": "g", "type": "equals", "from": "/nowhere"}]}`, tt.dataset), files, tt.upstream...)
		got := r.Problems()
		for i := range got {
			if i >= len(tt.want) || got[i].Pointer != "/dataset" || !strings.Contains(got[i].Message, tt.want[i]) {
				t.Errorf("%s: %+v, want %q", name, got[i], tt.want)
			}
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s: %d problems, want %q", name, len(got), tt.want)
		}
	}
}

// What is wrong with the rows of the file that is sent, the stage that sends
// them says; which graders there are, it does not know.
func TestRowsThatAreSentAreTheSendersToJudge(t *testing.T) {
	const graders = `"graders": [{"id": "g", "type": "equals"}]`
	files := map[string]string{"abc.jsonl": `{"id":"a","prompt":"p","graders":["gg"]}` + "\n{bad"}
	for _, with := range []string{`{` + graders + `}`, `{"dataset": "abc.jsonl", ` + graders + `}`} {
		got := opened(t, with, files, sender(t, "m", sendsABC)).Problems()
		if len(got) != 1 || got[0].Pointer != "/dataset" || !strings.Contains(got[0].Message, `"gg"`) || !strings.Contains(got[0].Hint, `"g"`) {
			t.Errorf("%s: %+v, want the grader alone", with, got)
		}
	}
}

// Rows that were made for another plan name any number of graders.
func TestUnknownGradersAreToldOnceAndBounded(t *testing.T) {
	var src strings.Builder
	for i := range 100 {
		fmt.Fprintf(&src, `{"id":"%d","graders":["x%d","x%d"]}`+"\n", i, i%50, i%50)
	}
	got := opened(t, `{"dataset": "d", "graders": [{"id": "g", "type": "equals"}]}`, map[string]string{"d": src.String()}, sender(t, "m", makesUp)).Problems()
	if len(got) != maxUnknown {
		t.Errorf("%d problems, want %d", len(got), maxUnknown)
	}
}
