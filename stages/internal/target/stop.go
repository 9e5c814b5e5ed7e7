package target

import (
	"context"
	"errors"
	"fmt"

	"anvil/pipeline/stage"
)

// StopContext is a context that ends with the first interrupt too: what is not
// measured need not be drained. A nil stop never ends it.
func StopContext(ctx context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-stop:
			cancel(stage.ErrAborted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled); <-over }
}

// Aborted is the error of a stage that an interrupt, or its timeout, cut short in
// the middle of what.
func Aborted(ctx context.Context, env stage.Env, what string) error {
	cause := context.Cause(ctx)
	if cause == nil && env.StopCause != nil {
		cause = env.StopCause()
	}
	switch {
	case cause == nil:
		return fmt.Errorf("%s: %w", what, stage.ErrAborted)
	case errors.Is(cause, stage.ErrAborted):
		return fmt.Errorf("%s: %w", what, cause)
	}
	return fmt.Errorf("%s: %w: %w", what, stage.ErrAborted, cause)
}
