package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/internal/disk"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, hook disk.Hook) *disk.Disk {
	tb.Helper()
	d, err := disk.Open(tb.TempDir(), hook)
	must(tb, err)
	tb.Cleanup(func() { d.Close() })
	return d
}

func TestWriteFileTakesTheStepsInOrder(t *testing.T) {
	var steps []string
	d := open(t, func(s disk.Step) error { steps = append(steps, string(s.Op)+" "+s.Path); return nil })
	must(t, d.MkdirAll("a/b"))
	must(t, d.WriteFile("a/b/c", []byte("content")))
	want := []string{
		"mkdir a/b", "mkdir a", "syncdir .", "mkdir a/b", "syncdir a",
		"create a/b/.c.tmp", "write a/b/.c.tmp", "torn a/b/.c.tmp", "sync a/b/.c.tmp", "rename a/b/c", "syncdir a/b",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if b, err := d.Root().ReadFile("a/b/c"); err != nil || string(b) != "content" {
		t.Errorf("got %q, %v", b, err)
	}
}

// TestAFailingStepLeavesTheOldFileOrTheNewOne fails each step of a
// replacement in turn.
func TestAFailingStepLeavesTheOldFileOrTheNewOne(t *testing.T) {
	write := map[string]func(*disk.Disk) error{
		"WriteFile":  func(d *disk.Disk) error { return d.WriteFile("f", []byte("new content")) },
		"WriteLoose": func(d *disk.Disk) error { return d.WriteLoose("f", []byte("new content")) },
	}
	for name, write := range write {
		for n := range 6 {
			t.Run(fmt.Sprint(name, " fails at ", n), func(t *testing.T) {
				left := -1
				d := open(t, func(disk.Step) error {
					left--
					if left == -1 {
						return syscall.ENOSPC
					}
					return nil
				})
				left = 100
				must(t, d.WriteFile("f", []byte("old")))
				left = n
				err := write(d)
				b, readErr := d.Root().ReadFile("f")
				must(t, readErr)
				if got := string(b); got != "old" && got != "new content" {
					t.Errorf("file holds %q", got)
				}
				if err == nil && string(b) != "new content" {
					t.Error("no error, and the old file")
				}
				if _, err := d.Root().Stat(disk.TempName("f")); !errors.Is(err, fs.ErrNotExist) {
					t.Error("the temporary file is left")
				}
				left = 100
				must(t, write(d))
			})
		}
	}
}

func TestWriteNewRefusesWhatIsThere(t *testing.T) {
	d := open(t, nil)
	must(t, d.WriteNew("claim.json", []byte("first")))
	if err := d.WriteNew("claim.json", []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	if b, _ := d.Root().ReadFile("claim.json"); string(b) != "first" {
		t.Errorf("got %q, want the first claim untouched", b)
	}
}

func TestNothingIsWrittenOutside(t *testing.T) {
	outside := t.TempDir()
	d := open(t, nil)
	must(t, os.Symlink(outside, filepath.Join(d.Dir(), "link")))
	for _, name := range []string{"../x", "link/x", filepath.Join(outside, "x")} {
		if err := d.WriteFile(name, nil); err == nil {
			t.Errorf("%s was written", name)
		}
		if err := d.MkdirAll(name); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	if names, _ := os.ReadDir(outside); len(names) > 0 {
		t.Errorf("outside holds %v", names)
	}
}

func TestExplain(t *testing.T) {
	var full *disk.FullError
	var ro *disk.ReadOnlyError
	var gone *disk.GoneError
	tests := []struct {
		err    error
		target any
		hint   string
	}{
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, &full, "free space"},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}, &full, "free space"},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.EFBIG}, &full, "ulimit"},
		{&os.LinkError{Op: "rename", Old: "x", New: "y", Err: syscall.EROFS}, &ro, "--workspace"},
		{fmt.Errorf("deep: %w", syscall.EACCES), &ro, "--workspace"},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, &gone, "removed"},
	}
	for _, tt := range tests {
		err := disk.Explain("some/file", tt.err)
		if !errors.As(err, tt.target) {
			t.Errorf("%v: got %T", tt.err, err)
			continue
		}
		if again := disk.Explain("other", fmt.Errorf("above: %w", err)); !errors.As(again, tt.target) || strings.Contains(again.Error(), "other") {
			t.Errorf("explained twice: %v", again)
		}
		var hint interface{ Hint() string }
		if !errors.As(err, &hint) || !strings.Contains(hint.Hint(), tt.hint) {
			t.Errorf("%v: hint lacks %q", err, tt.hint)
		}
		if strings.Count(err.Error(), "some/file") != 1 {
			t.Errorf("%v: the path does not stand once", err)
		}
	}
	if err := disk.Explain("f", syscall.EIO); !errors.Is(err, syscall.EIO) || errors.As(err, &full) {
		t.Errorf("EIO became %v", err)
	}
	if disk.Explain("f", nil) != nil {
		t.Error("nil became an error")
	}
}
