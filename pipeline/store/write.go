package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/stage"
)

// A Writer streams an object into the store and hashes it on the way. Close
// commits it; until then, and after any error, the store holds nothing of it.
// It is for one goroutine at a time.
type Writer struct {
	s    *Store
	ctx  context.Context //nolint:containedctx // the life of one write, as with an http.Request
	f    *disk.File
	hash hash.Hash
	size int64
	sum  digest.Digest
	err  error // sticky
	done bool
}

// Create begins an object. The caller calls Close to keep it, or Abort; Abort
// after Close does nothing.
func (s *Store) Create(ctx context.Context) (*Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := s.writable()
	if err != nil {
		return nil, err
	}
	f, err := d.Create(s.tempName())
	if err != nil {
		return nil, err
	}
	return &Writer{s: s, ctx: ctx, f: f, hash: sha256.New()}, nil
}

// Write adds p to the object. The first error stays: Close gives it again.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err == nil && w.done {
		w.err = errors.New("write to an object after its end")
	}
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.f.Write(p)
	w.hash.Write(p[:n])
	w.size += int64(n)
	w.err = err
	return n, err
}

// Close commits the object under its digest. A second Close does nothing.
func (w *Writer) Close() error {
	if w.done {
		return w.err
	}
	if w.err != nil {
		w.Abort()
		return w.err
	}
	w.done = true
	w.hash.Sum(w.sum[:0])
	w.err = w.s.commit(w.f, w.sum, w.size)
	return w.err
}

// Abort drops what was written.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	w.done = true
	if w.err == nil {
		w.err = errors.New("object was given up")
	}
	w.s.drop(w.f)
}

// Digest returns the digest of a committed object.
func (w *Writer) Digest() digest.Digest { return w.sum }

// Size returns the count of bytes written.
func (w *Writer) Size() int64 { return w.size }

// commit syncs a written file and gives it its name; the file is closed.
func (s *Store) commit(f *disk.File, sum digest.Digest, size int64) error {
	known, err := s.known(sum, size)
	if known || err != nil {
		s.drop(f)
		return err
	}
	if err := finish(f); err != nil {
		s.drop(f)
		return err
	}
	if err := s.name(f.Name(), sum); err != nil {
		s.drop(f)
		return err
	}
	return nil
}

func finish(f *disk.File) error {
	if err := f.Freeze(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

func (s *Store) name(temp string, sum digest.Digest) error {
	d, err := s.writable()
	if err != nil {
		return err
	}
	name := objectName(sum)
	if err := d.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	if err := d.Rename(temp, name); err != nil {
		return err
	}
	return s.settle(d, sum)
}

// settle makes the object's name durable, once for each process: an object of
// another writer may be there and its folder not synced yet.
func (s *Store) settle(d *disk.Disk, sum digest.Digest) error {
	s.mu.Lock()
	done := s.durable[sum]
	s.mu.Unlock()
	if done {
		return nil
	}
	if err := d.SyncDir(path.Dir(objectName(sum))); err != nil {
		return err
	}
	s.mu.Lock()
	s.durable[sum] = true
	s.mu.Unlock()
	return nil
}

// known tells whether a sound object of that name is there already. A damaged
// one is set aside: whoever writes it again mends it.
func (s *Store) known(sum digest.Digest, size int64) (bool, error) {
	if _, err := s.writable(); err != nil {
		return false, err
	}
	if err := s.holds.hold(heldObject, sum); err != nil {
		return false, err
	}
	err := s.Check(context.Background(), sum, size)
	var damaged *DamagedError
	switch {
	case err == nil:
		d, err := s.writable()
		if err != nil {
			return false, err
		}
		return true, s.settle(d, sum)
	case errors.Is(err, ErrNotFound):
		return false, nil
	case errors.As(err, &damaged):
		_, err := s.SetAside(sum)
		return false, err
	}
	return false, err
}

// drop closes and removes a temporary file; its own error would say less than
// the one that led here.
func (s *Store) drop(f *disk.File) {
	_ = f.Close()
	if d, err := s.writable(); err == nil {
		_ = d.Remove(f.Name())
	}
}

// Put stores what r gives and returns its digest and size. Putting the same
// bytes again changes nothing.
func (s *Store) Put(ctx context.Context, r io.Reader) (digest.Digest, int64, error) {
	w, err := s.Create(ctx)
	if err != nil {
		return digest.Digest{}, 0, err
	}
	defer w.Abort()
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	if _, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, *buf); err != nil {
		return digest.Digest{}, 0, err
	}
	if err := w.Close(); err != nil {
		return digest.Digest{}, 0, err
	}
	return w.sum, w.size, nil
}

// PutBytes stores b. Where it is stored already it is read, not written.
func (s *Store) PutBytes(ctx context.Context, b []byte) (digest.Digest, error) {
	sum := digest.FromBytes(b)
	if known, err := s.known(sum, int64(len(b))); known || err != nil {
		return sum, err
	}
	got, _, err := s.Put(ctx, bytes.NewReader(b))
	return got, err
}

// PutFile stores a file, sharing its blocks where the file system can. What is
// hashed is the store's own copy, so a file that changes meanwhile cannot make
// an object that differs from its name.
func (s *Store) PutFile(ctx context.Context, name string) (digest.Digest, int64, error) {
	src, err := stage.OpenRegular(name)
	if err != nil {
		return digest.Digest{}, 0, err
	}
	defer src.Close()
	w, err := s.Create(ctx)
	if err != nil {
		return digest.Digest{}, 0, err
	}
	defer w.Abort()
	if _, err := w.f.CopyFrom(src); err != nil {
		return digest.Digest{}, 0, fmt.Errorf("store %s: %w", name, err)
	}
	if err := w.rehash(); err != nil {
		return digest.Digest{}, 0, fmt.Errorf("hash %s: %w", name, err)
	}
	if err := w.Close(); err != nil {
		return digest.Digest{}, 0, err
	}
	return w.sum, w.size, nil
}

// rehash reads back what CopyFrom wrote past the hash.
func (w *Writer) rehash() error {
	f, err := w.s.disk.Root().Open(w.f.Name())
	if err != nil {
		return err
	}
	defer f.Close()
	w.size, err = w.s.hashInto(w.ctx, w.hash, f)
	return err
}
