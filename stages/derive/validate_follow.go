package derive

import (
	"encoding/json"
	"errors"
	"slices"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// checkFollowing makes the records of other producers' kinds that measure writes
// again, from the attempts and the measurement beside them, and compares what
// follows from these. Package record holds such a record against its own rules
// alone: one that is changed as a whole agrees with itself.
func (v *validation) checkFollowing() {
	for _, a := range v.artifacts() {
		if a.Schema != record.BenchmarkSchema && a.Schema != record.LiveRunSchema {
			continue
		}
		if made, ok := v.closure.Made(a.SHA256); !ok || made.Kind != "measure" {
			continue // imported: nothing says which attempts it is of
		}
		attempts, okA := v.ofStage(a.Stage, "attempts.jsonl.zst")
		doc, okM := v.ofStage(a.Stage, "measurement.json")
		if !okA || !okM {
			continue
		}
		if err := v.follows(a, attempts, doc); err != nil {
			v.problem(record.LevelRederived, a, "", "rederive", nil, nil, "%v", err)
			continue
		}
		v.out.Rederived = append(v.out.Rederived, a.Stage+"/"+a.Name)
	}
}

// ofStage finds what the stage made under a name.
func (v *validation) ofStage(id, name string) (stage.Artifact, bool) {
	all := v.artifacts()
	i := slices.IndexFunc(all, func(a stage.Artifact) bool { return a.Stage == id && a.Name == name })
	if i < 0 {
		return stage.Artifact{}, false
	}
	return all[i], true
}

func (v *validation) follows(a, attempts, measurement stage.Artifact) error {
	m, err := stage.Decode[record.Measurement](v.ctx, measurement)
	if err != nil {
		return err
	}
	f, h, sized, err := v.following(attempts, a.Schema == record.BenchmarkSchema)
	if err != nil {
		return err
	}
	src, err := a.Bytes(v.ctx)
	if err != nil {
		return err
	}
	stored, err := decodeNumbers(src)
	if err != nil {
		return err
	}
	s, ok := stored.(map[string]any)
	if !ok {
		return errors.New("it is no object")
	}
	again, members, err := followBenchmark(f, h, m)
	if a.Schema == record.LiveRunSchema {
		again, members, err = followLive(f, s)
	}
	if err != nil {
		return err
	}
	computed, err := decodeNumbers(again)
	if err != nil {
		return err
	}
	c, ok := computed.(map[string]any)
	if !ok {
		return errors.New("what follows is no object")
	}
	nameTexts(s["requests"])
	if !sized {
		withoutSizes(s)
		withoutSizes(c)
	}
	compareTrees("", only(s, members), only(c, members), func(pointer string, stored, computed any, text string) {
		v.problem(record.LevelRederived, a, pointer, "rederive", stored, computed, "%s from the attempts", text)
	})
	return nil
}

// following reads the attempts; sized tells whether each says for which size its
// prompt was made: of the rows of a dataset measure estimates it.
func (v *validation) following(attempts stage.Artifact, closed bool) (f record.Following, h record.AttemptsHeader, sized bool, err error) {
	file, err := attempts.Open(v.ctx)
	if err != nil {
		return f, h, false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := record.NewAttemptsReader(file)
	if err != nil {
		return f, h, false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	sized = true
	for a, err := range r.All() {
		if err != nil {
			return f, h, false, err
		}
		a.Text = named(a.Text)
		f.Add(&a, closed)
		sized = sized && a.PlannedInputTokens != nil
	}
	return f, r.Header(), sized, nil
}

// followBenchmark returns the record and the members that follow: the rest is
// declared by the plan.
func followBenchmark(f record.Following, h record.AttemptsHeader, m record.Measurement) (doc []byte, members []string, err error) {
	in := record.BenchmarkInput{
		Protocol: h.Request.Protocol, StartedUnixNS: m.Phase.StartedAtUnixNS, FinishUnixNS: m.Phase.FinishedAtUnixNS, WallClockMS: m.Phase.WallClockMS,
		Model: h.Endpoint.Model, ContextSeed: h.Seed, MaxTokens: h.Request.MaxTokens, MaxContextTokens: m.ServedWindow,
		Rows: f.Rows, Failures: f.Failures,
	}
	load, _ := h.Load.(map[string]any)
	in.Concurrency, _ = wholeNumber(load["concurrency"])
	doc, err = record.BuildBenchmark(in)
	return doc, []string{
		"completed", "concurrency", "context_seed", "failed", "failures", "finished_at", "finished_at_unix_ns", "max_context_tokens", "max_tokens",
		"measurement_protocol", "metric_population", "metrics", "model", "performance_eligible", "request_timings", "requests", "responses_received",
		"run_id", "started_at", "started_at_unix_ns", "wall_clock_ms",
	}, err
}

// followLive takes the objective from the record: the goodput must be that of
// the rows under it.
func followLive(f record.Following, stored map[string]any) (doc []byte, members []string, err error) {
	in := record.LiveRunInput{ClientShed: f.Shed, DurationS: float64(f.LastEnd) / 1e9, Requests: f.Requests()}
	if n, ok := stored["ttft_slo_ms"].(json.Number); ok {
		slo, err := n.Float64()
		if err != nil {
			return nil, nil, err
		}
		in.TTFTSLOMS = &slo
	}
	doc, err = record.BuildLiveRun(in)
	return doc, []string{"offered_requests", "client_shed_requests", "duration_s", "ttft_goodput_rps", "requests"}, err
}

// named puts the digest of a text in its place: those of a phase may be many, and
// a report needs none of them.
func named(text *string) *string {
	if text == nil {
		return nil
	}
	return new(digest.FromBytes([]byte(*text)).String())
}

// nameTexts is named for the rows of a stored live run.
func nameTexts(requests any) {
	rows, _ := requests.([]any)
	for _, r := range rows {
		if row, ok := r.(map[string]any); ok {
			if text, ok := row["text"].(string); ok {
				row["text"] = *named(&text)
			}
		}
	}
}

// only returns an object with the members alone.
func only(m map[string]any, members []string) map[string]any {
	out := map[string]any{}
	for _, name := range members {
		if v, ok := m[name]; ok {
			out[name] = v
		}
	}
	return out
}

// withoutSizes takes the sizes for which the prompts were made out of the rows
// and failures of a benchmark record.
func withoutSizes(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "planned_context_tokens")
		for _, e := range v {
			withoutSizes(e)
		}
	case []any:
		for _, e := range v {
			withoutSizes(e)
		}
	}
}
