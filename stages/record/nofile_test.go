//go:build unix

package record

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestWhatIsNoFileIsOneClearLine(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.json")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{
		fifo: "it is a FIFO, not a file", empty: "no file below it ends in", filepath.Join(dir, "absent.json"): "no such file",
		filepath.Join(dir, "*.none"): "no file matches the pattern", "[": "",
	} {
		reports, err := Check(context.Background(), []string{arg}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(reports) != 1 || reports[0].OK || !reports[0].Unreadable || !strings.Contains(reports[0].Problems[0].Text, want) || Exit(reports, false) != 2 {
			t.Errorf("%s: %+v, want one unreadable with %q", arg, reports, want)
		}
	}
	if r := CheckFile(dir, Options{}); !strings.Contains(r.Problems[0].Text, "it is a directory") {
		t.Errorf("a directory: %s", describe(r))
	}
}
