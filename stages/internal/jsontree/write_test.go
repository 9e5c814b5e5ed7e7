package jsontree

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// late asks for the part that comes next only after the one before was handed on.
type lateParts struct {
	bytes.Buffer
	asked, most int // most bytes that were asked for and not handed on
}

func (p *lateParts) part(n int) Late {
	return func() (any, error) {
		p.asked += n
		p.most = max(p.most, p.asked-p.Len())
		return strings.Repeat("x", n), nil
	}
}

func TestWriteHandsOnWhatItHas(t *testing.T) {
	const n, size = 40, flushAt / 4
	parts, plain := &lateParts{}, []any{}
	list := []any{}
	for range n {
		list = append(list, Obj{{"text", parts.part(size)}})
		plain = append(plain, Obj{{"text", strings.Repeat("x", size)}})
	}
	if err := (Renderer{}).Write(parts, Obj{{"a", 1}, {"list", list}, {"b", []any{}}}); err != nil {
		t.Fatal(err)
	}
	want, err := Renderer{}.Render(Obj{{"a", 1}, {"list", plain}, {"b", []any{}}})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(parts.Bytes(), want) {
		t.Errorf("got %d bytes, want the %d of Render", parts.Len(), len(want))
	}
	if parts.most > 2*flushAt {
		t.Errorf("%d bytes were held of %d", parts.most, len(want))
	}
}

func TestALateValueThatFailsIsNamed(t *testing.T) {
	broken := errors.New("broken")
	_, err := Renderer{}.Render(Obj{{"list", []any{Late(func() (any, error) { return nil, broken })}}})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "/list/0") {
		t.Errorf("error %v", err)
	}
}
