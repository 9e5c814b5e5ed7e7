package plan

import (
	"io"

	"anvil/pipeline/stage"
)

// open gives a kind that must look at a file to know what it will publish that
// file, by its path relative to the plan. What would block is refused.
func (p *parser) open(path string) (io.ReadCloser, error) { return stage.OpenRegular(p.join(path)) }
