package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSimNamesItsURLAndServesUntilTold(t *testing.T) {
	config := filepath.Join(t.TempDir(), "engine.json")
	if err := os.WriteFile(config, []byte(`{"model": "m", "slots": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, w := io.Pipe()
	a := &app{stdout: w, stderr: io.Discard}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- a.sim(ctx, "127.0.0.1:0", config)
		_ = w.Close()
	}()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal(err, <-ended)
	}
	var first struct {
		BaseURL string `json:"base_url"`
	}
	if err := json.Unmarshal(line, &first); err != nil {
		t.Fatalf("first line %q: %v", line, err)
	}
	for path, want := range map[string]string{"/models": `"id":"m"`, "/../version": "anvil-sim " + version} {
		if body := get(t, first.BaseURL+path); !strings.Contains(body, want) {
			t.Errorf("%s: got %s, want %s in it", path, body, want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
