package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/internal/prompt"
)

// Prompts opens the prompts of a stage's workload: made up, with what is known of
// the engine's tokenizer, or the rows of the dataset that was handed in.
func Prompts(ctx context.Context, in stage.Inputs, w prompt.Config, bytesPerToken float64) (prompt.Source, error) {
	if w.Synthetic() {
		return w.Open(nil, bytesPerToken)
	}
	file, ok := in.File("/workload/file")
	if !ok {
		return nil, errors.New("workload: the dataset was not handed in")
	}
	r, err := file.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open dataset: %w", err)
	}
	defer r.Close()
	source, err := w.Open(r, bytesPerToken)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", file.Name, err)
	}
	// The reader has verified the digest only once it has seen the end.
	_, err = io.Copy(io.Discard, r)
	return source, err
}

// Wall writes a time as our own files have it: UTC, nanoseconds.
func Wall(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }
