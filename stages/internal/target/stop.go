package target

import (
	"context"

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
