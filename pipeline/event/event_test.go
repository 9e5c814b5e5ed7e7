package event

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"anvil/schemas"
)

func TestEveryEventFitsItsSchema(t *testing.T) {
	at := time.Date(2026, 11, 30, 10, 0, 0, 1, time.UTC)
	stage := Event{At: at, Run: "r", Stage: "measure", Kind: "measure"}
	with := func(name string, change func(*Event)) Event {
		e := stage
		e.Event = name
		change(&e)
		return e
	}
	events := []Event{
		{Event: RunStarted, At: at, Run: "r", Base: "q"},
		{Event: RunWaiting, At: at, Text: "the endpoint is busy"},
		{Event: RunWarning, At: at, Run: "r", Text: "x"},
		with(StageStarted, func(e *Event) { e.Attempt = 1 }),
		with(StageProgress, func(e *Event) { e.Elapsed, e.Done, e.Total, e.Tally = 1, 2, 3, map[string]int{"ok": 2} }),
		with(StageFinding, func(e *Event) { e.Code, e.Text = "gate", "too few" }),
		with(StageWarning, func(e *Event) { e.Text = "damaged" }),
		with(StageFinished, func(e *Event) { e.Status, e.How = "ok", "executed" }),
		{Event: RunFinished, At: at, Run: "r", Status: "ok", Finished: &Finished{Record: &Record{Path: "p", SHA256: string(bytes.Repeat([]byte("a"), 64)), ID: "rec-1"}}},
		{Event: RunFinished, At: at, Run: "r", Status: "failed", Finished: &Finished{Exit: 4}},
	}
	for _, e := range events {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		doc := decode(t, raw)
		if err := schemas.Check("anvil.event/v1", doc); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestTheLastEventSaysNullWhereThereIsNoRecord(t *testing.T) {
	raw, err := json.Marshal(Event{Event: RunFinished, Run: "r", Status: "ok", Finished: &Finished{}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"event":"run.finished","at":"0001-01-01T00:00:00.000000000Z","run":"r","status":"ok","exit":0,"record":null,"limitations":0}`
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
}

func TestOtherEventsSayNothingOfTheEnd(t *testing.T) {
	raw, _ := json.Marshal(Event{Event: RunStarted, Run: "r"})
	for _, key := range []string{"exit", "record", "limitations"} {
		if _, ok := decode(t, raw)[key]; ok {
			t.Errorf("%s has %q", raw, key)
		}
	}
}

func TestTheSchemaRefusesAHalfEvent(t *testing.T) {
	for name, e := range map[string]Event{
		"an end without its exit code": {Event: RunFinished, Run: "r", Status: "ok"},
		"a stage without its name":     {Event: StageFinished, Run: "r", Status: "ok"},
		"an unknown event":             {Event: "stage.paused", Run: "r", Stage: "s", Kind: "k"},
	} {
		raw, _ := json.Marshal(e)
		if err := schemas.Check("anvil.event/v1", decode(t, raw)); err == nil {
			t.Errorf("%s: %s is accepted", name, raw)
		}
	}
}

func decode(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var doc map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc
}
