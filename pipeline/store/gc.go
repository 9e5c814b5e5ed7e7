package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
)

// ErrCollecting says that another process collects garbage.
var ErrCollecting = errors.New("another process collects garbage in this store")

// pinsDir holds files named by the digest of what is kept for its own sake: an
// object, or a result with all that it stands on.
const pinsDir = "pins"

// GCOptions say what is needed. Both functions return results, whose own
// references are followed, and plain objects.
type GCOptions struct {
	// Roots returns what runs need. It is called once, when everything that a
	// process holds from then on is known to the collector.
	Roots func(ctx context.Context) (results, objects []digest.Digest, err error)
	// References returns what a result refers to. It is called with digests that
	// may be no result, and returns nothing for them and for what is not there.
	// It must read through Peek: while others wait it may hold nothing.
	References func(ctx context.Context, d digest.Digest) (results, objects []digest.Digest, err error)
	// MayRefer tells from the first bytes of an object that nobody needs whether
	// to ask for its references.
	MayRefer func(head []byte) bool

	DryRun     bool // remove nothing, say what would be
	EmptyTrash bool // also what was set aside because it was damaged
}

// Collected says what a collection removed, or would have, and what is left.
type Collected struct {
	DryRun       bool  `json:"dry_run"`
	Objects      int   `json:"objects"`       // removed
	Bytes        int64 `json:"bytes"`         // of them
	KeptObjects  int   `json:"kept_objects"`  // needed
	KeptBytes    int64 `json:"kept_bytes"`    // of them
	Pointers     int   `json:"pointers"`      // removed from the index
	Temporary    int   `json:"temporary"`     // files that a crash left
	Trash        int   `json:"trash"`         // damaged objects that were set aside
	LivingOwners int   `json:"living_owners"` // processes that wrote to the store meanwhile
}

// GC removes every object that no run, no pin and no living process needs, the
// index entries that lead nowhere, and what crashes left. It is safe beside
// processes that write to the store. What cannot be read is an error before
// anything is removed: who does not know what a damaged result needs must not
// guess.
func (s *Store) GC(ctx context.Context, opt GCOptions) (Collected, error) {
	d, err := s.writable()
	if err != nil {
		return Collected{}, err
	}
	lock, err := d.Append(gcLock)
	if err != nil {
		return Collected{}, err
	}
	defer lock.OS().Close()
	if alone, err := disk.TryLockAlone(lock.OS()); err != nil || !alone {
		return Collected{}, errors.Join(err, ErrCollecting)
	}
	c := &collector{s: s, d: d, opt: opt, needed: map[digest.Digest]bool{}, followed: map[digest.Digest]bool{}, readers: map[string]*lineReader{}}
	c.report.DryRun = opt.DryRun
	if err := c.collect(ctx); err != nil {
		return c.report, fmt.Errorf("collect garbage: %w", err)
	}
	return c.report, nil
}

type collector struct {
	s      *Store
	d      *disk.Disk
	opt    GCOptions
	report Collected

	needed   map[digest.Digest]bool
	followed map[digest.Digest]bool // results
	dead     map[string]bool        // files of lines whose owner was gone before the runs were read
	readers  map[string]*lineReader
}

func (c *collector) collect(ctx context.Context) error {
	// The order matters. What was left below tmp is listed before its owners
	// are, owners before the runs: an owner that is gone by now has published
	// what it ever will.
	left, err := readNames(filepath.Join(c.s.dir, tempDir))
	if err != nil {
		return err
	}
	var alive, dead []string
	if err := c.alone(func() (err error) {
		if alive, dead, err = c.s.living(); err != nil {
			return err
		}
		// From here on whoever closes its store leaves its lines.
		return c.d.WriteLoose(collecting, nil)
	}); err != nil {
		return err
	}
	defer c.d.Remove(collecting) //nolint:errcheck // one that stays costs a file for each process until the next collection
	c.dead = map[string]bool{}
	for _, name := range dead {
		c.dead[name] = true
	}
	c.report.LivingOwners = len(alive) - 1 // this process is one
	if err := c.mark(ctx); err != nil {
		return err
	}
	if err := c.sweep(ctx); err != nil {
		return err
	}
	if err := c.index(ctx); err != nil {
		return err
	}
	return c.leftovers(left, alive)
}

// mark finds what runs, pins and living processes need.
func (c *collector) mark(ctx context.Context) error {
	pins, err := readNames(filepath.Join(c.s.dir, pinsDir))
	if err != nil {
		return err
	}
	for _, name := range pins {
		d, err := digest.Parse(name)
		if err != nil {
			return fmt.Errorf("pin: %w", err)
		}
		if err := c.need(ctx, []digest.Digest{d}, nil); err != nil {
			return err
		}
	}
	results, objects, err := c.opt.Roots(ctx)
	if err != nil {
		return err
	}
	if err := c.need(ctx, results, objects); err != nil {
		return err
	}
	return c.held(ctx)
}

// need marks objects, and results with all that they stand on.
func (c *collector) need(ctx context.Context, results, objects []digest.Digest) error {
	for _, d := range objects {
		c.needed[d] = true
	}
	for len(results) > 0 {
		d := results[len(results)-1]
		results = results[:len(results)-1]
		if c.followed[d] {
			continue
		}
		c.followed[d], c.needed[d] = true, true
		if err := ctx.Err(); err != nil {
			return err
		}
		more, objects, err := c.opt.References(ctx, d)
		if err != nil {
			return err
		}
		for _, o := range objects {
			c.needed[o] = true
		}
		results = append(results, more...)
	}
	return nil
}

// held marks what processes have come to hold since the last call.
func (c *collector) held(ctx context.Context) error {
	names, err := readNames(filepath.Join(c.s.dir, tempDir))
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, holdExt) || c.dead[name] {
			continue
		}
		if c.readers[name] == nil {
			c.readers[name] = &lineReader{path: filepath.Join(c.s.dir, tempDir, name)}
		}
		objects, results, err := c.readers[name].next()
		if err != nil {
			return err
		}
		if err := c.need(ctx, results, objects); err != nil {
			return err
		}
	}
	return nil
}

// sweepBatch is how many objects are removed under one lock: others wait for it.
const sweepBatch = 128

func (c *collector) sweep(ctx context.Context) error {
	garbage := map[digest.Digest]bool{}
	if err := c.s.each(func(d digest.Digest) error {
		if c.needed[d] {
			c.kept(d)
		} else {
			garbage[d] = true
		}
		return ctx.Err()
	}); err != nil {
		return err
	}
	order := c.outsideIn(ctx, garbage)
	for len(order) > 0 {
		n := min(len(order), sweepBatch)
		if err := c.remove(ctx, order[:n]); err != nil {
			return err
		}
		order = order[n:]
	}
	return ctx.Err()
}

// outsideIn orders garbage so that a result goes before all that it refers to.
// Whoever still finds a result, and holds it before opening it, therefore finds
// everything behind it, however far the collector is; and a crash leaves no
// result that lacks something.
func (c *collector) outsideIn(ctx context.Context, garbage map[digest.Digest]bool) []digest.Digest {
	type frame struct {
		d    digest.Digest
		refs []digest.Digest
	}
	seen := map[digest.Digest]bool{}
	var inward []digest.Digest // what is referred to first
	enter := func(d digest.Digest) frame {
		seen[d] = true
		if !c.opt.MayRefer(c.s.head(d)) {
			return frame{d: d}
		}
		// What cannot be read nobody can stand on: it refers to nothing.
		results, objects, _ := c.opt.References(ctx, d)
		return frame{d, append(results, objects...)}
	}
	for d := range garbage {
		if seen[d] || ctx.Err() != nil {
			continue
		}
		stack := []frame{enter(d)}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.refs) == 0 {
				inward = append(inward, top.d)
				stack = stack[:len(stack)-1]
				continue
			}
			next := top.refs[0]
			top.refs = top.refs[1:]
			if garbage[next] && !seen[next] {
				stack = append(stack, enter(next))
			}
		}
	}
	slices.Reverse(inward)
	return inward
}

// head returns the first bytes of an object, unverified; none when there are none.
func (s *Store) head(d digest.Digest) []byte {
	f, err := s.open(d)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, 256)
	n, _ := io.ReadFull(f, b)
	return b[:n]
}

func (c *collector) kept(d digest.Digest) {
	c.report.KeptObjects++
	if n, err := c.s.Stat(d); err == nil {
		c.report.KeptBytes += n
	}
}

// alone runs do while no process can add a line.
func (c *collector) alone(do func() error) error {
	f, err := c.d.Append(holdLock)
	if err != nil {
		return err
	}
	defer f.OS().Close() // and unlock
	if err := disk.LockAlone(f.OS()); err != nil {
		return err
	}
	return do()
}

func (c *collector) remove(ctx context.Context, batch []digest.Digest) error {
	if len(batch) == 0 {
		return nil
	}
	return c.alone(func() error {
		if err := c.held(ctx); err != nil {
			return err
		}
		for _, d := range batch {
			if c.needed[d] {
				c.kept(d)
				continue
			}
			n, err := c.s.Stat(d)
			if err == nil && !c.opt.DryRun {
				err = c.d.Remove(objectName(d))
			}
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			c.s.forget(d)
			c.report.Objects++
			c.report.Bytes += n
		}
		return nil
	})
}

// index removes the entries whose result is gone.
func (c *collector) index(ctx context.Context) error {
	keys := filepath.Join(c.s.dir, keysDir)
	shards, err := readNames(keys)
	if err != nil {
		return err
	}
	for _, shard := range shards {
		names, err := readNames(filepath.Join(keys, shard))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.entries(keysDir + "/" + shard + "/" + name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *collector) entries(dir string) error {
	names, err := readNames(filepath.Join(c.s.dir, dir))
	if err != nil {
		return err
	}
	var gone []string
	for _, name := range names {
		d, err := digest.Parse(strings.TrimSuffix(name, pointerExt))
		if err != nil || !c.needed[d] && (c.opt.DryRun || !c.s.Has(d, -1)) {
			gone = append(gone, name)
		}
	}
	c.report.Pointers += len(gone)
	if len(gone) == 0 || c.opt.DryRun {
		return nil
	}
	return c.alone(func() error {
		for _, name := range gone {
			if err := c.d.Remove(dir + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if len(gone) == len(names) {
			// Another entry may have come meanwhile; then the folder stays.
			_ = c.d.Remove(dir)
		}
		return nil
	})
}

// leftovers removes what dead processes left below tmp, and the trash.
func (c *collector) leftovers(left, alive []string) error {
	living := map[string]bool{}
	for _, name := range alive {
		living[strings.TrimSuffix(name, holdExt)] = true
	}
	for _, name := range left {
		token, _, _ := strings.Cut(name, ".")
		if living[token] || name == path.Base(collecting) || path.Ext(name) == lockExt {
			continue
		}
		if err := c.removeAll(tempDir+"/"+name, &c.report.Temporary); err != nil {
			return err
		}
	}
	if !c.opt.EmptyTrash {
		return nil
	}
	trash, err := readNames(filepath.Join(c.s.dir, trashDir))
	if err != nil {
		return err
	}
	for _, name := range trash {
		if err := c.removeAll(trashDir+"/"+name, &c.report.Trash); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) removeAll(name string, count *int) error {
	if !c.opt.DryRun {
		if err := c.d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	*count++
	return nil
}

// Pin keeps an object, or a result with all that it stands on, from being
// collected until it is unpinned.
func (s *Store) Pin(d digest.Digest) error {
	dk, err := s.writable()
	if err != nil {
		return err
	}
	if err := s.Hold(d); err != nil {
		return err
	}
	if _, err := s.Stat(d); err != nil {
		return err
	}
	if err := dk.MkdirAll(pinsDir); err != nil {
		return err
	}
	return dk.WriteFile(pinsDir+"/"+d.String(), nil)
}

// Unpin takes a pin away; one that is not there is no error.
func (s *Store) Unpin(d digest.Digest) error {
	dk, err := s.writable()
	if err != nil {
		return err
	}
	if err := dk.Remove(pinsDir + "/" + d.String()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
