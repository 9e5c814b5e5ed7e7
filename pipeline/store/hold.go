package store

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
)

// While a process writes to the store it holds what it puts, and the results
// that it finds and stands on, against garbage collection: each digest is a
// line in a file of its own below tmp, which it keeps locked for its life. The
// line is written under a shared lock before the process looks whether the
// object is there, and a collector reads all lines and removes objects under
// the same lock alone. So either the collector sees the line and keeps the
// object, or the process sees that the object is gone. Results go before what
// they refer to: one that is still there has everything behind it.
//
// What a closed process held it has published by then: a run names it. A
// collector that was under way meanwhile still reads its lines, because Close
// leaves the file to it.
const (
	holdExt    = ".held"
	lockExt    = ".lock"
	holdLock   = tempDir + "/hold" + lockExt // held shared to add a line, alone to remove objects
	gcLock     = tempDir + "/gc" + lockExt   // held alone for a whole collection
	collecting = tempDir + "/collecting"     // there while a collector is under way
)

// The kinds of lines: an object, and one that may be a result, whose closure
// is held with it.
const (
	heldObject = 'o'
	heldResult = 'r'
)

// holds is what this process keeps from being collected.
type holds struct {
	mu    sync.Mutex
	token string // begins the names of this process's files below tmp
	lock  *os.File
	file  *disk.File // nil until the store is prepared
	seen  map[digest.Digest]byte
	early []byte // lines from before that
	torn  bool   // the last line may be there in part
}

func newToken() string { return strings.ToLower(rand.Text()) }

// begin opens the file of lines and locks it, at once for a collector: to it a
// file that nobody has locked is of a process that is gone.
func (h *holds) begin(d *disk.Disk) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	lock, err := d.Append(holdLock)
	if err != nil {
		return err
	}
	h.lock = lock.OS()
	if err := h.locked(func() error { return h.create(d) }); err != nil {
		h.lock = nil
		return errors.Join(err, lock.Close())
	}
	early := h.early
	h.early = nil
	return h.write(early)
}

func (h *holds) create(d *disk.Disk) error {
	file, err := d.Create(tempDir + "/" + h.token + holdExt)
	if err != nil {
		return err
	}
	ours, err := disk.TryLockAlone(file.OS())
	if err == nil && !ours {
		err = errors.New("a new file is locked by another process")
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	h.file = file
	return nil
}

// hold adds a line for each digest, once.
func (h *holds) hold(kind byte, ds ...digest.Digest) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []byte
	var added []digest.Digest
	for _, d := range ds {
		if had := h.seen[d]; had == heldResult || had == kind {
			continue
		}
		h.seen[d] = kind
		added = append(added, d)
		lines = append(append(append(lines, kind), d.String()...), '\n')
	}
	if h.file == nil {
		h.early = append(h.early, lines...)
		return nil
	}
	err := h.write(lines)
	if err != nil {
		for _, d := range added {
			delete(h.seen, d)
		}
	}
	return err
}

func (h *holds) write(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	return h.locked(func() error {
		if h.torn {
			lines = append([]byte{'\n'}, lines...)
		}
		_, err := h.file.Write(lines)
		h.torn = err != nil
		return err
	})
}

// shared runs do while no collector removes anything.
func (h *holds) shared(do func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.locked(do)
}

func (h *holds) locked(do func() error) error {
	if err := disk.LockShared(h.lock); err != nil {
		return fmt.Errorf("lock %s: %w", holdLock, err)
	}
	return errors.Join(do(), disk.Unlock(h.lock))
}

// end gives the lines up. While a collector is under way it needs them still,
// and removes the file itself.
func (h *holds) end(d *disk.Disk) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file == nil {
		return nil
	}
	err := h.locked(func() error {
		if _, err := d.Root().Lstat(collecting); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := d.Remove(h.file.Name()); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if _, ok := errors.AsType[*GoneError](err); ok {
		err = nil // with the whole store: nothing is held any more
	}
	err = errors.Join(err, h.file.Close(), h.lock.Close())
	h.file, h.lock, h.seen = nil, nil, map[digest.Digest]byte{}
	h.token = newToken()
	return err
}

// Hold keeps results, and all that they stand on, from being collected while
// this process lives and the store is open. What the process puts, looks up or
// opens without knowing its size is held already.
func (s *Store) Hold(results ...digest.Digest) error { return s.holds.hold(heldResult, results...) }

// A lineReader reads the lines that one process has written so far.
type lineReader struct {
	path string
	read int64
}

// next returns the digests of the lines since the last call; a line that is
// only half there is left for the next one.
func (l *lineReader) next() (objects, results []digest.Digest, err error) {
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	text := make([]byte, info.Size()-l.read)
	if _, err := f.ReadAt(text, l.read); err != nil && len(text) > 0 {
		return nil, nil, fmt.Errorf("read %s: %w", l.path, err)
	}
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return objects, results, nil
		}
		line := string(text[:end])
		text = text[end+1:]
		l.read += int64(end) + 1
		if line == "" {
			continue
		}
		d, err := digest.Parse(line[1:])
		switch {
		case err != nil:
			// Half a line: its writer was told that it holds nothing.
		case line[0] == heldResult:
			results = append(results, d)
		default:
			objects = append(objects, d)
		}
	}
}

// living lists the files of lines and tells which belong to a process that
// lives.
func (s *Store) living() (alive, dead []string, err error) {
	names, err := readNames(filepath.Join(s.dir, tempDir))
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, holdExt) {
			continue
		}
		lives, err := lockedByAnother(filepath.Join(s.dir, tempDir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, nil, err
		case lives:
			alive = append(alive, name)
		default:
			dead = append(dead, name)
		}
	}
	return alive, dead, nil
}

func lockedByAnother(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	free, err := disk.TryLockShared(f)
	return !free, err
}
