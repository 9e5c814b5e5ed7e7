// Package store keeps bytes under their SHA-256, and an index from stage keys
// to the results that were made under them.
//
// An object is written once and never changed: a temporary file on the same
// file system, hashed while it is written, synced, made read-only, renamed to
// its name, its folder synced. A reader therefore finds a whole object or
// none, two writers of one object cannot disturb each other, and there is
// nothing to unlock after a crash. Reading is verifying: content that is not
// what its name says is an error before its end.
//
// The index of keys is only an index: losing it costs time.
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
)

// Folder is the store's name below a workspace.
const Folder = ".anvil"

// The folders below it.
const (
	objectsDir = "objects/sha256"
	keysDir    = "keys"
	trashDir   = "trash"
	tempDir    = "tmp"
)

// ErrNotFound is wrapped when the store does not hold an object; it is also an
// fs.ErrNotExist.
var ErrNotFound error = notFound{}

type notFound struct{}

func (notFound) Error() string        { return "not in the store" }
func (notFound) Is(target error) bool { return target == fs.ErrNotExist }

// What a write can run into that the user can mend; each has a Hint.
type (
	// FullError says that there is no space, a quota, or a limit on a file's size.
	FullError = disk.FullError
	// ReadOnlyError says that the workspace does not take writes.
	ReadOnlyError = disk.ReadOnlyError
	// GoneError says that the workspace vanished.
	GoneError = disk.GoneError
)

// Explain gives an error of writing to path one of the types above where it is
// one, for files that others than the store write.
func Explain(path string, err error) error { return disk.Explain(path, err) }

// A Store is safe for concurrent use, also by several processes.
type Store struct {
	dir     string // .anvil
	objects string // its objects/sha256
	hook    disk.Hook
	buffers sync.Pool // *[]byte, for hashing
	holds   holds

	mu      sync.Mutex // guards what follows
	disk    *disk.Disk // nil until Prepare
	durable map[digest.Digest]bool
}

// Open opens the store in dir, the .anvil of a workspace. It makes and changes
// nothing; a folder that is not there yet is an empty store. Prepare it before
// writing.
func Open(dir string) (*Store, error) { return OpenHooked(dir, nil) }

// OpenHooked is Open for tests of this tree: every step of writing passes the hook.
func OpenHooked(dir string, hook disk.Hook) (*Store, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return nil, fmt.Errorf("open store %s: not a folder", dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{dir: dir, objects: filepath.Join(dir, objectsDir), hook: hook, durable: map[digest.Digest]bool{}}
	s.holds.token, s.holds.seen = newToken(), map[digest.Digest]byte{}
	s.buffers.New = func() any { b := make([]byte, 128<<10); return &b }
	return s, nil
}

// Dir returns the store's folder as it was opened.
func (s *Store) Dir() string { return s.dir }

// Prepare makes the store's folders and finds out that it can be written:
// *ReadOnlyError or *FullError when it cannot. Writing before it prepares first.
func (s *Store) Prepare() error {
	_, err := s.writable()
	return err
}

func (s *Store) writable() (*disk.Disk, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disk != nil {
		return s.disk, nil
	}
	d, err := disk.Make(s.dir, s.hook)
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{objectsDir, keysDir, trashDir, tempDir} {
		if err := d.MkdirAll(dir); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	// The file of what is held comes before any other below tmp: by its name a
	// collector tells whose they are.
	if err := s.holds.begin(d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	s.disk = d
	return d, nil
}

// Close lets go of the store; what was put stays, and is held no longer.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disk == nil {
		return nil
	}
	d := s.disk
	s.disk = nil
	return errors.Join(s.holds.end(d), d.Close())
}

// objectName is the object's path below the store's folder.
func objectName(d digest.Digest) string {
	hex := d.String()
	return objectsDir + "/" + hex[:2] + "/" + hex[2:]
}

// Path returns the object's path: the store's folder as it was opened, then
// objects/sha256. The object need not be there.
func (s *Store) Path(d digest.Digest) string {
	hex := d.String()
	return s.objects + string(filepath.Separator) + hex[:2] + string(filepath.Separator) + hex[2:]
}

// tempName is a new name for a file of this process below tmp.
func (s *Store) tempName() string { return tempDir + "/" + s.holds.token + "." + newToken() }

// forget drops what is remembered of an object that is gone.
func (s *Store) forget(d digest.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.durable, d)
}
