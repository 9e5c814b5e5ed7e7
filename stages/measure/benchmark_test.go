package measure

import (
	"encoding/json"
	"testing"
)

// A text may be a mebibyte long and an open loop has no end: none of them waits
// in memory for the record that shows them.
func TestAnOpenLoopHoldsNoTexts(t *testing.T) {
	load := map[string]any{"mode": "open", "arrival": "constant", "rate": 200, "requests": 5}
	for _, store := range []bool{true, false} {
		p, err := newBench(t, nil, map[string]any{"load": load, "max_tokens": 12, "store_text": store}).run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var live struct {
			Requests []struct {
				Text *string `json:"text"`
			} `json:"requests"`
		}
		if err := json.Unmarshal(p.Streams[liveName], &live); err != nil {
			t.Fatal(err)
		}
		if len(live.Requests) != 5 {
			t.Fatalf("%d rows", len(live.Requests))
		}
		for i, r := range live.Requests {
			want := p.attempts[indexOf(p.attempts, i)].Text
			if (r.Text != nil) != store || store && (*r.Text != *want || *want == "") {
				t.Errorf("store_text %v: row %d says %v, its attempt %v", store, i, r.Text, want)
			}
		}
		var held papers
		for _, a := range p.attempts {
			held.add(&a, false)
		}
		for _, row := range held.Live() {
			if row.Text != nil {
				t.Error("a row holds its text")
			}
		}
	}
}
