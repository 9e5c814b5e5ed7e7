package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A sentry is told by the kernel of every file that was opened for writing: also
// of one in which nothing was then changed.
type sentry struct {
	t     *testing.T
	fd    int
	files map[int32]string
}

func newSentry(t *testing.T) *sentry {
	t.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		t.Fatalf("inotify: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	return &sentry{t, fd, map[int32]string{}}
}

func (s *sentry) watch(file string) {
	s.t.Helper()
	wd, err := syscall.InotifyAddWatch(s.fd, file, syscall.IN_CLOSE_WRITE|syscall.IN_MODIFY)
	if err != nil {
		s.t.Fatalf("watch %s: %v", file, err)
	}
	s.files[int32(wd)] = file
}

// watchAll watches the regular files below a folder and returns how many.
func (s *sentry) watchAll(dir string) (n int) {
	s.t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			s.watch(path)
			n++
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// written are the files that were opened for writing since they are watched. The
// kernel queues an event before the close returns, so that nothing is waited for.
func (s *sentry) written() (files []string) {
	s.t.Helper()
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(s.fd, buf)
		if errors.Is(err, syscall.EAGAIN) || n == 0 {
			return files
		}
		if err != nil {
			s.t.Fatal(err)
		}
		for b := buf[:n]; len(b) >= syscall.SizeofInotifyEvent; {
			wd, name := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[12:])
			if binary.NativeEndian.Uint32(b[4:])&(syscall.IN_CLOSE_WRITE|syscall.IN_MODIFY) != 0 {
				files = append(files, s.files[wd])
			}
			b = b[syscall.SizeofInotifyEvent+int(name):]
		}
	}
}

func TestASentrySeesAFileThatIsOpenedForWriting(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSentry(t)
	s.watch(file)
	if _, err := os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	if got := s.written(); len(got) > 0 {
		t.Errorf("a read is taken for a write: %v", got)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := s.written(); len(got) != 1 || got[0] != file {
		t.Errorf("saw %v, want %s", got, file)
	}
}

// snakemake 748: a kill left an input of the user empty. The plan and what it
// names stand in a folder that may not be written, are never opened for writing,
// and neither is what a later run restores or takes over, nor the run it has it of.
func TestSnakemake748NothingThatIsReadIsOpenedForWriting(t *testing.T) {
	input, workspace := t.TempDir(), t.TempDir()
	plan := filepath.Join(input, "plan.yaml")
	for file, text := range map[string]string{
		plan: `schema: anvil.plan/v1
name: sealed
endpoints: {target: {sim: {decode_tok_s: 4000}}}
stages:
  - {id: measure, uses: measure, with: {endpoint: target, max_tokens: 8, load: {mode: closed, concurrency: 1, requests: 2}, workload: {source: dataset, file: d.jsonl}}}
  - {id: grade, uses: grade, needs: [measure], with: {dataset: d.jsonl, graders: [{id: a, type: length, min: 1}]}}
  - {id: summarize, uses: summarize, needs: [measure, grade]}
`,
		filepath.Join(input, "d.jsonl"): `{"id":"a","prompt":"one"}` + "\n" + `{"id":"b","prompt":"two"}` + "\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o444); err != nil { //nolint:gosec // that others may read it is the point
			t.Fatal(err)
		}
	}
	if err := os.Chmod(input, 0o555); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(input, 0o700) }) //nolint:gosec // so that it can be removed
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	anvil := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"--workspace", workspace}, args...), strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Fatalf("anvil %s: exit %d\n%s%s", strings.Join(args, " "), code, stdout.String(), stderr.String())
		}
		return stdout.String()
	}
	s := newSentry(t)
	s.watchAll(input)
	anvil("plan", "run", plan)
	base := s.watchAll(filepath.Join(workspace, "runs"))
	objects := s.watchAll(filepath.Join(workspace, ".anvil", "objects"))
	if base == 0 || objects == 0 {
		t.Fatalf("%d files of the base run and %d objects to watch", base, objects)
	}
	events := anvil("--json", "plan", "run", plan, "--from", "grade")
	for _, want := range []string{`"how":"taken_over"`, `"how":"restored"`} {
		if !strings.Contains(events, want) {
			t.Errorf("no stage is %s:\n%s", want, events)
		}
	}
	anvil("provenance", "verify", "latest")
	if got := s.written(); len(got) > 0 {
		t.Errorf("opened for writing: %s", strings.Join(got, ", "))
	}
}
