package record

import (
	"fmt"
	"regexp"
	"strings"

	"anvil/pipeline/digest"
	"anvil/stages/internal/jsontree"
)

// runIDDigits is how many hex digits of the record's digest its run id ends in.
const runIDDigits = 12

var runIDForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,159}$`)

// splitRunID parts "<public id>-<12 hex>".
func splitRunID(id string) (public string, ok bool) {
	i := strings.LastIndexByte(id, '-')
	if i < 1 || len(id)-i-1 != runIDDigits || strings.Trim(id[i+1:], "0123456789abcdef") != "" {
		return "", false
	}
	return id[:i], true
}

// runIDDigest is the SHA-256 of the canonical form of the record with its run
// id replaced by the public id alone (records.md 4.6).
func runIDDigest(record jsontree.Obj, public string) (digest.Digest, error) {
	blank := make(jsontree.Obj, len(record))
	for i, m := range record {
		if m.Name == "run_id" {
			m.Value = public
		}
		blank[i] = m
	}
	text, err := jsontree.Canonical(blank)
	return digest.FromBytes(text), err
}

// members is an object as it can be written again, number text kept.
func members(v jsontree.Value) jsontree.Obj {
	var o jsontree.Obj
	for name, m := range v.Members() {
		o = append(o, jsontree.Member{Name: name, Value: m})
	}
	return o
}

// MintRunID returns the content-derived run id of a record, JSON with a member
// run_id whose value does not matter.
func MintRunID(record []byte, publicID string) (string, error) {
	v, err := jsontree.Parse(record)
	if err != nil {
		return "", err
	}
	return mintRunID(members(v), publicID)
}

func mintRunID(record jsontree.Obj, publicID string) (string, error) {
	d, err := runIDDigest(record, publicID)
	if err != nil {
		return "", err
	}
	id := publicID + "-" + d.String()[:runIDDigits]
	if !runIDForm.MatchString(id) {
		return "", fmt.Errorf("public id %q: want letters, digits and _ . -, beginning with a letter or digit, at most %d", publicID, 160-runIDDigits-1)
	}
	return id, nil
}

// checkRunID verifies the suffix.
func (c *checker) checkRunID(doc jsontree.Value) {
	id := doc.Get("run_id")
	if !id.Is(jsontree.String) {
		return
	}
	public, ok := splitRunID(id.Str())
	if !ok {
		c.problem("/run_id", "run-id.form", id, nil, "want <public id>-<%d hex digits>", runIDDigits)
		return
	}
	want, err := mintRunID(members(doc), public)
	if err != nil {
		c.problem("/run_id", "run-id.form", id, nil, "%v", err)
		return
	}
	c.recomputed = append(c.recomputed, jsontree.Member{Name: "run_id", Value: want})
	c.textIs("/run_id", "run-id.content", id, want, "the id ends in the first %d hex digits of the record's own digest", runIDDigits)
}
