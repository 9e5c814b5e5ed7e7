package derive

import (
	"encoding/json"
	"errors"

	"anvil/pipeline/stage"
	"anvil/stages/internal/prompt"
	"anvil/stages/record"
)

// checkPhases holds the documents that measure wrote beside its attempts against
// them and against the configuration that the phase ran under. Package record
// holds each against its own rules alone: one that is changed as a whole agrees
// with itself.
func (v *validation) checkPhases() {
	for _, attempts := range v.artifacts() {
		if attempts.Schema != record.AttemptsSchema || !v.measured(attempts) {
			continue // imported: nothing says what they are the attempts of
		}
		p, err := v.readPhase(attempts)
		if err != nil {
			v.problem(record.LevelRederived, attempts, "", "rederive", nil, nil, "%v", err)
			continue
		}
		v.checkHeader(p)
		for _, c := range phaseChecks {
			a, ok := v.ofStage(attempts.Stage, c.name)
			if !ok || !v.measured(a) || c.needsMeasurement && p.measurement == nil {
				continue
			}
			if err := c.check(v, p, a); err != nil {
				v.problem(record.LevelRederived, a, "", "rederive", nil, nil, "%v", err)
				continue
			}
			if c.whole {
				v.out.Rederived = append(v.out.Rederived, a.Stage+"/"+a.Name)
			}
		}
	}
}

// phaseChecks are the documents of a phase in the order of their names; whole are
// those that are made again, not in part alone.
var phaseChecks = []struct {
	name                    string
	needsMeasurement, whole bool
	check                   func(*validation, *phase, stage.Artifact) error
}{
	{"benchmark.json", true, true, (*validation).checkBenchmark},
	{"live-http-run.json", true, true, (*validation).checkLive},
	{"measurement.json", true, false, (*validation).checkMeasurement},
	{"schedule.json", false, true, (*validation).checkSchedule},
}

func (v *validation) measured(a stage.Artifact) bool {
	made, ok := v.closure.Made(a.SHA256)
	return ok && made.Kind == "measure"
}

// A phase is one measured phase as its attempts and its configuration tell it.
type phase struct {
	attempts    stage.Artifact
	made        stage.Production
	config      phaseConfig
	header      record.AttemptsHeader
	load        phaseLoad     // of the header
	workload    prompt.Config // of the header
	footer      record.AttemptsFooter
	measurement *record.Measurement // nil without one
	scout       scoutedPhase

	following record.Following
	sized     bool // every attempt says for which size its prompt was made
	seen      seen
}

// phaseConfig is what the key of a measure stage holds and its documents repeat.
type phaseConfig struct {
	Endpoint struct {
		Compression bool    `json:"compression"`
		Proxy       *string `json:"proxy"`
	} `json:"endpoint"`
	Protocol      string          `json:"protocol"`
	Load          json.RawMessage `json:"load"`
	Workload      json.RawMessage `json:"workload"`
	Objectives    Objectives      `json:"objectives"`
	ClockDomainID *string         `json:"clock_domain_id"`
	Sampling      struct {
		ReasoningEffort *string `json:"reasoning_effort"`
		Thinking        string  `json:"thinking"`
	} `json:"sampling"`
	Cache struct {
		Reset    string `json:"reset"`
		State    string `json:"state"`
		Sequence string `json:"sequence"`
	} `json:"cache"`
}

// phaseLoad is the load as the header has it.
type phaseLoad struct {
	Mode        string  `json:"mode"`
	Arrival     *string `json:"arrival"`
	Concurrency int     `json:"concurrency"`
	Ramp        string  `json:"ramp"`
	Requests    *int    `json:"requests"`
	Duration    *string `json:"duration"`
}

func (l phaseLoad) closed() bool { return l.Mode == "closed" }

// scoutedPhase is what a phase took from the scout before it.
type scoutedPhase struct {
	ContextWindow *int `json:"context_window"`
}

// known tells whether the texts and limits of this build are those of the phase's.
func (p *phase) known() bool { return p.made.Contract == MeasureContract }

// killed tells whether a later process decoded what a killed one had captured.
func (p *phase) killed() bool {
	return p.measurement != nil && clientOf(p.measurement).Limits.CaptureWaits == nil
}

func (v *validation) readPhase(attempts stage.Artifact) (*phase, error) {
	p := &phase{attempts: attempts, seen: newSeen()}
	p.made, _ = v.closure.Made(attempts.SHA256)
	if err := decodeConfig(p.made.Config, &p.config); err != nil {
		return nil, err
	}
	if doc, ok := v.ofStage(attempts.Stage, "measurement.json"); ok {
		m, err := stage.Decode[record.Measurement](v.ctx, doc)
		if err != nil {
			return nil, err
		}
		p.measurement = &m
	}
	if scouts := p.made.Inputs["scout"]; len(scouts) == 1 {
		s, err := stage.Decode[scoutedPhase](v.ctx, scouts[0])
		if err != nil {
			return nil, err
		}
		p.scout = s
	}
	return p, v.readRows(p)
}

// readRows reads the attempts once. A text is kept by its digest: those of a phase
// may be many, and a report needs none of them.
func (v *validation) readRows(p *phase) (err error) {
	file, err := p.attempts.Open(v.ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := record.NewAttemptsReader(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	p.header, p.sized = r.Header(), true
	if err := errors.Join(again(p.header.Load, &p.load), again(p.header.Request.Workload, &p.workload)); err != nil {
		return err
	}
	for a, err := range r.All() {
		if err != nil {
			return err
		}
		p.seen.add(&a, p.header.Endpoint.Model)
		a.Text = named(a.Text)
		p.following.Add(&a, p.load.closed())
		p.sized = p.sized && a.PlannedInputTokens != nil
	}
	if f := r.Footer(); f != nil {
		p.footer = *f
	}
	return nil
}

// again decodes a part of a document that was decoded without its form.
func again(v, into any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// checkHeader holds the header of the attempts against the configuration: what
// entered the key, which leaves out policy and names files by digest.
func (v *validation) checkHeader(p *phase) {
	own := map[string]any{
		"load": p.header.Load, "protocol": p.header.Request.Protocol, "workload": p.header.Request.Workload, "seed": p.header.Seed,
	}
	var w struct {
		Seed *int64 `json:"seed"`
	}
	if json.Unmarshal(p.config.Workload, &w) != nil {
		return
	}
	want := map[string]any{"load": p.config.Load, "protocol": p.config.Protocol, "workload": p.config.Workload, "seed": w.Seed}
	at := map[string]string{"load": "/line/1/load", "protocol": "/line/1/request/protocol", "workload": "/line/1/request/workload", "seed": "/line/1/seed"}
	for _, name := range sortedKeys(own) {
		stored, errS := plain(own[name])
		computed, errC := plain(want[name])
		if errS != nil || errC != nil || computed == nil {
			continue
		}
		compareTrees(at[name], within(stored, computed), computed, func(pointer string, s, c any, _ string) {
			v.problem(record.LevelRederived, p.attempts, pointer, "rederive", s, c, "is not what the stage was configured with")
		})
	}
}

// plain is a value as JSON has it, numbers as text.
func plain(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return decodeNumbers(raw)
}

// within leaves of a stored value the members that the computed one has.
func within(stored, computed any) any {
	s, okS := stored.(map[string]any)
	c, okC := computed.(map[string]any)
	if !okS || !okC {
		return stored
	}
	out := map[string]any{}
	for name, value := range c {
		if have, ok := s[name]; ok {
			out[name] = within(have, value)
		}
	}
	return out
}

// differs compares what is stored at a place of an artifact with all that is
// computed of it, and nothing else of it.
func (v *validation) differs(a stage.Artifact, computed any, from string) error {
	src, err := a.Bytes(v.ctx)
	if err != nil {
		return err
	}
	stored, err := decodeNumbers(src)
	if err != nil {
		return err
	}
	want, err := plain(computed)
	if err != nil {
		return err
	}
	compareTrees("", within(stored, want), want, func(pointer string, s, c any, text string) {
		v.problem(record.LevelRederived, a, pointer, "rederive", s, c, "%s from %s", text, from)
	})
	return nil
}
