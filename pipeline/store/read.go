package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/stage"
)

// A DamagedError says that an object's bytes are not what its name says.
type DamagedError struct {
	Digest digest.Digest
	Path   string
	Err    error // the *digest.MismatchError
}

// Error names the object's file and what is wrong with it.
func (e *DamagedError) Error() string { return fmt.Sprintf("object %s: %v", e.Path, e.Err) }

// Unwrap returns the mismatch.
func (e *DamagedError) Unwrap() error { return e.Err }

var _ stage.Opener = (*Store)(nil)

// Open returns the bytes of an object. The reader fails with a
// *digest.MismatchError before EOF on other content; a size of -1 promises
// none. The caller closes it. An object that is not there wraps ErrNotFound.
func (s *Store) Open(ctx context.Context, d digest.Digest, size int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if size < 0 {
		// What is known by its digest alone is a result, or a set: see holds.
		if err := s.holds.hold(heldResult, d); err != nil {
			return nil, err
		}
	}
	f, err := s.open(d)
	if err != nil {
		return nil, err
	}
	return digest.Verify(f, d, size), nil
}

// Peek opens objects without holding what it finds: for a collector.
func (s *Store) Peek() stage.Opener { return peeker{s} }

type peeker struct{ s *Store }

func (p peeker) Open(ctx context.Context, d digest.Digest, size int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := p.s.open(d)
	if err != nil {
		return nil, err
	}
	return digest.Verify(f, d, size), nil
}

func (s *Store) open(d digest.Digest) (*os.File, error) {
	f, err := stage.OpenRegular(s.Path(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("object %s: %w", d, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", d, err)
	}
	return f, nil
}

// Bytes returns the whole of an object, verified, and holds it as Open does
// without a size: a *DamagedError when it is not what its name says. One that
// is larger than limit bytes is an error.
func (s *Store) Bytes(ctx context.Context, d digest.Digest, limit int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.holds.hold(heldResult, d); err != nil {
		return nil, err
	}
	b, size, err := disk.ReadSmall(s.Path(d), nil, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("object %s: %w", d, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", d, err)
	}
	if size > limit {
		return nil, fmt.Errorf("object %s: %d bytes, more than the %d of a document", d, size, limit)
	}
	if got := digest.FromBytes(b); got != d {
		return nil, s.damaged(d, got, -1, int64(len(b)))
	}
	return b, nil
}

func (s *Store) damaged(want, got digest.Digest, wantSize, gotSize int64) error {
	return &DamagedError{Digest: want, Path: s.Path(want), Err: &digest.MismatchError{Want: want, Got: got, WantSize: wantSize, GotSize: gotSize}}
}

// Stat returns an object's size without reading it.
func (s *Store) Stat(d digest.Digest) (int64, error) {
	info, err := os.Lstat(s.Path(d))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return 0, fmt.Errorf("object %s: %w", d, ErrNotFound)
	}
	if err != nil {
		return 0, fmt.Errorf("object %s: %w", d, err)
	}
	return info.Size(), nil
}

// Has tells whether an object of that digest and size is there; a size of -1
// is any. It does not read it: see Check.
func (s *Store) Has(d digest.Digest, size int64) bool {
	n, err := s.Stat(d)
	return err == nil && (size < 0 || n == size)
}

// Check reads and hashes an object: nil when it is sound, ErrNotFound when it
// is not there, a *DamagedError when its size or its bytes are wrong. A size of
// -1 promises none.
func (s *Store) Check(ctx context.Context, d digest.Digest, size int64) error {
	if 0 <= size && size <= smallObject {
		return s.checkSmall(ctx, d, size)
	}
	f, err := s.open(d)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("object %s: %w", d, err)
	}
	if size >= 0 && info.Size() != size {
		return s.damaged(d, digest.Digest{}, size, info.Size())
	}
	h := sha256.New()
	n, err := s.hashInto(ctx, h, f)
	if err != nil {
		return fmt.Errorf("object %s: %w", d, err)
	}
	if got := digest.Digest(h.Sum(nil)); got != d {
		return s.damaged(d, got, -1, n)
	}
	return nil
}

// smallObject is the size up to which an object is read at once.
const smallObject = 64 << 10 // bytes

func (s *Store) checkSmall(ctx context.Context, d digest.Digest, size int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	b, got, err := disk.ReadSmall(s.Path(d), (*buf)[:0], size)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("object %s: %w", d, ErrNotFound)
	case err != nil:
		return fmt.Errorf("object %s: %w", d, err)
	case got != size:
		return s.damaged(d, digest.Digest{}, size, got)
	}
	if sum := digest.FromBytes(b); sum != d {
		return s.damaged(d, sum, -1, int64(len(b)))
	}
	return nil
}

// hashInto copies r into h through a pooled buffer and heeds ctx between reads.
func (s *Store) hashInto(ctx context.Context, h hash.Hash, r io.Reader) (n int64, err error) {
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		k, err := r.Read(*buf)
		h.Write((*buf)[:k])
		n += int64(k)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// CheckAll checks every object and reports each with its error, nil for a
// sound one, in order of digest. It returns an error when it could not go on.
func (s *Store) CheckAll(ctx context.Context, report func(digest.Digest, error)) error {
	return s.each(func(d digest.Digest) error {
		err := s.Check(ctx, d, -1)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		report(d, err)
		return nil
	})
}

// each calls do for every object, in order of digest.
func (s *Store) each(do func(digest.Digest) error) error {
	shards, err := readNames(s.objects)
	if err != nil {
		return err
	}
	for _, shard := range shards {
		names, err := readNames(filepath.Join(s.objects, shard))
		if err != nil {
			return err
		}
		for _, name := range names {
			d, err := digest.Parse(shard + name)
			if err != nil {
				continue // no object of ours
			}
			if err := do(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// readNames lists a folder in order; one that is not there is empty.
func readNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// SetAside moves a damaged object into the trash, so that it can be made again
// and still be looked at, and returns where it lies. Of an object that
// is not there it returns "": someone else set it aside.
func (s *Store) SetAside(d digest.Digest) (string, error) {
	dk, err := s.writable()
	if err != nil {
		return "", err
	}
	to := path.Join(trashDir, d.String()+"-"+newToken()[:8])
	if err := dk.Rename(objectName(d), to); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	s.forget(d)
	return filepath.Join(s.dir, to), dk.SyncDir(path.Dir(objectName(d)))
}

// Export copies an object to a new file below root, sharing its blocks where
// the file system can; it is neither synced nor verified, as a copy for people.
// What stood there is replaced.
func (s *Store) Export(d digest.Digest, root *os.Root, name string) (err error) {
	src, err := s.open(d)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return Explain(name, err)
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Explain(name, err)
	}
	dst, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return Explain(name, err)
	}
	defer func() { err = Explain(name, errors.Join(err, dst.Close())) }()
	_, err = io.Copy(dst, src)
	return err
}
