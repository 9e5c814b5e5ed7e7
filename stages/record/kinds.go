package record

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"anvil/schemas"
	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/shape"
	"anvil/stages/internal/weights"
)

// A Kind is a kind of record that is read: how its content is recognised and
// what is checked.
type Kind struct {
	ID schemas.ID

	// Members are those that a document of the kind has at its top, whatever its
	// shape. Recognition goes by them: a label alone is no evidence, and a record
	// whose label is damaged is still what its members say.
	Members []string

	// Check reports all that is wrong with a document; nil: its schema and its
	// limitation set are all there is to check.
	Check func(*checker, jsontree.Value)

	// Lines checks a JSON Lines artifact from its second line on.
	Lines func(*checker, jsontree.Value, *LineReader)
}

// All lists the kinds with rules of their own. A new one is a line here and a
// file beside it. Documents and JSON Lines of any other anvil schema are held
// against that schema and their limitation set.
func All() []Kind {
	return []Kind{
		{ID: BenchmarkSchema, Members: benchmarkCore, Check: also(checkBenchmark, checkSimulatedCell)},
		{ID: DerivedSummarySchema, Members: derivedMembers, Check: checkDerived},
		{ID: ServingCellSchema, Members: servingCellMembers, Check: checkServingCell},
		{ID: LiveRunSchema, Members: liveRunMembers, Check: also(checkLiveRun, checkSimulatedRun)},
		{ID: AttemptsSchema, Lines: checkAttempts},
		{ID: GradesSchema, Lines: checkGrades},
		{ID: MeasurementSchema, Check: checkMeasurement},
		{ID: ScheduleSchema, Check: checkSchedule},
		{ID: weights.VerificationSchema, Check: checkWeights},
		{ID: "anvil.record/v1", Check: checkFinal},
	}
}

// kindOf finds the kind of a document by its content: the foreign kind of which
// it has the most members, if that is more than half of them; else, for
// documents of our own, the schema that they name. The label decides between
// equals, and it alone makes a kind of what has few of its members: such a
// document is then rejected with all that it lacks.
func kindOf(doc jsontree.Value) (Kind, bool) {
	if !doc.Is(jsontree.Object) {
		return Kind{}, false
	}
	label := schemas.ID(doc.Get("schema").Str())
	best, score := Kind{}, 0.5
	for _, k := range All() {
		if share := k.share(doc); share > score || share == score && k.ID == label {
			best, score = k, share
		}
	}
	if best.ID != "" {
		return best, true
	}
	if i := slices.IndexFunc(All(), func(k Kind) bool { return k.ID == label }); i >= 0 {
		return All()[i], true
	}
	if slices.Contains(schemas.List(), label) {
		return Kind{ID: label}, true
	}
	return Kind{}, false
}

// share is which part of the kind's members the document has.
func (k Kind) share(doc jsontree.Value) float64 {
	n := 0
	for _, name := range k.Members {
		if doc.Get(name).Exists() {
			n++
		}
	}
	return float64(n) / float64(max(1, len(k.Members)))
}

// conforms reports what the schema of the id does not allow.
func (c *checker) conforms(id schemas.ID, doc jsontree.Value) {
	s, err := shape.Compile(id)
	if err != nil {
		c.problem("", "schema.missing", jsontree.Value{}, nil, "%v", err)
		return
	}
	c.accepts(s, doc, "")
}

// accepts reports what a schema does not allow. Most values are as they should
// be, and for those no pointer is made.
func (c *checker) accepts(s *shape.Schema, v jsontree.Value, pointer string) bool {
	if s.Accepts(v) {
		return true
	}
	c.violations(s.Check(v, pointer, maxProblems))
	return false
}

func (c *checker) violations(vs []shape.Violation) {
	for _, v := range vs {
		c.problem(v.Pointer, "schema."+v.Keyword, v.Value, nil, "%s", v.Text)
	}
}

// ErrNotRecognised is wrapped when a file is no record of a known kind.
var ErrNotRecognised = errors.New("no record of a known kind")

// Recognise tells by its content which kind of record r holds: a document of a
// foreign kind, plain or zstd, or a document or JSON Lines of our own. It reads
// no more than it must.
func Recognise(r io.Reader) (schemas.ID, error) {
	src, err := openSource(r)
	if err != nil {
		return "", err
	}
	defer src.plain.Close()
	if src.kind.Lines != nil {
		return src.kind.ID, nil
	}
	doc, err := src.document()
	if err != nil {
		return "", err
	}
	k, ok := kindOf(doc)
	if !ok {
		return "", fmt.Errorf("%w: %s", ErrNotRecognised, unknownBecause(doc))
	}
	if k.ID == BenchmarkSchema && missesCore(doc) {
		return "", fmt.Errorf("%w: its label is %s, but it lacks %s", ErrNotRecognised, k.ID, strings.Join(missing(doc, benchmarkCore), ", "))
	}
	return k.ID, nil
}

func missing(doc jsontree.Value, names []string) []string {
	var out []string
	for _, n := range names {
		if !doc.Get(n).Exists() {
			out = append(out, n)
		}
	}
	return out
}

func unknownBecause(doc jsontree.Value) string {
	label := doc.Get("schema")
	switch {
	case !doc.Is(jsontree.Object):
		return "the document is " + describeKind(doc.Kind())
	case label.Is(jsontree.String):
		return fmt.Sprintf("the schema %q is not known", clip(label.Str(), 80))
	}
	return "it has no schema, and its members are those of no known kind"
}

func describeKind(k jsontree.Kind) string {
	switch k {
	case jsontree.Array, jsontree.Object:
		return "an " + k.String()
	case jsontree.Null:
		return "null"
	default:
		return "a " + k.String()
	}
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
