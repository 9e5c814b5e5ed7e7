package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"anvil/stages/record"
)

// startSim starts a simulator in a process of its own and returns its base URL.
func startSim(tb testing.TB, exe, config string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "sim.json")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), exe, "sim", "--config", file)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGKILL) }
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		tb.Fatal(err)
	}
	var first struct {
		BaseURL string `json:"base_url"`
	}
	if err := json.Unmarshal(line, &first); err != nil {
		tb.Fatal(err)
	}
	return first.BaseURL
}

// streamed is what a measurement of many streams cost.
type streamed struct {
	peak     int64 // resident bytes
	outcomes map[record.Outcome]int
	m        record.Measurement
}

// stream measures n streams of tokens events each, in two processes.
func stream(tb testing.TB, exe string, n, rate, tokens int) (s streamed) {
	tb.Helper()
	url := startSim(tb, exe, fmt.Sprintf(`{"model": "m", "decode_tok_s": %d, "slots": %d, "prefill_tok_s": 1000000}`, rate, n))
	ws := tb.TempDir()
	plan := fmt.Sprintf(`schema: anvil.plan/v1
name: streams
endpoints: {target: {base_url: %q, model: m}}
stages:
  - {id: measure, uses: measure, with: {endpoint: target, max_tokens: %d, sampling: {ignore_eos: true}, store_text: false,
     load: {mode: closed, concurrency: %d, requests: %d}, workload: {source: synthetic, context_tokens: 32}}}
`, url, tokens, n, n)
	file := filepath.Join(ws, "plan.yaml")
	if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), exe, "--workspace", ws, "plan", "run", file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		tb.Fatalf("%v\n%s", err, stderr.String())
	}
	s.peak = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	found, err := filepath.Glob(filepath.Join(ws, "runs", "*", "artifacts", "measure", "measurement.json"))
	if err != nil || len(found) != 1 {
		tb.Fatalf("measurement: %v %v", found, err)
	}
	raw, err := os.ReadFile(found[0])
	if err == nil {
		err = json.Unmarshal(raw, &s.m)
	}
	if err != nil {
		tb.Fatal(err)
	}
	s.outcomes = s.m.Accounting.Outcomes
	return s
}

func compile(tb testing.TB) string {
	tb.Helper()
	exe := filepath.Join(tb.TempDir(), "anvil")
	if out, err := exec.CommandContext(tb.Context(), "go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		tb.Fatalf("build: %v\n%s", err, out)
	}
	return exe
}

// What a phase holds in memory does not grow with the length of its answers.
func TestMemoryOfManyStreamsIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	const n, most = 200, 160 << 20
	s := stream(t, compile(t), n, 100, 400)
	if got := s.outcomes[record.OutcomeTruncated] + s.outcomes[record.OutcomeOK]; got != n {
		t.Errorf("outcomes %v", s.outcomes)
	}
	if s.peak > most {
		t.Errorf("%d streams took %d MiB at the peak, at most %d are wanted", n, s.peak>>20, most>>20)
	}
}

// BenchmarkStreams is the bar of the issue: 1,000 streams of 100 events a second;
// ANVIL_TOKENS is how many events each has, 60,000 for ten minutes.
func BenchmarkStreams(b *testing.B) {
	tokens := 1_000
	if s := os.Getenv("ANVIL_TOKENS"); s != "" {
		if _, err := fmt.Sscan(strings.TrimSpace(s), &tokens); err != nil {
			b.Fatal(err)
		}
	}
	exe := compile(b)
	for b.Loop() {
		s := stream(b, exe, 1_000, 100, tokens)
		b.ReportMetric(float64(s.peak>>20), "MiB-peak")
		b.ReportMetric(float64(1_000*tokens)/(s.m.Phase.WallClockMS/1e3), "events/s")
		cpu, _ := s.m.Client.CPU.(map[string]any)
		b.ReportMetric(cpu["own_s"].(float64)/(s.m.Phase.WallClockMS/1e3), "cores")
		limits, _ := s.m.Client.Limits.(map[string]any)
		b.ReportMetric(limits["capture_waits"].(float64), "waits")
		b.Logf("%v, verdict %s, coalesced %.3f", s.outcomes, s.m.Client.Verdict, *s.m.Client.CoalescedShare)
	}
}
