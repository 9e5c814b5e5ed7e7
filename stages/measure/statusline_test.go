package measure

import (
	"io"
	"net"
	"strings"
	"testing"

	"anvil/stages/record"
)

// What is no HTTP/1 response is none also when all of it comes in one read.
func TestAnotherProtocolsStatusLineIsNoAnswer(t *testing.T) {
	for _, line := range []string{"ICY 200 OK", "HTTP/2 200 OK", "http/1.1 200 OK"} {
		h := serveRaw(t, func(c net.Conn, _ int) {
			_, _ = io.WriteString(c, strings.Replace(sse, "HTTP/1.1 200 OK", line, 1)+chunks(delta("a"), finish("stop"), done)+last)
		})
		p, err := newBench(t, map[string]any{"base_url": h.url, "sim": nil, "metrics": "off"}, map[string]any{"load": closed(1, 1), "max_tokens": 8}).run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a := p.attempts[0]; a.Outcome != record.OutcomeTransport || !strings.Contains(a.Error.Message, "it begins with "+line[:3]) {
			t.Errorf("%s: %s, %+v", line, a.Outcome, a.Error)
		}
	}
}
