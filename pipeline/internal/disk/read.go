package disk

import (
	"errors"
	"fmt"
	"os"
)

// ErrIrregular is wrapped when something else stands where a file of a run
// belongs: to open a pipe would be to wait for a writer.
var ErrIrregular = errors.New("not a regular file")

// ReadFile is root.ReadFile of a regular file.
func ReadFile(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", name, ErrIrregular)
	}
	return root.ReadFile(name)
}
