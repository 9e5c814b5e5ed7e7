package measure

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

const unsetKey = "ANVIL_TEST_KEY_NOBODY_SETS"

// No key is needed by the embedded engine; for a real endpoint one line names
// the variable, however many stages of the run ask it.
func TestAKeyThatIsNotSetIsOneLine(t *testing.T) {
	h := serveRaw(t, func(c net.Conn, _ int) {
		_, _ = io.WriteString(c, sse+chunks(delta("a"), finish("stop"), done)+last)
	})
	for name, tc := range map[string]struct {
		endpoint map[string]any
		want     int
	}{
		"embedded engine": {map[string]any{"api_key_env": unsetKey}, 0},
		"real endpoint":   {map[string]any{"api_key_env": unsetKey, "base_url": h.url, "sim": nil}, 1},
	} {
		var log bytes.Buffer
		first := newBench(t, tc.endpoint, map[string]any{"load": map[string]any{"mode": "closed", "concurrency": 1, "requests": 1}})
		first.Env.Log = zerolog.New(&log)
		if _, err := first.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := newBench(t, tc.endpoint, first.With)
		second.Env.Log, second.Env.Resources = first.Env.Log, first.Env.Resources
		if _, err := second.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), unsetKey); got != tc.want {
			t.Errorf("%s: named %d times, want %d: %s", name, got, tc.want, log.String())
		}
	}
}
