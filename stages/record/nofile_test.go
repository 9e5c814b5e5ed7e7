//go:build unix

package record

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A source that was named and cannot be read is no fault of the summary; one that
// lies beside it is.
func TestSourcesThatCannotBeReadAreTheCallersError(t *testing.T) {
	dir := t.TempDir()
	summary, fifo, empty, text := filepath.Join(dir, "summary.json"), filepath.Join(dir, "fifo"), filepath.Join(dir, "empty"), filepath.Join(dir, "text")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	for name, content := range map[string][]byte{
		summary: testdata(t, corpus+"/glm-capacity-c4-16word-final-summary.json"), empty: nil, text: []byte("no record"),
		filepath.Join(dir, "glm-capacity-c4-16word-final.json"): []byte("broken"),
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for source, want := range map[string]string{
		filepath.Join(dir, "absent"): "no such file", dir: "it is a directory, not a file", fifo: "it is a FIFO, not a file",
		empty: "the file is empty", text: "line 1, column 1",
	} {
		reports, err := Check(context.Background(), []string{summary}, Options{Source: source})
		var lost *SourceError
		if !errors.As(err, &lost) || lost.Path != source || len(reports) > 0 || !strings.HasPrefix(err.Error(), "source "+source+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v and %d reports, want an error with %q", source, err, len(reports), want)
		}
		if r := CheckFile(summary, Options{Source: source}); Exit([]Report{r}, false) != 2 {
			t.Errorf("%s: exit %d, want 2: %s", source, Exit([]Report{r}, false), describe(r))
		}
	}
	reports, err := Check(context.Background(), []string{summary}, Options{})
	if err != nil || len(reports) != 1 || !hasProblem(reports[0], "/source_artifact", "derived.source") || Exit(reports, false) != 5 {
		t.Errorf("a broken source beside it: %v, %+v, want a problem and exit 5", err, reports)
	}
	alien := filepath.Join(corpus, "alien-same-schema.json")
	reports, err = Check(context.Background(), []string{summary}, Options{Source: alien})
	if err != nil || len(reports) != 1 || !hasProblem(reports[0], "/source_artifact", "derived.source") || Exit(reports, false) != 5 {
		t.Errorf("a source that is no such record: %v, %+v, want a problem and exit 5", err, reports)
	}
}

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
