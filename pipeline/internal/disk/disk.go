// Package disk writes files so that a crash leaves the old state or the new
// one, and says in plain words when it cannot write.
//
// Everything that the store and a run keep passes through here, step by step:
// a test counts the steps, fails any one of them, or kills the process at it.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// An Op is one kind of step.
type Op string

// The steps. A hook sees Torn when half of a write's bytes are down.
const (
	Mkdir   Op = "mkdir"
	Create  Op = "create"
	Write   Op = "write"
	Torn    Op = "torn"
	Sync    Op = "sync"
	Chmod   Op = "chmod"
	Rename  Op = "rename"
	SyncDir Op = "syncdir"
	Remove  Op = "remove"
)

// A Step is about to be done.
type Step struct {
	Op   Op
	Path string // the file, from the folder that the Disk was opened on; of a rename, the new name
}

// A Hook sees every step before it is done; its error is what the step gives.
type Hook func(Step) error

// ErrSkip from a hook leaves the step out as if it had been done: a disk that
// drops a sync.
var ErrSkip = errors.New("step left out")

// Unsynced is the hook for tests that write much and lose nothing.
func Unsynced(s Step) error {
	if s.Op == Sync || s.Op == SyncDir {
		return ErrSkip
	}
	return nil
}

// A Disk writes below one folder and never outside it. It is safe for
// concurrent use.
type Disk struct {
	dir  string
	root *os.Root
	hook Hook
}

// Open opens an existing folder. A nil hook is the plain operating system.
func Open(dir string, hook Hook) (*Disk, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, Explain(dir, err)
	}
	return &Disk{dir: dir, root: root, hook: hook}, nil
}

// Make makes the folder where it is missing, with its parents, and opens it.
func Make(dir string, hook Hook) (*Disk, error) {
	if hook != nil {
		if err := hook(Step{Mkdir, dir}); err != nil {
			return nil, Explain(dir, err)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, Explain(dir, err)
	}
	return Open(dir, hook)
}

// Dir returns the folder's path as it was opened.
func (d *Disk) Dir() string { return d.dir }

// Root returns the folder, for reading.
func (d *Disk) Root() *os.Root { return d.root }

// Hook returns the hook, for another Disk that should see the same steps.
func (d *Disk) Hook() Hook { return d.hook }

// Close lets go of the folder.
func (d *Disk) Close() error { return d.root.Close() }

// step announces a step on name.
func (d *Disk) step(op Op, name string) error {
	if d.hook == nil {
		return nil
	}
	return d.hook(Step{op, name})
}

// do announces a step, does it, and explains its error.
func (d *Disk) do(op Op, name string, act func() error) error {
	err := d.step(op, name)
	if errors.Is(err, ErrSkip) {
		return nil
	}
	if err == nil {
		err = act()
	}
	return Explain(filepath.Join(d.dir, name), err)
}

// MkdirAll makes a folder with its parents, and makes the name of each that it
// made durable.
func (d *Disk) MkdirAll(name string) error { return d.mkdirAll(name, d.SyncDir) }

// MkdirLoose is MkdirAll for what may be lost in a crash.
func (d *Disk) MkdirLoose(name string) error {
	return d.mkdirAll(name, func(string) error { return nil })
}

func (d *Disk) mkdirAll(name string, made func(parent string) error) error {
	if name == "." || name == "" {
		return nil
	}
	mkdir := func() error { return d.root.Mkdir(name, 0o777) }
	err := d.do(Mkdir, name, mkdir)
	if errors.Is(err, fs.ErrNotExist) && path.Dir(name) != "." {
		if err := d.mkdirAll(path.Dir(name), made); err != nil {
			return err
		}
		err = d.do(Mkdir, name, mkdir)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return made(path.Dir(name))
}

// Rename moves a file; what stood under the new name is replaced. It is
// durable only after SyncDir.
func (d *Disk) Rename(from, to string) error {
	return d.do(Rename, to, func() error { return d.root.Rename(from, to) })
}

// Remove removes a file or an empty folder.
func (d *Disk) Remove(name string) error {
	return d.do(Remove, name, func() error { return d.root.Remove(name) })
}

// SyncDir makes the names in a folder durable.
func (d *Disk) SyncDir(name string) error {
	return d.do(SyncDir, name, func() error {
		f, err := d.root.Open(name)
		if err != nil {
			return err
		}
		err = f.Sync()
		// Some file systems cannot sync a folder; they keep order by themselves.
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
			err = nil
		}
		return errors.Join(err, f.Close())
	})
}

// WriteFile replaces a file, atomically and durably: a temporary file beside
// it, sync, rename, sync of the folder.
func (d *Disk) WriteFile(name string, content []byte) error {
	if err := d.replace(name, content, (*File).Sync); err != nil {
		return err
	}
	return d.SyncDir(path.Dir(name))
}

// WriteLoose is WriteFile for what may be lost, or empty, after a crash of the
// machine: a crash of the program leaves the old file or the new one.
func (d *Disk) WriteLoose(name string, content []byte) error {
	return d.replace(name, content, func(*File) error { return nil })
}

func (d *Disk) replace(name string, content []byte, settle func(*File) error) error {
	temp := TempName(name)
	if err := d.fill(temp, os.O_TRUNC, content, settle); err != nil {
		return err
	}
	err := d.Rename(temp, name)
	if err != nil {
		_ = d.root.Remove(temp) // err says more
	}
	return err
}

// WriteNew writes a file that must not exist yet, durably; errors.Is(err,
// fs.ErrExist) when it does. A crash may leave it short.
func (d *Disk) WriteNew(name string, content []byte) error {
	if err := d.fill(name, os.O_EXCL, content, (*File).Sync); err != nil {
		return err
	}
	return d.SyncDir(path.Dir(name))
}

func (d *Disk) fill(name string, flag int, content []byte, settle func(*File) error) error {
	f, err := d.open(name, os.O_WRONLY|os.O_CREATE|flag)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = settle(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = d.root.Remove(name) // err says more
	}
	return err
}

// TempName is the name under which WriteFile prepares a file. A crash may
// leave one; nothing ever reads it.
func TempName(name string) string {
	dir, base := path.Split(name)
	return dir + "." + base + ".tmp"
}

// IsTemp tells whether the base name is one that WriteFile prepares.
func IsTemp(base string) bool {
	return len(base) > 5 && base[0] == '.' && path.Ext(base) == ".tmp"
}

// Create opens a new file for writing; it must not exist.
func (d *Disk) Create(name string) (*File, error) {
	return d.open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
}

// Append opens a file for writing at its end, and makes it where it is missing.
func (d *Disk) Append(name string) (*File, error) {
	return d.open(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
}

func (d *Disk) open(name string, flag int) (*File, error) {
	var f *os.File
	err := d.do(Create, name, func() (err error) {
		f, err = d.root.OpenFile(name, flag, 0o666)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &File{d: d, f: f, name: name}, nil
}

// A File is open for writing; its errors are explained.
type File struct {
	d    *Disk
	f    *os.File
	name string
}

// Name returns the file's name below the Disk's folder.
func (f *File) Name() string { return f.name }

// OS returns the file itself, for locks.
func (f *File) OS() *os.File { return f.f }

// Write writes p.
func (f *File) Write(p []byte) (n int, err error) {
	if f.d.hook == nil {
		n, err = f.f.Write(p)
		return n, f.explain(err)
	}
	for i, part := range [][]byte{p[:len(p)/2], p[len(p)/2:]} {
		if err := f.d.step([]Op{Write, Torn}[i], f.name); err != nil {
			return n, f.explain(err)
		}
		k, err := f.f.Write(part)
		n += k
		if err != nil {
			return n, f.explain(err)
		}
	}
	return n, nil
}

// CopyFrom copies a file to the end of f, sharing its blocks where the file
// system can.
func (f *File) CopyFrom(src *os.File) (n int64, err error) {
	err = f.d.do(Write, f.name, func() error {
		n, err = io.Copy(f.f, src)
		return err
	})
	return n, err
}

// Truncate cuts the file.
func (f *File) Truncate(size int64) error {
	return f.d.do(Write, f.name, func() error { return f.f.Truncate(size) })
}

// Sync makes the content durable.
func (f *File) Sync() error { return f.d.do(Sync, f.name, f.f.Sync) }

// Freeze makes the file read-only.
func (f *File) Freeze() error {
	return f.d.do(Chmod, f.name, func() error { return f.f.Chmod(0o444) })
}

// Close closes the file.
func (f *File) Close() error { return f.explain(f.f.Close()) }

func (f *File) explain(err error) error {
	return Explain(filepath.Join(f.d.dir, f.name), err)
}
