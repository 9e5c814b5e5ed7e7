package prov

import (
	"cmp"
	"slices"
)

// The codes of the problems that Verify finds, with the level that is left when
// one of them is found: 0 for bytes that are not what they were, 1 for papers
// that do not agree, 2 for figures that come out differently.
const (
	ManifestUnreadable = "manifest.unreadable"
	ManifestChanged    = "manifest.changed"  // run.json is not what its statement says
	StatementChanged   = "statement.changed" // a statement is not what its run.json or result gives
	StatementMissing   = "statement.missing"
	FileChanged        = "file.changed"
	FileMissing        = "file.missing"
	FileUnlisted       = "file.unlisted"
	CopyChanged        = "copy.changed" // of a readable copy; the object may be sound
	ObjectDamaged      = "object.damaged"
	ObjectMissing      = "object.missing"
	JournalBroken      = "journal.broken"

	RunUnfinished      = "run.unfinished"
	ManifestDisagrees  = "manifest.disagrees" // with a result, the plan or the journal
	JournalDisagrees   = "journal.disagrees"
	ResultInvalid      = "result.invalid"
	ResultKey          = "result.key"
	ResultInput        = "result.input"
	LimitationLost     = "limitation.lost"
	LimitationForeign  = "limitation.foreign" // raised in a name that the stage does not bear
	LimitationSetWrong = "limitation.set"     // a set that is not in its one form, or not that of the result
	LimitationDocument = "limitation.document"

	NotRederived = "rederive.differs"

	// NotRederivable is no fault: what a record stands on, or how it was made, is
	// not here to be looked at, as of an imported one. It keeps the level below 3
	// and stands among the notes.
	NotRederivable = "rederive.absent"
)

// levelAfter is the level that a problem leaves at most.
func levelAfter(code string) int {
	switch code {
	case ManifestUnreadable, ManifestChanged, StatementChanged, StatementMissing, FileChanged, FileMissing,
		FileUnlisted, ObjectDamaged, ObjectMissing, JournalBroken:
		return 0
	case CopyChanged:
		return 3 // copies are for people; the evidence is the object
	case RunUnfinished, ManifestDisagrees, JournalDisagrees, ResultInvalid, ResultKey, ResultInput,
		LimitationLost, LimitationForeign, LimitationSetWrong, LimitationDocument:
		return 1
	}
	return 2
}

func (rep *Report) add(p Problem) {
	if p.Code == NotRederivable {
		rep.Notes = append(rep.Notes, p)
		rep.Level = min(rep.Level, 2)
		return
	}
	rep.Problems = append(rep.Problems, p)
	rep.Level = min(rep.Level, levelAfter(p.Code))
}

// finish sorts the problems by place and drops what was said twice.
func (rep *Report) finish() {
	rep.Problems, rep.Notes = byPlace(rep.Problems), byPlace(rep.Notes)
	rep.OK = len(rep.Problems) == 0
}

func byPlace(list []Problem) []Problem {
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(list)
}
