package prov

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/stage"
)

// The files of a run's folder.
const (
	RunsFolder       = "runs" // below the workspace
	ManifestName     = "run.json"
	StatementName    = "statement.json"
	ResultName       = "result.json"
	PlanName         = "plan.yaml"
	ResolvedPlanName = "plan.resolved.json"
	StagesFolder     = "stages"
	ArtifactsFolder  = "artifacts"
	LockName         = "lock"
	LogName          = "log" // in the run's folder and in an attempt's
)

// Latest names the run that began last, whatever became of it.
const Latest = "latest"

// EncodeManifest writes run.json: the same manifest gives the same bytes.
func EncodeManifest(m Manifest) ([]byte, error) {
	m.Schema = ManifestSchema
	if m.Stages == nil {
		m.Stages = []ManifestStage{}
	}
	if m.Files == nil {
		m.Files = map[string]digest.Digest{}
	}
	m.StartedAt.Time, m.FinishedAt.Time = m.StartedAt.UTC(), m.FinishedAt.UTC()
	return encode(m)
}

// DecodeManifest reads a run.json.
func DecodeManifest(b []byte) (*Manifest, error) {
	m := new(Manifest)
	if err := jsonv2.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestName, err)
	}
	if m.Schema != ManifestSchema {
		return nil, fmt.Errorf("%s: schema is %q, want %q", ManifestName, m.Schema, ManifestSchema)
	}
	return m, nil
}

// A Run is a run's folder, open for reading. Every path below it goes through
// an os.Root: nothing outside is ever read.
type Run struct {
	ID       string
	Dir      string    // the folder's path, for messages
	Manifest *Manifest // nil while the run has no run.json, or one that cannot be read
	Broken   error     // why run.json cannot be read
	manifest []byte    // run.json
	root     *os.Root
}

// ErrNoRun is wrapped when a name fits no run.
var ErrNoRun = errors.New("no such run")

// An AmbiguousError lists the runs that a prefix fits.
type AmbiguousError struct {
	Prefix     string
	Candidates []string // newest first
}

// Error lists the candidates.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("run %q is ambiguous: %s", e.Prefix, strings.Join(e.Candidates, ", "))
}

// OpenRun opens a run of the workspace by its id, an unambiguous prefix, a
// path, or "latest". The caller closes it.
func OpenRun(workspace, name string) (*Run, error) {
	dir, err := findRun(workspace, name)
	if err != nil {
		return nil, err
	}
	return openDir(dir)
}

func openDir(dir string) (*Run, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open run: %w", err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	r := &Run{ID: filepath.Base(abs), Dir: dir, root: root}
	b, err := disk.ReadFile(root, ManifestName)
	if err == nil {
		r.manifest = b
		r.Manifest, err = DecodeManifest(b)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Manifest, r.Broken = nil, err
	}
	return r, nil
}

func findRun(workspace, name string) (string, error) {
	runs := filepath.Join(workspace, RunsFolder)
	if strings.ContainsRune(name, filepath.Separator) || name == "." || name == ".." {
		if isRun(name) {
			return name, nil
		}
		return "", fmt.Errorf("run %q: no run in that folder: %w", name, ErrNoRun)
	}
	if _, _, ok := SplitRunID(name); ok {
		if isFolder(runs, name) {
			return filepath.Join(runs, name), nil
		}
	}
	ids, err := NewestRuns(workspace)
	if err != nil {
		return "", err
	}
	if name == Latest {
		for id := range ids {
			return filepath.Join(runs, id), nil
		}
		return "", fmt.Errorf("run %q: %s holds none: %w", name, runs, ErrNoRun)
	}
	var fits []string
	for id := range ids {
		if name != "" && strings.HasPrefix(id, name) {
			fits = append(fits, id)
		}
	}
	switch {
	case len(fits) == 1:
		return filepath.Join(runs, fits[0]), nil
	case len(fits) > 1:
		return "", &AmbiguousError{Prefix: name, Candidates: fits}
	case isRun(name):
		return name, nil
	}
	return "", fmt.Errorf("run %q: %w", name, ErrNoRun)
}

func isFolder(dir, name string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	info, err := root.Lstat(name)
	return err == nil && info.IsDir()
}

// isRun tells whether a folder is a run's: it has a journal or a manifest.
func isRun(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	for _, name := range []string{JournalName, ManifestName} {
		if info, err := root.Stat(name); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// Root returns the run's folder, for reading.
func (r *Run) Root() *os.Root { return r.root }

// Close lets go of the folder.
func (r *Run) Close() error { return r.root.Close() }

// ReadFile reads a file below the run's folder.
func (r *Run) ReadFile(name string) ([]byte, error) { return disk.ReadFile(r.root, name) }

// Journal reads the journal and follows its chain; see ReadJournal.
func (r *Run) Journal() (Chain, error) {
	b, err := disk.ReadFile(r.root, JournalName)
	if err != nil {
		return Chain{}, fmt.Errorf("run %s: %w", r.ID, err)
	}
	return ReadJournal(b)
}

var runID = regexp.MustCompile(`^([a-z0-9][a-z0-9._-]{0,63})-([0-9]{8}T[0-9]{6}Z|[0-9]{8}t[0-9]{6}z)-([0-9A-Za-z]{6})$`)

// SplitRunID takes a run's id apart; ok is false when it is none.
func SplitRunID(id string) (plan string, began time.Time, ok bool) {
	m := runID.FindStringSubmatch(id)
	if m == nil {
		return "", time.Time{}, false
	}
	began, err := time.Parse("20060102T150405Z", strings.ToUpper(m[2]))
	return m[1], began, err == nil
}

// RunIDs lists the runs of a workspace, the one begun last first.
func RunIDs(workspace string) ([]string, error) {
	runs, err := NewestRuns(workspace)
	if err != nil {
		return nil, err
	}
	return slices.AppendSeq([]string{}, runs), nil
}

// NewestRuns yields the runs of a workspace, the one begun last first. Who
// stops early reads few of their journals: ids are exact to the second, and only
// where two share one is the journal asked.
func NewestRuns(workspace string) (iter.Seq[string], error) {
	dir := filepath.Join(workspace, RunsFolder)
	entries, err := readFolder(dir)
	if err != nil {
		return nil, err
	}
	bySecond := map[time.Time][]string{}
	for _, e := range entries {
		if _, began, ok := SplitRunID(e.Name()); ok && e.IsDir() {
			bySecond[began] = append(bySecond[began], e.Name())
		}
	}
	seconds := slices.SortedFunc(maps.Keys(bySecond), func(a, b time.Time) int { return b.Compare(a) })
	return func(yield func(string) bool) {
		for _, second := range seconds {
			for _, id := range newestFirst(dir, second, bySecond[second]) {
				if !yield(id) {
					return
				}
			}
		}
	}, nil
}

// readFolder lists a folder of runs; one that is not there is empty.
func readFolder(dir string) ([]fs.DirEntry, error) {
	folder, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	defer folder.Close()
	entries, err := fs.ReadDir(folder.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return entries, nil
}

// newestFirst sorts runs that began in the same second.
func newestFirst(dir string, second time.Time, ids []string) []string {
	if len(ids) == 1 {
		return ids
	}
	began := make(map[string]time.Time, len(ids))
	folder, err := os.OpenRoot(dir)
	if err == nil {
		defer folder.Close()
	}
	for _, id := range ids {
		began[id] = second
		if err != nil {
			continue
		}
		if l, ok := firstLine(folder, path.Join(id, JournalName)); ok {
			began[id] = l.At.Time
		}
	}
	return slices.SortedFunc(slices.Values(ids), func(a, b string) int {
		return cmp.Or(began[b].Compare(began[a]), cmp.Compare(a, b))
	})
}

// firstLine returns the line that a journal begins with, which says when the
// run began to the nanosecond.
func firstLine(root *os.Root, journal string) (Line, bool) {
	f, err := root.Open(journal)
	if err != nil {
		return Line{}, false
	}
	defer f.Close()
	var l Line
	if json.NewDecoder(io.LimitReader(f, 1<<20)).Decode(&l) != nil {
		return Line{}, false
	}
	return l, true
}

// A Summary is one line of `run list --json`.
type Summary struct {
	Run        string      `json:"run"`
	Plan       string      `json:"plan"`
	Base       *string     `json:"base"`
	Status     string      `json:"status"` // of run.json; "unfinished" without one
	StartedAt  *stage.Time `json:"started_at"`
	FinishedAt *stage.Time `json:"finished_at"` // null while there is no run.json
	Size       int64       `json:"size"`        // bytes of all files in the run's folder
}

// Unfinished is the status of a run that has no run.json.
const Unfinished Status = "unfinished"

const unreadable = "unreadable"

// ListRuns describes every run of a workspace, the one begun last first. A run
// whose run.json cannot be read is listed with the status "unreadable".
func ListRuns(workspace string) ([]Summary, error) {
	ids, err := RunIDs(workspace)
	if err != nil {
		return nil, err
	}
	out := make([]Summary, 0, len(ids))
	for _, id := range ids {
		out = append(out, summarize(filepath.Join(workspace, RunsFolder, id)))
	}
	return out, nil
}

func summarize(dir string) Summary {
	plan, began, _ := SplitRunID(filepath.Base(dir))
	s := Summary{Run: filepath.Base(dir), Plan: plan, Status: string(Unfinished), StartedAt: &stage.Time{Time: began}}
	r, err := openDir(dir)
	if err != nil {
		s.Status = unreadable
		return s
	}
	defer r.root.Close()
	s.Size = sizeOf(r.root)
	if r.Broken != nil {
		s.Status = unreadable
		return s
	}
	if m := r.Manifest; m != nil {
		s.Plan, s.Base, s.Status = m.Plan.Name, m.Base, string(m.Status)
		s.StartedAt, s.FinishedAt = &m.StartedAt, &m.FinishedAt
		return s
	}
	if l, ok := firstLine(r.root, JournalName); ok {
		s.StartedAt = &l.At
		if l.Base != "" {
			s.Base = &l.Base
		}
	}
	return s
}

func sizeOf(root *os.Root) (n int64) {
	// A file that vanishes meanwhile has no size any more.
	_ = fs.WalkDir(root.FS(), ".", func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// Named tells whether a file of a run must stand in run.json's "files": every
// one but run.json and its statement (and the seal of it), locks, logs, the
// readable copies, and what WriteFile may leave behind in a crash.
func Named(name string) bool {
	switch name {
	case ManifestName, StatementName, StatementName + ".dsse", LockName:
		return false
	}
	if strings.HasPrefix(name, ArtifactsFolder+"/") {
		return false
	}
	base := path.Base(name)
	return base != LogName && !strings.HasSuffix(base, ".lock") && !isTemp(base)
}
