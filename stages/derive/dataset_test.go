package derive_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"anvil/stages/internal/prompt"
	"anvil/stages/record"
)

// What is fit to be measured is fit to be graded, and what is not is found
// before anything is paid for.
func TestADatasetThatIsMeasuredCanBeGraded(t *testing.T) {
	const good = `{"id":"i","prompt":"p","expected":"x"}`
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write([]byte(good)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file string
		fit  bool
	}{
		"plain":            {good, true},
		"byte order mark":  {"\ufeff" + good, true},
		"carriage returns": {"\r\n" + good + "\r\n\r\n", true},
		"blank lines":      {"\n \t\n" + good + "\n\n", true},
		"zstd":             {packed.String(), true},
		"null lists":       {`{"id":"i","prompt":"p","expected":"x","tags":null,"graders":null}`, true},
		"a mark below":     {good + "\n\ufeff" + `{"id":"j","prompt":"p"}`, false},
		"duplicate key":    {`{"id":"i","prompt":"p","expected":"y","expected":"x"}`, false},
		"no UTF-8":         {"{\"id\":\"i\",\"prompt\":\"p\",\"expected\":\"x\",\"more\":\"\xff\"}", false},
		"tags of a text":   {`{"id":"i","prompt":"p","expected":"x","tags":"t"}`, false},
		"graders of a map": {`{"id":"i","prompt":"p","expected":"x","graders":{}}`, false},
		"no id":            {`{"prompt":"p","expected":"x"}`, false},
		"item twice":       {good + "\n" + good, false},
		"nothing":          {"\n", false},
		"half a line":      {good[:20], false},
	} {
		sent := prompt.Project("anvil", strings.NewReader(tt.file), &bytes.Buffer{})
		l := newLab(t)
		_, graded := l.grade(l.attempts("measure", header(1), []record.Attempt{answered(0, "i", "x", 0, 5)}), tt.file,
			map[string]any{"graders": []any{map[string]any{"id": "g", "type": "equals"}}})
		if (sent == nil) != tt.fit || (graded == nil) != tt.fit {
			t.Errorf("%s: sent with %v, graded with %v, want it fit for both: %v", name, sent, graded, tt.fit)
		}
	}
}
