package derive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// tolerance is how far a float may be from what is computed again, relative:
// other machines may fuse or order operations otherwise.
const tolerance = 1e-9

// compareRecord compares the record with what was made again, member by member.
// The id depends on the bytes, and the limitations have a comparison of their own.
func (v *validation) compareRecord(again []byte) {
	v.out.BytesEqual = new(bytes.Equal(again, v.bytes))
	doc, err := decodeNumbers(again)
	if err != nil {
		v.problem(record.LevelRederived, v.rec, "", "rederive", nil, nil, "%v", err)
		return
	}
	stored, okS := v.doc.(map[string]any)
	computed, okC := doc.(map[string]any)
	if !okS || !okC {
		return // the schema has said so
	}
	compareTrees("", withoutOwn(stored), withoutOwn(computed), func(pointer string, s, c any, text string) {
		v.problem(record.LevelRederived, v.rec, pointer, "rederive", s, c, "%s", text)
	})
}

func withoutOwn(m map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range m {
		if key != "id" && key != "limitations" {
			out[key] = value
		}
	}
	return out
}

// compareTrees reports every difference between two JSON values.
func compareTrees(pointer string, stored, computed any, report func(pointer string, stored, computed any, text string)) {
	switch c := computed.(type) {
	case map[string]any:
		s, ok := stored.(map[string]any)
		if !ok {
			report(pointer, stored, nil, "an object is derived")
			return
		}
		compareObjects(pointer, s, c, report)
		return
	case []any:
		s, ok := stored.([]any)
		if !ok {
			report(pointer, stored, nil, "a list is derived")
			return
		}
		for i := range max(len(s), len(c)) {
			at := fmt.Sprintf("%s/%d", pointer, i)
			switch {
			case i >= len(s):
				report(at, nil, brief(c[i]), "is missing")
			case i >= len(c):
				report(at, brief(s[i]), nil, "nothing derives it")
			default:
				compareTrees(at, s[i], c[i], report)
			}
		}
		return
	}
	if !sameScalars(stored, computed) {
		report(pointer, brief(stored), computed, "is not what is derived")
	}
}

func compareObjects(pointer string, s, c map[string]any, report func(pointer string, stored, computed any, text string)) {
	keys := slices.Compact(slices.Sorted(slices.Values(append(sortedKeys(s), sortedKeys(c)...))))
	for _, key := range keys {
		at := pointer + "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
		sv, inS := s[key]
		cv, inC := c[key]
		switch {
		case !inS:
			report(at, nil, brief(cv), "is missing")
		case !inC:
			report(at, brief(sv), nil, "nothing derives it")
		default:
			compareTrees(at, sv, cv, report)
		}
	}
}

// brief keeps whole objects out of a report.
func brief(v any) any {
	switch v.(type) {
	case map[string]any, []any:
		return nil
	}
	return v
}

// sameScalars compares strings, booleans, null and integers exactly, and floats
// within the tolerance.
func sameScalars(a, b any) bool {
	x, okX := a.(json.Number)
	y, okY := b.(json.Number)
	if !okX || !okY {
		return a == b && !isContainer(a)
	}
	if x == y {
		return true
	}
	if isInteger(x) && isInteger(y) {
		return false
	}
	f, errF := x.Float64()
	g, errG := y.Float64()
	return errF == nil && errG == nil && math.Abs(f-g) <= tolerance*max(math.Abs(f), math.Abs(g))
}

func isContainer(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

func isInteger(n json.Number) bool { return !strings.ContainsAny(n.String(), ".eE") }

// maxFaultyLines bounds how many lines of one file are listed.
const maxFaultyLines = 20

// compareGrades compares stored grades with those made again, line by line.
func (v *validation) compareGrades(a stage.Artifact, again *Graded) (err error) {
	var plain bytes.Buffer
	if err := record.WriteGrades(&plain, again.Header, again.Rows, again.Footer); err != nil {
		return err
	}
	file, err := a.Open(v.ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	stored, err := record.NewLineReader(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stored.Close()) }()
	faulty := 0
	for number, want := range bytes.Split(bytes.TrimSuffix(plain.Bytes(), []byte("\n")), []byte("\n")) {
		line, err := stored.Next()
		if err != nil {
			return fmt.Errorf("line %d: %w", number+1, err)
		}
		if bytes.Equal(line, want) || v.sameLine(a, number+1, line, want) {
			continue
		}
		if faulty++; faulty >= maxFaultyLines {
			return fmt.Errorf("more than %d lines differ", faulty-1)
		}
	}
	if _, err := stored.Next(); err == nil {
		return errors.New("there are more lines than planned requests")
	}
	return nil
}

func (v *validation) sameLine(a stage.Artifact, number int, line, want []byte) bool {
	s, errS := decodeNumbers(line)
	c, errC := decodeNumbers(want)
	if errS != nil || errC != nil {
		return errS != nil // the reading has reported a line that is no JSON
	}
	same := true
	compareTrees(fmt.Sprintf("/line/%d", number), s, c, func(pointer string, stored, computed any, text string) {
		same = false
		v.problem(record.LevelRederived, a, pointer, "rederive", stored, computed, "%s", text)
	})
	return same
}
