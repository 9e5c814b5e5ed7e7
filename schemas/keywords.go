package schemas

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Key says whether a property enters the stage key.
type Key string

// The classes of a configuration's property. Semantic is the unmarked one.
const (
	Semantic Key = ""
	Cosmetic Key = "cosmetic"
	Policy   Key = "policy"
)

// Marks are the keywords of our own on one schema.
type Marks struct {
	Key      Key
	File     bool
	Endpoint bool
	Resolved bool // set by the kind's Resolve; a plan that writes it is wrong
	Like     bool // the id of a stage of the plan with which this one is multiplied, without depending on it
}

// MarksOf returns the marks of s itself, not those behind its $ref.
func MarksOf(s *jsonschema.Schema) Marks {
	m, _ := s.Extensions[marksName].(marks)
	return Marks(m)
}

const marksName = "x-anvil"

type marks Marks

// Validate accepts everything: marks say how a value is used, not what it is.
func (marks) Validate(jsonschema.ValidationContext, any) error { return nil }

// extend gives a schema the keywords of our own that it says in its file.
func extend(s *jsonschema.Schema, m map[string]any) error {
	out, found, err := readMarks(m)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Location, err)
	}
	d, hasDefault := m["default"]
	if !found && !hasDefault {
		return nil
	}
	s.Extensions = map[string]jsonschema.ExtSchema{}
	if found {
		s.Extensions[marksName] = out
	}
	if hasDefault {
		s.Extensions[defaultName] = defaultValue{d}
	}
	return nil
}

func readMarks(m map[string]any) (out marks, found bool, err error) {
	for name, v := range m {
		switch name {
		case "x-anvil-key":
			s, _ := v.(string)
			if s != string(Cosmetic) && s != string(Policy) {
				return out, false, fmt.Errorf("x-anvil-key: want %q or %q, got %v", Cosmetic, Policy, v)
			}
			out.Key, found = Key(s), true
		case "x-anvil-file":
			out.File, found = v == true, true
		case "x-anvil-endpoint":
			out.Endpoint, found = v == true, true
		case "x-anvil-resolved":
			out.Resolved, found = v == true, true
		case "x-anvil-like":
			out.Like, found = v == true, true
		}
	}
	return out, found, nil
}

var sizeText = regexp.MustCompile(`^(0|[1-9][0-9]*)(B|KiB|MiB|GiB|TiB)$`)

// formats are those of our own.
var formats = map[string]func(any) bool{
	"anvil-duration": func(v any) bool {
		s, ok := v.(string)
		if !ok {
			return true
		}
		d, err := time.ParseDuration(s)
		return err == nil && d >= 0
	},
	"anvil-size": func(v any) bool {
		s, ok := v.(string)
		if !ok {
			return true
		}
		_, err := ParseSize(s)
		return err == nil
	},
}

// ParseSize reads "64KiB": digits and one of B, KiB, MiB, GiB, TiB, without a
// space. The result is in bytes.
func ParseSize(s string) (int64, error) {
	m := sizeText.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("size %q: want digits and B, KiB, MiB, GiB or TiB", s)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	shift := map[string]uint{"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[m[2]]
	if err != nil || n > (1<<62)>>shift {
		return 0, fmt.Errorf("size %q: too large", s)
	}
	return n << shift, nil
}

// declaredID finds the id that a schema file says near its head. None is
// parsed for it; a test holds the result against the parsed files.
func declaredID(src []byte) (ID, bool) {
	_, rest, ok := bytes.Cut(src, []byte(`"x-anvil-id": "`))
	if !ok {
		return "", false
	}
	id, _, ok := bytes.Cut(rest, []byte(`"`))
	return ID(id), ok
}
