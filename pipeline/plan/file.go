package plan

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"anvil/schemas"
)

type fileState struct {
	err  error
	mode fs.FileMode
}

// join returns the path that a plan means by one that it writes.
func (p *parser) join(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(p.dir, path)
}

// checkFile reports a file that is not there, at the value that names it.
func (p *parser) checkFile(pointer, path string) {
	full := p.join(path)
	state, ok := p.stats[full]
	if !ok {
		info, err := os.Stat(full)
		state = fileState{err: err}
		if err == nil {
			state.mode = info.Mode()
		}
		if p.stats == nil {
			p.stats = map[string]fileState{}
		}
		p.stats[full] = state
	}
	switch {
	case state.err != nil && os.IsNotExist(state.err):
		p.problem(pointer, fmt.Sprintf("file %q is not there", path), "paths start in the folder of the plan")
	case state.err != nil:
		p.problem(pointer, fmt.Sprintf("file %q cannot be read", path), "")
	case state.mode.IsDir():
		p.problem(pointer, fmt.Sprintf("%q is a folder, not a file", path), "")
	case !state.mode.IsRegular():
		p.problem(pointer, fmt.Sprintf("%q is no regular file", path), "a pipe or a device may never end; copy what it gives into a file")
	}
}

// filesOf lists the files that a resolved configuration names, those of its
// endpoints among them, and reports each that is not there.
func (p *parser) filesOf(prefix string, marks []schemas.Mark) []File {
	var files []File
	add := func(pointer, written string, optional bool) {
		files = append(files, File{Pointer: pointer, Path: p.join(written), Written: written, Optional: optional})
	}
	for _, m := range marks {
		if path, ok := m.Value.(string); ok && m.Marks.File {
			add(m.Pointer, path, m.Marks.Resolved)
			if !m.Marks.Resolved {
				p.checkFile(prefix+m.Pointer, path)
			}
		}
		if e, ok := m.Value.(map[string]any); ok && m.Marks.Endpoint {
			tls, _ := e["tls"].(map[string]any)
			if ca, ok := tls["ca_file"].(string); ok {
				add(m.Pointer+"/tls/ca_file", ca, false)
			}
		}
	}
	return files
}
