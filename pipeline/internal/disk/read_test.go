package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"anvil/pipeline/internal/disk"
)

func TestReadSmall(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, content, want string
		limit               int64
	}{
		{"empty", "", "head:", 0},
		{"fits", "content", "head:content", 7},
		{"does not fit", "content", "", 6},
		{"long", strings.Repeat("x", 1<<20), "head:" + strings.Repeat("x", 1<<20), 1 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, size, err := disk.ReadSmall(write(c.name, c.content), []byte("head:"), c.limit)
			if err != nil || string(got) != c.want || size != int64(len(c.content)) {
				t.Errorf("got %d bytes, size %d, %v", len(got), size, err)
			}
		})
	}
	if _, _, err := disk.ReadSmall(filepath.Join(dir, "none"), nil, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, fifo} {
		if _, _, err := disk.ReadSmall(path, nil, 1<<20); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: got %v", filepath.Base(path), err)
		}
	}
}
