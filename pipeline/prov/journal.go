package prov

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

// JournalSchema is the shape of one line of a journal.
const JournalSchema schemas.ID = "anvil.journal/v1"

// JournalName is the journal's file in a run's folder.
const JournalName = "journal.jsonl"

// SyncEvery is how long a line may wait for its sync when nothing asks for it
// sooner.
const SyncEvery = 50 * time.Millisecond

// The events of a journal. Readers pass over those that they do not know.
const (
	RunStarted     = "run.started"
	RunResumed     = "run.resumed"    // Old holds what run.json was
	RunTakenOver   = "run.taken_over" // from a dead owner
	RunFinished    = "run.finished"
	StageStarted   = "stage.started"
	StageFinished  = "stage.finished" // Result holds its result.json
	StageLost      = "stage.lost"
	StageRestored  = "stage.restored"
	StageTakenOver = "stage.taken_over"
	StageReused    = "stage.reused"
	StageBlocked   = "stage.blocked"
	StageSkipped   = "stage.skipped"
	StageStale     = "stage.stale"
	ObjectSetAside = "object.set_aside"
	JournalTorn    = "journal.torn"
)

// A Line is one line of a journal. The journal sets Seq, At and Prev.
type Line struct {
	Seq   int64          `json:"seq"` // from 0
	At    stage.Time     `json:"at"`
	Event string         `json:"event"`
	Prev  *digest.Digest `json:"prev"` // of the previous line without its newline; null in the first

	Run       string         `json:"run,omitempty"`
	Plan      string         `json:"plan,omitempty"`
	Path      string         `json:"path,omitempty"` // of the plan, as the user named it
	Base      string         `json:"base,omitempty"`
	Stage     string         `json:"stage,omitempty"`
	Kind      string         `json:"kind,omitempty"`
	Attempt   int            `json:"attempt,omitempty"`
	Status    Status         `json:"status,omitempty"`
	Key       *digest.Digest `json:"key,omitempty"`
	Result    *digest.Digest `json:"result,omitempty"` // the result.json that the stage stands on
	Added     *digest.Digest `json:"added,omitempty"`  // set of origin "run" that the executor added to what it took over
	Old       *digest.Digest `json:"old,omitempty"`    // what was replaced or set aside
	Exit      *int           `json:"exit,omitempty"`
	Host      string         `json:"host,omitempty"`
	PID       int            `json:"pid,omitempty"`
	Token     string         `json:"token,omitempty"` // of claim.json
	Bytes     int64          `json:"bytes,omitempty"`
	Text      string         `json:"text,omitempty"`
	BlockedBy string         `json:"blocked_by,omitempty"`
	// Options are what was asked for, which --resume follows; the executor's own.
	Options json.RawMessage `json:"options,omitempty"`
}

// A Journal appends lines to journal.jsonl. It is safe for concurrent use; the
// lines stand in the order of the calls.
type Journal struct {
	now func() time.Time

	waiting sync.WaitGroup // for the timer's sync

	mu     sync.Mutex
	f      *disk.File
	seq    int64 // lines written
	synced int64 // lines that are durable
	head   *digest.Digest
	timer  *time.Timer // set while lines wait for their sync
	err    error       // the first one; it stays
}

// CreateJournal begins the journal of a new run; d is the run's folder.
func CreateJournal(d *disk.Disk, now func() time.Time) (*Journal, error) {
	f, err := d.Create(JournalName)
	if err != nil {
		return nil, err
	}
	if err := d.SyncDir("."); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Journal{now: now, f: f}, nil
}

// ReopenJournal goes on with the journal of an earlier process. The chain must
// be whole; a last line that a crash left torn is cut off, and a line of event
// JournalTorn says so.
func ReopenJournal(d *disk.Disk, now func() time.Time) (*Journal, []Line, error) {
	text, err := disk.ReadFile(d.Root(), JournalName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("read %s: %w", JournalName, err)
	}
	chain, err := ReadJournal(text)
	if err != nil {
		return nil, nil, err
	}
	f, err := d.Append(JournalName)
	if err != nil {
		return nil, nil, err
	}
	n := int64(len(chain.Lines))
	j := &Journal{now: now, f: f, seq: n, synced: n, head: chain.Head}
	if chain.Torn == 0 {
		return j, chain.Lines, nil
	}
	tail := digest.FromBytes(text[len(text)-chain.Torn:])
	if err := f.Truncate(int64(len(text) - chain.Torn)); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	err = j.Append(Line{Event: JournalTorn, Bytes: int64(chain.Torn), Old: &tail, Text: "a crash left the last line torn; it was cut off"})
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return j, chain.Lines, nil
}

// Append writes a line. It is synced within SyncEvery, by the next Sync, or by Close.
func (j *Journal) Append(l Line) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err
	}
	l.Seq, l.At, l.Prev = j.seq, stage.Time{Time: j.now()}, j.head
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("journal %s: %w", l.Event, err)
	}
	sum := digest.FromBytes(b)
	if _, err := j.f.Write(append(b, '\n')); err != nil {
		// Part of the line may be down: nothing may follow it.
		j.err = err
		return err
	}
	j.seq++
	j.head = &sum
	if j.timer == nil {
		j.waiting.Add(1)
		j.timer = time.AfterFunc(SyncEvery, j.background)
	}
	return nil
}

func (j *Journal) background() {
	defer j.waiting.Done()
	j.mu.Lock()
	j.timer = nil
	j.mu.Unlock()
	_ = j.Sync() // its error stays, and whoever comes next is told
}

// Sync makes every line durable: before an observation starts. Others may
// append meanwhile.
func (j *Journal) Sync() error {
	j.mu.Lock()
	if j.timer != nil && j.timer.Stop() {
		j.timer = nil
		j.waiting.Done()
	}
	upto, err := j.seq, j.err
	done := j.synced >= upto
	j.mu.Unlock()
	if err != nil || done {
		return err
	}
	err = j.f.Sync()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.err = err
	} else {
		j.synced = max(j.synced, upto)
	}
	return j.err
}

// Head returns the SHA-256 of the last line, without its newline.
func (j *Journal) Head() digest.Digest {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.head == nil {
		return digest.Digest{}
	}
	return *j.head
}

// Close syncs and closes the journal.
func (j *Journal) Close() error {
	err := j.Sync()
	j.waiting.Wait()
	return errors.Join(err, j.f.Close())
}

// A Chain is a journal that was read.
type Chain struct {
	Lines []Line
	Sums  []digest.Digest // of each line
	Head  *digest.Digest  // of the last whole line; nil when there is none
	Torn  int             // bytes after the last newline: a crash came in the middle of a line
}

// A ChainError names the line at which a journal's chain breaks.
type ChainError struct {
	Line int // from 1, as editors count
	Text string
}

// Error is "journal.jsonl:3: …".
func (e *ChainError) Error() string { return fmt.Sprintf("%s:%d: %s", JournalName, e.Line, e.Text) }

// ReadJournal reads the text of a journal and follows its chain. A break is a
// *ChainError, beside the lines before it; a torn end is none.
func ReadJournal(text []byte) (Chain, error) {
	var c Chain
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			c.Torn = len(text)
			return c, nil
		}
		line := text[:end]
		text = text[end+1:]
		var l Line
		if err := json.Unmarshal(line, &l); err != nil {
			return c, &ChainError{len(c.Lines) + 1, "no journal line: " + err.Error()}
		}
		if err := c.follows(l); err != nil {
			return c, err
		}
		sum := digest.FromBytes(line)
		c.Lines, c.Sums, c.Head = append(c.Lines, l), append(c.Sums, sum), &sum
	}
	return c, nil
}

func (c *Chain) follows(l Line) error {
	n := len(c.Lines)
	switch {
	case l.Seq != int64(n):
		return &ChainError{n + 1, fmt.Sprintf("line has seq %d, want %d: lines are missing or were added", l.Seq, n)}
	case c.Head == nil && l.Prev == nil:
		return nil
	case c.Head == nil || l.Prev == nil:
		return &ChainError{n + 1, "only the first line has no previous one"}
	case *l.Prev != *c.Head:
		return &ChainError{n, fmt.Sprintf("line has digest %s, the next one expects %s", *c.Head, *l.Prev)}
	}
	return nil
}
