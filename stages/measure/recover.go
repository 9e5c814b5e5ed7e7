package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/internal/load"
	"anvil/stages/internal/target"
)

var _ stage.Recoverer = measure{}

// A remark is what the capture says of its phase beside the requests: all that
// a later process cannot know.
type remark struct {
	StartedAtUnixNS int64           `json:"started_at_unix_ns"`
	Tool            stage.Tool      `json:"tool"`
	Reset           string          `json:"cache_reset"`
	Before          target.Counters `json:"counters_before"`
}

func (p phase) remark() []byte {
	r := remark{p.from.UnixNano(), p.tool, p.reset, p.before}
	raw, err := json.Marshal(r)
	if err != nil || len(raw) > load.MaxNote {
		r.Before = nil // counters beyond measure: a phase is worth more than they are
		raw, err = json.Marshal(r)
	}
	if err != nil {
		return nil // texts and numbers: it cannot fail
	}
	return raw
}

// Recover decodes the capture that a killed process left: every request that
// had begun with what had come of it, the others as not started. Nothing is
// known of the client's own state, and no server is asked anything.
func (m measure) Recover(ctx context.Context, env stage.Env, in stage.Inputs, out *stage.Outputs) (err error) {
	s, err := m.setup(ctx, in)
	if err != nil {
		return err
	}
	t, err := target.Offline(env, m.Endpoint, m.Limits)
	if err != nil {
		return err
	}
	drive := m.drive(t, s)
	note, last, err := drive.Recover(env.Folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drive.Close()) }()
	if note == nil {
		return errors.New("the capture ends before the phase began")
	}
	var r remark
	if err := json.Unmarshal(note, &r); err != nil {
		return fmt.Errorf("remark of the capture: %w", err)
	}
	from := time.Unix(0, r.StartedAtUnixNS)
	p := phase{
		result: load.Result{Begun: drive.Begun(), Interrupted: true, End: last}, from: from, to: from.Add(time.Duration(last)),
		wall: time.Duration(last), tool: r.Tool, reset: r.Reset, before: r.Before, killed: true,
	}
	w, err := m.witness(env, t, s, drive, p)
	if err != nil {
		return err
	}
	return w.publish(in, out)
}
