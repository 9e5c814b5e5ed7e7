package pipeline

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"anvil/pipeline/digest"
	"anvil/pipeline/plan"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
	"anvil/schemas"
)

// FileSchema stands in the reference to a file that a plan names: bytes as they
// were found, of no shape that the executor knows.
const FileSchema schemas.ID = "anvil.file/v1"

// A leaf is a file that "with" names, as it stood when it was read.
type leaf struct {
	file  plan.File
	whole stage.Ref
	read  stage.Ref // the projection where the kind has one, else whole
}

func (l leaf) name() string { return filepath.Base(l.file.Path) }

func (l leaf) input() prov.Input {
	in := prov.Input{Port: "with." + l.file.Pointer, Ref: l.read, Name: l.name()}
	if l.read != l.whole {
		whole := l.whole
		in.Whole = &whole
	}
	return in
}

// A FileError says that a file which a plan names cannot be read.
type FileError struct {
	Stage, Pointer string
	Written        string // the path as the plan writes it
	Err            error
}

// Error names the stage, the key and the path.
func (e *FileError) Error() string {
	return fmt.Sprintf("%s: with%s: read %s: %v", e.Stage, e.Pointer, e.Written, cause(e.Err))
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// cause leaves the path out of an error that names it already.
func cause(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// A leafReader reads the files that stages name: it only hashes them, or stores
// them as well.
type leafReader struct {
	whole   func(ctx context.Context, path string) (digest.Digest, int64, error)
	project func(ctx context.Context, r io.Reader) (digest.Digest, int64, error)
}

// hashing reads without storing, each file once.
func hashing(cache *fileCache) leafReader {
	return leafReader{
		whole: func(_ context.Context, path string) (digest.Digest, int64, error) { return cache.digest(path) },
		project: func(_ context.Context, r io.Reader) (digest.Digest, int64, error) {
			return digest.FromReader(r)
		},
	}
}

// storing keeps what it reads as objects.
func storing(s *store.Store) leafReader {
	return leafReader{
		whole: func(ctx context.Context, path string) (digest.Digest, int64, error) {
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				return digest.Digest{}, 0, errFolder
			}
			return s.PutFile(ctx, path)
		},
		project: s.Put,
	}
}

var errFolder = errors.New("is a folder")

// leaves reads the files that a stage names. A file that is missing and may be
// is left out.
func (lr leafReader) leaves(ctx context.Context, n *node) ([]leaf, error) {
	var out []leaf
	for _, f := range n.Files {
		l, err := lr.leaf(ctx, n, f)
		if f.Optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, &FileError{Stage: n.ID, Pointer: f.Pointer, Written: f.Written, Err: err}
		}
		out = append(out, l)
	}
	return out, nil
}

func (lr leafReader) leaf(ctx context.Context, n *node, f plan.File) (leaf, error) {
	d, size, err := lr.whole(ctx, f.Path)
	whole := fileRef(d, size)
	l := leaf{file: f, whole: whole, read: whole}
	if err != nil || n.spec.Project == nil {
		return l, err
	}
	read, ok, err := lr.projection(ctx, n, f, whole)
	if err != nil {
		return l, fmt.Errorf("project: %w", err)
	}
	if ok {
		l.read = read
	}
	return l, nil
}

func fileRef(d digest.Digest, size int64) stage.Ref {
	return stage.Ref{Schema: FileSchema, SHA256: d, Size: size, Limitations: emptySet()}
}

// errChanged says that a file changed between two readings.
var errChanged = errors.New("the file changed while it was read")

// projection lets the kind write what it reads of a file. The bytes that it
// sees are hashed again on the way: what enters the key belongs to the whole
// file that is named beside it.
func (lr leafReader) projection(ctx context.Context, n *node, f plan.File, whole stage.Ref) (ref stage.Ref, ok bool, err error) {
	file, err := stage.OpenRegular(f.Path)
	if err != nil {
		return ref, false, err
	}
	verified := digest.Verify(file, whole.SHA256, whole.Size)
	defer verified.Close()
	pr, pw := io.Pipe()
	var schema schemas.ID
	var wg sync.WaitGroup
	wg.Go(func() {
		var err error
		schema, ok, err = n.spec.Project(n.With, f.Pointer, verified, pw)
		if err == nil && ok {
			_, err = io.Copy(io.Discard, verified)
		}
		pw.CloseWithError(err)
	})
	// Most files have no projection: nothing should be stored for them.
	r := bufio.NewReader(pr)
	if _, err = r.Peek(1); err == nil || errors.Is(err, io.EOF) && ok {
		ref.SHA256, ref.Size, err = lr.project(ctx, r)
	} else if errors.Is(err, io.EOF) {
		err = nil
	}
	pr.CloseWithError(err)
	wg.Wait()
	if mismatch := (*digest.MismatchError)(nil); errors.As(err, &mismatch) {
		err = errChanged
	}
	ref.Schema, ref.Limitations = schema, emptySet()
	return ref, ok, err
}

// unchanged hashes the files of a stage again at its end and names the first
// that is not what the stage was told to read.
func unchanged(leaves []leaf) error {
	for _, l := range leaves {
		now, _, err := hashFile(l.file.Path)
		if err != nil {
			return fmt.Errorf("with%s: %s was there when the stage started: %w", l.file.Pointer, l.file.Written, cause(err))
		}
		if now != l.whole.SHA256 {
			return fmt.Errorf("with%s: %s changed while the stage ran: sha256 was %s and is %s", l.file.Pointer, l.file.Written, l.whole.SHA256, now)
		}
	}
	return nil
}

func hashFile(path string) (digest.Digest, int64, error) {
	f, err := stage.OpenRegular(path)
	if err != nil {
		return digest.Digest{}, 0, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return digest.Digest{}, 0, err
	} else if info.IsDir() {
		return digest.Digest{}, 0, errFolder
	}
	return digest.FromReader(f)
}

// A fileCache remembers digests of files by path for as long as decisions are
// made: a thousand stages that name one dataset hash it once.
type fileCache struct {
	mu    sync.Mutex
	files map[string]func() (fileSum, error)
}

type fileSum struct {
	digest digest.Digest
	size   int64
}

func (c *fileCache) digest(path string) (digest.Digest, int64, error) {
	c.mu.Lock()
	if c.files == nil {
		c.files = map[string]func() (fileSum, error){}
	}
	once, ok := c.files[path]
	if !ok {
		once = sync.OnceValues(func() (fileSum, error) {
			d, size, err := hashFile(path)
			return fileSum{d, size}, err
		})
		c.files[path] = once
	}
	c.mu.Unlock()
	sum, err := once()
	return sum.digest, sum.size, err
}
