package pipeline

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/rs/zerolog"

	"anvil/pipeline/stage"
)

// logger writes the stage's diagnosis to its own log, and to the executor's
// where that listens to the level.
func (a *attempt) logger(file io.Writer) zerolog.Logger {
	w := &redactor{secrets: a.e.secrets, file: file, also: a.e.x.Log, stage: a.n.ID}
	return zerolog.New(w).Level(zerolog.DebugLevel).With().Timestamp().Logger()
}

// A redactor passes whole lines on with every secret blanked.
type redactor struct {
	secrets *stage.Secrets
	file    io.Writer
	also    zerolog.Logger
	stage   string
}

var _ zerolog.LevelWriter = (*redactor)(nil)

// Write writes one line of the log.
func (r *redactor) Write(p []byte) (int, error) { return r.WriteLevel(zerolog.NoLevel, p) }

// WriteLevel writes one line of the log.
func (r *redactor) WriteLevel(level zerolog.Level, p []byte) (int, error) {
	line := bytes.Clone(p)
	r.secrets.RedactBytes(line)
	if _, err := r.file.Write(line); err != nil {
		return 0, err
	}
	if level >= r.also.GetLevel() && level != zerolog.NoLevel {
		r.pass(level, line)
	}
	return len(p), nil
}

func (r *redactor) pass(level zerolog.Level, line []byte) {
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		return
	}
	text, _ := fields[zerolog.MessageFieldName].(string)
	for _, own := range []string{zerolog.MessageFieldName, zerolog.LevelFieldName, zerolog.TimestampFieldName, "stack"} {
		delete(fields, own)
	}
	r.also.WithLevel(level).Str("stage", r.stage).Fields(fields).Msg(text)
}
