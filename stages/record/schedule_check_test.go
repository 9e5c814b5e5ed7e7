package record

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

const openSchedule = `{"schema": "anvil.schedule/v1", "client": "c0", "clients": 1, "mode": "open", "arrival": "constant", "planned": 3, "duration_ns": null,
 "seed": 7, "stream": null, "workers": null, "due_ns": [0, 10, 40], "gaps": {"samples": 2, "mean_ns": 20, "stddev_ns": 14.142135623730951, "cv": 0.7071067811865476}, "limitations": []}`

const closedSchedule = `{"schema": "anvil.schedule/v1", "client": "c0", "clients": 1, "mode": "closed", "arrival": null, "planned": 3, "duration_ns": null,
 "seed": 7, "stream": null, "workers": [0, 5], "due_ns": null, "gaps": null, "limitations": []}`

// What the attempts of the phase witness, and nothing within the document.
func TestEveryScalarOfAScheduleIsWitnessed(t *testing.T) {
	free := map[string][]string{
		openSchedule:   {"/client", "/clients", "/arrival", "/duration_ns", "/seed", "/stream"},
		closedSchedule: {"/client", "/clients", "/planned", "/duration_ns", "/seed", "/workers/0", "/workers/1"},
	}
	for doc, free := range free {
		out, _ := survivors(t, []byte(doc), nil)
		for _, s := range out {
			if pointer, _, _ := strings.Cut(s, ":"); !slices.Contains(free, pointer) {
				t.Errorf("%s survives", s)
			}
		}
	}
}

func TestSchedulesAreHeldAgainstThemselves(t *testing.T) {
	for name, c := range map[string]struct{ doc, from, to, pointer, rule string }{
		"open":               {openSchedule, "", "", "", ""},
		"closed":             {closedSchedule, "", "", "", ""},
		"one request":        {openSchedule, `"planned": 3`, `"planned": 1`, "/planned", "schedule.planned"},
		"workers":            {openSchedule, `"workers": null`, `"workers": [0]`, "/workers", "schedule.mode"},
		"arrivals":           {closedSchedule, `"due_ns": null`, `"due_ns": []`, "/due_ns", "schedule.mode"},
		"going back":         {openSchedule, `[0, 10, 40]`, `[10, 0, 40]`, "/due_ns/1", "schedule.order"},
		"another mean":       {openSchedule, `"mean_ns": 20`, `"mean_ns": 21`, "/gaps/mean_ns", "schedule.gaps"},
		"no gaps":            {openSchedule, `"gaps": {"samples": 2, "mean_ns": 20, "stddev_ns": 14.142135623730951, "cv": 0.7071067811865476}`, `"gaps": null`, "/gaps", "schedule.gaps"},
		"gaps of no times":   {closedSchedule, `"gaps": null`, `"gaps": {"samples": 1, "mean_ns": 1, "stddev_ns": null, "cv": null}`, "/gaps", "schedule.gaps"},
		"drawn in no stream": {closedSchedule, `"stream": null`, `"stream": "arrivals"`, "/stream", "schedule.mode"},
	} {
		t.Run(name, func(t *testing.T) {
			r := CheckReader("schedule.json", bytes.NewReader([]byte(strings.Replace(c.doc, c.from, c.to, 1))), Options{})
			i := slices.IndexFunc(r.Problems, func(p Problem) bool { return p.Pointer == c.pointer && p.Rule == c.rule })
			if r.OK != (c.rule == "") || !r.OK && i < 0 {
				t.Errorf("%+v, want %s at %s", r.Problems, c.rule, c.pointer)
			}
		})
	}
}
