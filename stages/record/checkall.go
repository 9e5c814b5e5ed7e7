package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// recordNames are the endings of the files that a directory is searched for.
var recordNames = []string{".json", ".jsonl", ".json.zst", ".jsonl.zst"}

// Check checks every file that the arguments name: files, directories with all
// below them, and patterns for a shell that expands none. The reports are in
// the order of the arguments, then of the names. An argument that names nothing
// is a report of its own; a source that cannot be read is a *SourceError.
func Check(ctx context.Context, args []string, options Options) ([]Report, error) {
	if err := options.readable(); err != nil {
		return nil, err
	}
	var files []string
	var lost []Report
	for _, arg := range args {
		found, err := expand(arg)
		if err != nil {
			lost = append(lost, newChecker(arg, options).unreadable("file.unreadable", "%v", err))
		}
		files = append(files, found...)
	}
	files = unique(files)
	reports := make([]Report, len(files))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range files {
		g.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			reports[i] = CheckFile(f, options)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	noteCollisions(reports)
	return append(reports, lost...), nil
}

func unique(files []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(files, func(f string) bool {
		again := seen[filepath.Clean(f)]
		seen[filepath.Clean(f)] = true
		return again
	})
}

// expand returns the files that one argument names.
func expand(arg string) ([]string, error) {
	info, err := os.Stat(arg)
	if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(arg, "*?[") {
		return expandPattern(arg)
	}
	if err != nil || !info.IsDir() {
		return []string{arg}, nil // CheckFile says what is wrong with it
	}
	found, err := below(arg)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no file below it ends in %s", strings.Join(recordNames, ", "))
	}
	return found, err
}

func expandPattern(pattern string) ([]string, error) {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	if len(matches) == 0 {
		return nil, errors.New("no file matches the pattern")
	}
	var out []string
	for _, m := range matches {
		found, err := expand(m)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func below(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		is := func(suffix string) bool { return strings.HasSuffix(strings.ToLower(d.Name()), suffix) }
		if !d.IsDir() && slices.ContainsFunc(recordNames, is) {
			found = append(found, path)
		}
		return nil
	})
	return found, err
}

// Exit is the exit code of `artifact check`: 5 when a rule is violated, else 2
// when a file could not be read, else 0. With strict an unverified record is a
// finding too.
func Exit(reports []Report, strict bool) int {
	code := 0
	for _, r := range reports {
		switch {
		case r.Unreadable:
			code = max(code, 2)
		case !r.OK, strict && r.Status == StatusUnverified:
			code = max(code, 5)
		}
	}
	return code
}
