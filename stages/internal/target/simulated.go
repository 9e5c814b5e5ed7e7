package target

import (
	"bytes"
	"strings"

	"anvil/stages/internal/engine"
)

// How the simulator signs what it sends: a header of every response, for which
// a gateway may have no use, and a member of every chunk.
const (
	simulatedHeader = "X-Anvil-Simulated"
	simulatedServer = "anvil-sim/"
)

var simulatedChunk = []byte(`"system_fingerprint":"anvil-sim-`)

// witnessHead and witnessBody look for the simulator's signature in an answer.
// A base_url says nothing of what is behind it: a simulator that was started
// apart must not pass for hardware.
func (t *Target) witnessHead(h engine.Head) {
	if h.Compressed() {
		t.Compressed++
	}
	if h.Header.Get(simulatedHeader) == "" {
		return
	}
	t.Simulated = true
	if version, ok := strings.CutPrefix(h.Header.Get("Server"), simulatedServer); ok && t.SimVersion == "" {
		t.SimVersion = version
	}
}

func (t *Target) witnessBody(b []byte) {
	if !t.Simulated && bytes.Contains(b, simulatedChunk) {
		t.Simulated = true
	}
}
