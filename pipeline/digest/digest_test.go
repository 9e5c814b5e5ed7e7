package digest

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const emptyText = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestFromReaderAgreesWithFromBytes(t *testing.T) {
	d, n, err := FromReader(iotest.OneByteReader(strings.NewReader("abc")))
	if err != nil || n != 3 || d != FromBytes([]byte("abc")) {
		t.Errorf("FromReader = %s, %d, %v", d, n, err)
	}
	if got := FromBytes(nil).String(); got != emptyText {
		t.Errorf("digest of nothing is %s, want %s", got, emptyText)
	}
}

func TestParseIsStrict(t *testing.T) {
	for _, in := range []string{
		"", emptyText[1:], emptyText + "0", strings.ToUpper(emptyText), "sha256:" + emptyText[7:], " " + emptyText[1:],
		emptyText[:63] + "g", emptyText[:62] + "é", strings.Repeat("0", 1<<20),
	} {
		if d, err := Parse(in); err == nil {
			t.Errorf("Parse(%.80q) = %s, want an error", in, d)
		} else if len(err.Error()) > 400 {
			t.Errorf("error of %d bytes for an input of %d", len(err.Error()), len(in))
		}
	}
}

func TestJSONHoldsTheText(t *testing.T) {
	b, err := json.Marshal(map[Digest]Digest{FromBytes(nil): FromBytes(nil)})
	if want := `{"` + emptyText + `":"` + emptyText + `"}`; err != nil || string(b) != want {
		t.Errorf("got %s, %v, want %s", b, err, want)
	}
	var d Digest
	if err := json.Unmarshal([]byte(`"`+emptyText+`"`), &d); err != nil || d != FromBytes(nil) {
		t.Errorf("read back %s, %v", d, err)
	}
}

func TestVerifyFailsBeforeEOF(t *testing.T) {
	const content = "some content"
	right := FromBytes([]byte(content))
	tests := map[string]struct {
		content string
		want    Digest
		size    int64
		ok      bool
	}{
		"right":           {content, right, int64(len(content)), true},
		"size not known":  {content, right, -1, true},
		"flipped":         {"some Content", right, int64(len(content)), false},
		"short":           {content[:5], right, int64(len(content)), false},
		"long":            {content + "x", right, int64(len(content)), false},
		"long, no size":   {content + "x", right, -1, false},
		"wrong size":      {content, right, 3, false},
		"empty":           {"", right, int64(len(content)), false},
		"empty and right": {"", FromBytes(nil), 0, true},
	}
	for name, tt := range tests {
		for _, wrap := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
			got, err := io.ReadAll(Verify(io.NopCloser(wrap(strings.NewReader(tt.content))), tt.want, tt.size))
			var mismatch *MismatchError
			switch {
			case tt.ok && (err != nil || string(got) != tt.content):
				t.Errorf("%s: read %q, %v", name, got, err)
			case !tt.ok && !errors.As(err, &mismatch):
				t.Errorf("%s: read %q, %v, want a MismatchError", name, got, err)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(emptyText)
	f.Add("")
	f.Add(strings.Repeat("z", 64))
	f.Fuzz(func(t *testing.T, s string) {
		d, err := Parse(s)
		if err == nil && d.String() != s {
			t.Errorf("Parse(%q) prints as %q", s, d)
		}
	})
}
