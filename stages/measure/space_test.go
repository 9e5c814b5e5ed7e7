package measure

import (
	"net"
	"strings"
	"testing"
	"time"
)

func TestADiskThatIsTooSmallIsFoundBeforeAnythingIsSent(t *testing.T) {
	h := serveRaw(t, func(net.Conn, int) {})
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{
		"load": closed(2, 1_000_000), "max_tokens": 100_000_000, "limits": map[string]any{"max_body": int64(1) << 50},
	})
	_, err := b.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "may write") || !strings.Contains(err.Error(), "are free") {
		t.Fatalf("error %v", err)
	}
	if h.accepted.Load() != 0 {
		t.Errorf("%d connections were opened", h.accepted.Load())
	}
}

func TestNeedFollowsThePlan(t *testing.T) {
	m := measure{}
	m.MaxTokens, m.Limits.MaxBody = 1000, 256<<20
	s := setup{planned: 100, known: true}
	if got := m.need(s); got != 100*(4096+320000) {
		t.Errorf("100 requests of 1,000 tokens: %v", got)
	}
	m.Limits.MaxBody = 1000
	if got := m.need(s); got != 100*(4096+1000) {
		t.Errorf("bodies are bounded: %v", got)
	}
	s = setup{}
	s.plan.Workers, s.plan.Duration = make([]int64, 10), time.Minute
	if got := m.need(s); got != 10*60*200*320 {
		t.Errorf("10 streams for a minute: %v", got)
	}
}
