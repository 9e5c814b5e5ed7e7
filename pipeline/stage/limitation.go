package stage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gowebpki/jcs"

	"anvil/pipeline/digest"
	"anvil/schemas"
)

// Severity says what a limitation does to the figures that it applies to.
type Severity string

// The severities. Void withholds a metric: its value is null, with the reason.
const (
	Note   Severity = "note"
	Caveat Severity = "caveat"
	Void   Severity = "void"
)

// Origins that no stage may bear.
const (
	OriginPlan = "plan"
	OriginRun  = "run"
)

// Every is what AppliesTo holds when a limitation concerns every metric.
const Every = "*"

// A Limitation is something true of the evidence that a reader of the claim
// must know.
type Limitation struct {
	Code      string   `json:"code"`       // dotted, frozen, listed in schemas/limitations.json
	Severity  Severity `json:"severity"`   // the code's default when a stage leaves it empty
	Origin    string   `json:"origin"`     // stage id, "plan" or "run", set by the executor; never a run id
	AppliesTo []string `json:"applies_to"` // metric ids, or "*"; "*" alone when a stage leaves it empty
	Text      string   `json:"text"`
	Evidence  *Ref     `json:"evidence,omitempty"`
}

// A LimitationCode is one row of schemas/limitations.json.
type LimitationCode struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"` // the default
	Text     string   `json:"text"`     // template; {name} stands for a fact
}

// LimitationCodes returns the table of codes, sorted by code.
var LimitationCodes = sync.OnceValue(func() []LimitationCode {
	src, err := schemas.Table("limitations.json")
	if err != nil {
		panic(err)
	}
	var codes []LimitationCode
	if err := json.Unmarshal(src, &codes); err != nil {
		panic(err)
	}
	return codes
})

// Limit builds a limitation of a known code: the severity and the text come
// from the table, with facts, given as name and value in turn, in the text. It
// panics on a code or a fact that the table does not know: a fault of the build.
func Limit(code string, facts ...any) Limitation {
	codes := LimitationCodes()
	i, ok := slices.BinarySearchFunc(codes, code, func(c LimitationCode, code string) int { return cmp.Compare(c.Code, code) })
	if !ok {
		panic("limitation code " + code + " is not in schemas/limitations.json")
	}
	text := codes[i].Text
	for j := 0; j+1 < len(facts); j += 2 {
		place := "{" + fmt.Sprint(facts[j]) + "}"
		if !strings.Contains(text, place) {
			panic("limitation " + code + " has no place " + place)
		}
		text = strings.ReplaceAll(text, place, fmt.Sprint(facts[j+1]))
	}
	return Limitation{Code: code, Severity: codes[i].Severity, AppliesTo: []string{Every}, Text: text}
}

// For returns l restricted to the given metrics.
func (l Limitation) For(metrics ...string) Limitation {
	l.AppliesTo = slices.Clone(metrics)
	return l
}

// A LimitationSet is sorted by (code, origin, text, the rest), without
// duplicates. Build one by NewLimitationSet or Union.
type LimitationSet []Limitation

// NewLimitationSet sorts the limitations and drops duplicates.
func NewLimitationSet(ls ...Limitation) LimitationSet {
	s := make(LimitationSet, 0, len(ls))
	for _, l := range ls {
		l.AppliesTo = slices.Clone(l.AppliesTo)
		slices.Sort(l.AppliesTo)
		l.AppliesTo = slices.Compact(l.AppliesTo)
		s = append(s, l)
	}
	slices.SortFunc(s, compareLimitations)
	return slices.CompactFunc(s, func(a, b Limitation) bool { return compareLimitations(a, b) == 0 })
}

func compareLimitations(a, b Limitation) int {
	return cmp.Or(
		cmp.Compare(a.Code, b.Code),
		cmp.Compare(a.Origin, b.Origin),
		cmp.Compare(a.Text, b.Text),
		cmp.Compare(a.Severity, b.Severity),
		slices.Compare(a.AppliesTo, b.AppliesTo),
		compareEvidence(a.Evidence, b.Evidence),
	)
}

func compareEvidence(a, b *Ref) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Or(
		slices.Compare(a.SHA256[:], b.SHA256[:]),
		slices.Compare(a.Limitations[:], b.Limitations[:]),
		cmp.Compare(a.Schema, b.Schema),
		cmp.Compare(a.Size, b.Size),
	)
}

// Union returns everything that is in s or in one of the others.
func (s LimitationSet) Union(others ...LimitationSet) LimitationSet {
	all := slices.Clone(s)
	for _, t := range others {
		all = append(all, t...)
	}
	return NewLimitationSet(all...)
}

// Missing returns what is in s and not in t, in order.
func (s LimitationSet) Missing(t LimitationSet) LimitationSet {
	var out LimitationSet
	for _, l := range s {
		if _, ok := slices.BinarySearchFunc(t, l, compareLimitations); !ok {
			out = append(out, l)
		}
	}
	return out
}

// Canonical returns the JCS bytes of the set, which are stored as an object of
// their own, and their digest.
func (s LimitationSet) Canonical() ([]byte, digest.Digest) {
	if s == nil {
		s = LimitationSet{}
	}
	raw, err := json.Marshal(s)
	if err == nil {
		raw, err = jcs.Transform(raw)
	}
	if err != nil {
		panic(err) // strings and integers only: neither step can fail
	}
	return raw, digest.FromBytes(raw)
}
