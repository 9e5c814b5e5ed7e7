// Package weights hashes checkpoint directories and compares them with a
// pinned manifest, so that a figure can name the bytes that it was measured on.
package weights

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// A File is one hashed file of a checkpoint.
type File struct {
	Path   string        `json:"path"` // slash-separated, relative to the root
	Size   int64         `json:"size"` // bytes
	SHA256 digest.Digest `json:"sha256"`
}

// A Scan is what a checkpoint directory held.
type Scan struct {
	Files    []File   // sorted by path in byte order
	Ignored  []string // by the patterns, each file of a folder too
	Dangling []string // links that lead nowhere
	Partial  []string // what a download that did not finish leaves behind
	Bytes    int64
}

// Options say what to leave out and how to go about it.
type Options struct {
	Ignore   []string      // patterns of path.Match on the whole path or, without a slash, on the base name
	Parallel int           // files hashed at once; 0: one a core
	Hashed   func(n int64) // told of each piece of bytes, from several goroutines; may be nil
}

// ErrNotDirectory is wrapped when the checkpoint's root is no directory.
var ErrNotDirectory = errors.New("not a directory")

// Directory hashes every regular file below root, through links (a Hugging Face
// cache is made of them), and lists what it left out. A file that changes while
// it is hashed is an error; so is one that cannot be read.
func Directory(ctx context.Context, root string, opt Options) (*Scan, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: %w", root, ErrNotDirectory)
	}
	s := &Scan{}
	paths, err := s.list(root, opt.Ignore)
	if err != nil {
		return nil, err
	}
	s.Files = make([]File, len(paths))
	if opt.Parallel <= 0 {
		opt.Parallel = runtime.GOMAXPROCS(0)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(opt.Parallel)
	for i, p := range paths {
		g.Go(func() error {
			f, err := hash(ctx, filepath.Join(root, filepath.FromSlash(p)), opt.Hashed)
			if err != nil {
				return fmt.Errorf("hash %s: %w", p, err)
			}
			f.Path = p
			s.Files[i] = f
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, f := range s.Files {
		s.Bytes += f.Size
	}
	return s, nil
}

// maxDepth bounds the folders below a root, so that a link to a parent is an
// error and no endless walk.
const maxDepth = 64

func (s *Scan) list(root string, ignore []string) ([]string, error) {
	var paths []string
	var walk func(rel string, depth int) error
	walk = func(rel string, depth int) error {
		if depth > maxDepth {
			return fmt.Errorf("%s: over %d folders deep; a link to a folder above it?", rel, maxDepth)
		}
		entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		for _, e := range entries {
			p := path.Join(rel, e.Name())
			if ignored(p, ignore) {
				s.ignore(root, p, e)
				continue
			}
			info, err := os.Stat(filepath.Join(root, filepath.FromSlash(p)))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				s.Dangling = append(s.Dangling, p)
			case err != nil:
				return err
			case info.IsDir():
				if err := walk(p, depth+1); err != nil {
					return err
				}
			case !info.Mode().IsRegular():
				return fmt.Errorf("%s: neither a file nor a folder (%s)", p, info.Mode().Type())
			default:
				if strings.HasSuffix(p, ".incomplete") || strings.HasSuffix(p, ".part") {
					s.Partial = append(s.Partial, p)
				}
				paths = append(paths, p)
			}
		}
		return nil
	}
	if err := walk("", 0); err != nil {
		return nil, err
	}
	slices.Sort(paths)
	return paths, nil
}

// ignore lists what a pattern leaves out: of a folder each file. Links are not
// followed, and a folder that cannot be read is listed itself: nothing of it is
// needed.
func (s *Scan) ignore(root, p string, e fs.DirEntry) {
	if !e.IsDir() {
		s.Ignored = append(s.Ignored, p)
		return
	}
	entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(p)))
	if err != nil {
		s.Ignored = append(s.Ignored, p)
		return
	}
	for _, e := range entries {
		s.ignore(root, path.Join(p, e.Name()), e)
	}
}

func ignored(p string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		name := p
		if !strings.Contains(pattern, "/") {
			name = path.Base(p)
		}
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	})
}

func hash(ctx context.Context, name string, hashed func(int64)) (File, error) {
	f, err := stage.OpenRegular(name)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	h := sha256.New()
	buf := make([]byte, 1<<20)
	var n int64
	for {
		if err := ctx.Err(); err != nil {
			return File{}, context.Cause(ctx)
		}
		k, err := f.Read(buf)
		h.Write(buf[:k])
		n += int64(k)
		if hashed != nil {
			hashed(int64(k))
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return File{}, err
		}
	}
	after, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	if n != after.Size() || !before.ModTime().Equal(after.ModTime()) {
		return File{}, errors.New("the file changed while it was hashed; stop what writes it and run again")
	}
	return File{Size: n, SHA256: digest.Digest(h.Sum(nil))}, nil
}
