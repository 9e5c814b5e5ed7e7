//go:build unix

package store_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"anvil/pipeline/store"
)

func TestTheLimitOnAFilesSizeIsOneClearError(t *testing.T) {
	s := open(t, nil)
	must(t, s.Prepare())
	var old syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	low := old
	low.Cur = 8 << 20 // above what the test binary writes for itself meanwhile: its log of files
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &low))
	_, _, err := s.Put(ctx, strings.NewReader(strings.Repeat("x", 16<<20)))
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
	var full *store.FullError
	if !errors.As(err, &full) || !errors.Is(err, syscall.EFBIG) || !strings.Contains(full.Hint(), "ulimit") {
		t.Errorf("got %v, want a *FullError that names the limit", err)
	}
	for _, dir := range []string{"objects", "tmp"} {
		if names := files(t, filepath.Join(s.Dir(), dir)); len(names) > 0 {
			t.Errorf("%s holds %v", dir, names)
		}
	}
	_, _, err = s.Put(ctx, strings.NewReader(strings.Repeat("x", 16<<20)))
	must(t, err)
}
