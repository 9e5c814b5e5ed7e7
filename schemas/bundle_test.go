package schemas

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// compileAlone compiles a schema with the library's own compiler, which knows
// neither our files nor our keywords and may load nothing.
func compileAlone(t *testing.T, src []byte) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		return nil, errors.New("it is not alone: " + url)
	}
	if err := c.AddResource("https://example.org/alone.json", bytes.NewReader(src)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("https://example.org/alone.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryBundleStandsAlone(t *testing.T) {
	bundled := 0
	for _, id := range List() {
		t.Run(string(id), func(t *testing.T) {
			src, err := Bundle(id)
			if err != nil {
				t.Fatal(err)
			}
			for _, ref := range fileReference.FindAllSubmatch(src, -1) {
				if len(ref[2]) > 0 {
					t.Errorf("it refers to %s", ref[2])
				}
			}
			own, err := Source(id)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(src, own) {
				bundled++
			}
			s := compileAlone(t, src)
			// Both refuse the same: the rules came along, those of other files too.
			whole, err := Compile(id)
			if err != nil {
				t.Fatal(err)
			}
			for _, doc := range []string{`{}`, `[]`, `"x"`, `{"schema": 1}`, `{"schema": "` + string(id) + `"}`} {
				v := decodeText(t, doc)
				if got, want := s.Validate(v) == nil, whole.Validate(v) == nil; got != want {
					t.Errorf("%s: fits the bundle: %v, the schema: %v", doc, got, want)
				}
			}
			again, err := Bundle(id)
			if err != nil || !bytes.Equal(src, again) {
				t.Errorf("a second time it is another text (%v)", err)
			}
		})
	}
	if bundled == 0 {
		t.Error("nothing was bundled: the test proves nothing")
	}
}

// A rule that stands two files away is in the bundle.
func TestABundleHoldsTheRulesOfOtherFiles(t *testing.T) {
	const sum = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	const weights = `{"schema": "anvil.weights-verification/v1", "ok": true, "manifest_sha256": "` + sum + `", "reference": null, "repo": null, "revision": null,
		"replicas": [{"name": "a", "root": "x", "manifest_sha256": "` + sum + `", "files": [], "missing": [], "unexpected": [], "ignored": [], "incomplete": []}],
		"bytes": 0, "limitations": [{"code": "samples.few", "severity": "note", "origin": "plan", "applies_to": ["*"], "text": "x"}]}`
	src, err := Bundle("anvil.weights-verification/v1")
	if err != nil {
		t.Fatal(err)
	}
	s := compileAlone(t, src)
	for name, c := range map[string]struct {
		from, to string
		fits     bool
	}{
		"as it is":                      {"", "", true},
		"a digest of another length":    {sum, sum[1:], false},
		"a severity that is none":       {`"note"`, `"loud"`, false},
		"a rule of the file's own":      {`"bytes": 0`, `"bytes": -1`, false},
		"without its limitation's code": {`"code": "samples.few", `, ``, false},
	} {
		if err := s.Validate(decodeText(t, strings.Replace(weights, c.from, c.to, 1))); (err == nil) != c.fits {
			t.Errorf("%s: %v, want it to fit: %v", name, err, c.fits)
		}
	}
}

func TestNoBundleOfWhatIsNoSchema(t *testing.T) {
	if src, err := Bundle("anvil.nope/v9"); err == nil {
		t.Errorf("got %s", src)
	}
}
