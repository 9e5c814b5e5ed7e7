package main

import (
	"io"
	"os"

	"github.com/mattn/go-isatty"
)

// live tells whether progress may move on w: a terminal that can, and a user
// who did not ask for plain output.
func (a *app) live(w io.Writer) bool {
	for _, name := range []string{"NO_COLOR", "CI"} {
		if v, ok := a.getenv(name); ok && v != "" {
			return false
		}
	}
	if term, _ := a.getenv("TERM"); term == "" || term == "dumb" {
		return false
	}
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
