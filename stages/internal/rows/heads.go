package rows

import (
	"errors"
	"fmt"
	"io"

	"anvil/pipeline/digest"
)

// Heads calls do for every row of a dataset of anvil.dataset/v1, with its line,
// its head and its text, valid until do returns. A row that nobody could grade
// by is an error, as is a file without rows; whether ids differ is do's to say,
// which knows best what to keep of them: see Twice. Errors name the line.
func Heads(file io.Reader, do func(line int, h Head, raw []byte) error) error {
	none := true
	err := Each(file, func(line int, raw []byte) error {
		none = false
		err := Strict(raw)
		if err == nil {
			var h Head
			if h, err = ReadHead(raw); err == nil {
				err = do(line, h, raw)
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		return nil
	})
	if err == nil && none {
		err = errors.New("the dataset has no rows")
	}
	return err
}

// Twice is the error of a row whose id an earlier line has.
func Twice(id string, line int) error {
	return fmt.Errorf("item %q stands in line %d already", id, line)
}

// UnknownGrader is the error of a row that names a grader which the plan does
// not have.
func UnknownGrader(line int, item, grader string) error {
	return fmt.Errorf("line %d: item %q names grader %q, which the plan does not have", line, item, grader)
}

// Items are the ids of the rows of a dataset with their lines. They are kept by
// digest: how long an id is, is the file's to choose.
type Items map[digest.Digest]int

// Add adds the id of a row; one that is there already is an error.
func (i Items) Add(id string, line int) error {
	d := digest.FromBytes([]byte(id))
	if old, ok := i[d]; ok {
		return Twice(id, old)
	}
	i[d] = line
	return nil
}

// Has tells whether a row has the id.
func (i Items) Has(id string) bool {
	_, ok := i[digest.FromBytes([]byte(id))]
	return ok
}
