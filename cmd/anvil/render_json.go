package main

import (
	"encoding/json"
	"io"

	"anvil/pipeline/event"
)

// jsonLines renders each event as one line of JSON on stdout.
type jsonLines struct{ enc *json.Encoder }

func newJSONLines(w io.Writer) *jsonLines {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &jsonLines{enc}
}

// Emit prints the event. A reader that has gone away stops nothing: the run's
// evidence is on disk.
func (j *jsonLines) Emit(e event.Event) { _ = j.enc.Encode(e) }
