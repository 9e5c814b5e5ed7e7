package pipeline

import (
	"errors"

	"anvil/pipeline/store"
)

// The codes of a result's error.
const (
	CodeStage       = "stage_failed"   // the stage said that it could not do its work
	CodeTimeout     = "timeout"        // of the plan
	CodeInterrupted = "interrupted"    // by the user
	CodeChanged     = "input_changed"  // a file that the stage read is another at its end
	CodeInput       = "input_missing"  // what the stage reads is not there or cannot be read
	CodeMissing     = "output_missing" // a declared output was not written
	CodeInvalid     = "output_invalid" // an output does not fit its schema
	CodeDiskFull    = "disk_full"
	CodeReadOnly    = "read_only"
	CodeGone        = "workspace_gone"
	CodePreflight   = "preflight" // the stage found out before anything ran that it cannot work
	CodePanic       = "panic"     // a fault of anvil
)

// paperFault tells a full or vanished disk, which fails the stage that met it
// and whatever comes to the same, from a fault that ends the run.
func (e *execution) paperFault(err error) error {
	if codeOf(err, "") != "" {
		return nil
	}
	return err
}

// codeOf gives the code of an error that has one of its own.
func codeOf(err error, otherwise string) string {
	var full *store.FullError
	var readOnly *store.ReadOnlyError
	var gone *store.GoneError
	switch {
	case errors.As(err, &full):
		return CodeDiskFull
	case errors.As(err, &readOnly):
		return CodeReadOnly
	case errors.As(err, &gone):
		return CodeGone
	}
	return otherwise
}

// A codedError is an error with the code that stands in the result.
type codedError struct {
	code string
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }

func (e *codedError) Unwrap() error { return e.err }
