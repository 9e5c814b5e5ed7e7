package record

import (
	"strings"

	"anvil/stages/internal/jsontree"
)

// also runs several checks on one document.
func also(checks ...func(*checker, jsontree.Value)) func(*checker, jsontree.Value) {
	return func(c *checker, doc jsontree.Value) {
		for _, check := range checks {
			check(c, doc)
		}
	}
}

// checkSimulatedCell: a record of the embedded engine says so twice, and a copy
// must not say it once (records.md 3.4).
func checkSimulatedCell(c *checker, doc jsontree.Value) {
	engine, gpu := doc.Get("engine"), doc.Get("gpu")
	simulated, none := strings.HasPrefix(engine.Str(), strings.TrimSpace(SimulatedEngine(""))), gpu.Str() == SimulatedGPU
	switch {
	case simulated && !none:
		c.problem("/gpu", "simulated.device", gpu, SimulatedGPU, "the engine is %s", engine.Str())
	case none && !simulated:
		c.problem("/engine", "simulated.engine", engine, nil, "the record says that its accelerator is none, simulated, and its engine is not anvil-sim")
	}
}

// checkSimulatedRun is the same of a live run.
func checkSimulatedRun(c *checker, doc jsontree.Value) {
	device, limits := doc.At("run_context", "device"), doc.Get("limits")
	simulated, said := device.Str() == SimulatedDevice, strings.HasPrefix(limits.Str(), "Simulated engine.")
	switch {
	case simulated && !said:
		c.problem("/limits", "simulated.limits", limits, nil, `the device is simulated, and limits do not begin with "Simulated engine."`)
	case said && !simulated:
		c.problem("/run_context/device", "simulated.device", device, SimulatedDevice, "limits say that the engine is simulated")
	}
}
