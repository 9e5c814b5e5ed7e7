package plan

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// open gives a kind that must look at a file to know what it will publish that
// file, by its path relative to the plan. What would block is refused.
func (p *parser) open(path string) (io.ReadCloser, error) {
	path = p.join(path)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", filepath.Base(path))
	}
	return os.Open(path)
}
