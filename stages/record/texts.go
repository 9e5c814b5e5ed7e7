package record

import (
	"bytes"
	"slices"

	"anvil/stages/internal/jsontree"
)

// textNames are members under which clients keep what was asked and answered. No
// member of a benchmark record or of its summary bears one of them.
func textNames() []string {
	return []string{"text", "content", "reasoning", "output_text", "response", "answer", "prompt", "messages"}
}

// noTexts reports prompts and generated texts, wherever they stand: only live
// runs keep them (records.md 3.3). The texts themselves are not repeated.
func (c *checker) noTexts(doc jsontree.Value) {
	if mayHoldText(doc.Raw()) {
		c.reportTexts(doc, "")
	}
}

func (c *checker) reportTexts(v jsontree.Value, pointer string) {
	for name, m := range v.Members() {
		at := jsontree.Child(pointer, name)
		if isText(name, m) {
			c.problem(at, "text.kept", jsontree.Value{}, nil, "it holds text of a prompt or an answer (%d bytes), which this kind of record must not", len(m.Raw()))
			continue
		}
		c.reportTexts(m, at)
	}
	for i, e := range v.Elems() {
		c.reportTexts(e, jsontree.Index(pointer, i))
	}
}

// mayHoldText looks for the names without a walk; an escape may spell any.
func mayHoldText(src []byte) bool {
	for _, name := range textNames() {
		if bytes.Contains(src, []byte(`"`+name+`"`)) {
			return true
		}
	}
	return bytes.Contains(src, []byte(`\u`))
}

// isText tells whether a member of that name holds text: a string, or anything
// with one in it.
func isText(name string, v jsontree.Value) bool {
	return slices.Contains(textNames(), name) && holdsText(v)
}

func holdsText(v jsontree.Value) bool {
	for _, m := range v.Members() {
		if holdsText(m) {
			return true
		}
	}
	for _, e := range v.Elems() {
		if holdsText(e) {
			return true
		}
	}
	return v.Str() != ""
}
