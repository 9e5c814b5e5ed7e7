package measure

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/stages/internal/kindtest"
	"anvil/stages/record"
)

func TestTraceFormats(t *testing.T) {
	ms := func(v ...int64) []int64 {
		for i := range v {
			v[i] *= 1e6
		}
		return v
	}
	for name, tc := range map[string]struct {
		trace      traceConfig
		file, says string
		want       []int64
	}{
		"a schedule of our own": {traceConfig{Format: "anvil"}, `{"schema":"anvil.schedule/v1","due_ns":[1000000,3000000]}`, "", ms(0, 2)},
		"lines of our own":      {traceConfig{Format: "anvil"}, "{\"due_ns\":5000000}\n\n{\"due_ns\":2000000}\n", "", ms(0, 3)},
		"mooncake": {
			traceConfig{Format: "mooncake"},
			`{"timestamp": 27000, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}` + "\n" + `{"timestamp": 27010.5, "input_length": 1, "output_length": 2, "hash_ids": []}`,
			"",
			[]int64{0, 10_500_000},
		},
		"burstgpt": {
			traceConfig{Format: "burstgpt"},
			"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\r\n5,ChatGPT,472,18,490,Conversation log\r\n45,ChatGPT,1087,230,1317,Conversation log\r\n", "", ms(0, 40_000),
		},
		"csv":            {traceConfig{Format: "csv", Columns: map[string]string{"time": "at"}}, "\ufeffid,at\n\"a,b\",1.5\nc,2", "", ms(0, 500)},
		"csv by default": {traceConfig{Format: "csv"}, "time\n1\n1\n", "", ms(0, 0)},
		"twice as fast":  {traceConfig{Format: "csv", Speed: 2}, "time\n0\n3\n", "", ms(0, 1500)},
		"no column":      {traceConfig{Format: "csv"}, "at\n1\n", `no column "time"`, nil},
		"no number":      {traceConfig{Format: "csv"}, "time\n1\nsoon\n", `line 3: "time": want a time as a number, got "soon"`, nil},
		"not finite":     {traceConfig{Format: "csv"}, "time\nNaN\n", "line 2", nil},
		"no member":      {traceConfig{Format: "mooncake"}, `{"time":1}`, `line 1: "timestamp"`, nil},
		"no JSON":        {traceConfig{Format: "mooncake"}, "x", "line 1: want a JSON object", nil},
		"empty":          {traceConfig{Format: "mooncake"}, "", "no arrivals", nil},
		"another schema": {traceConfig{Format: "anvil"}, `{"schema":"anvil.record/v1"}`, "want a schedule", nil},
		"ragged":         {traceConfig{Format: "csv"}, "time,b\n1\n", "wrong number of fields", nil},
		"for ever":       {traceConfig{Format: "csv"}, "time\n0\n1e12\n", "70 years", nil},
	} {
		if tc.trace.Speed == 0 {
			tc.trace.Speed = 1
		}
		got, err := tc.trace.read(strings.NewReader(tc.file))
		if tc.says != "" {
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: error %v, want %q", name, err, tc.says)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

// traced is a measurement that replays a trace.
func traced(t *testing.T, file string, load map[string]any) *bench {
	t.Helper()
	with := map[string]any{"mode": "open", "arrival": "trace", "trace": map[string]any{"file": "trace", "format": "csv", "speed": 10}}
	maps.Copy(with, load)
	b := newBench(t, nil, map[string]any{"load": with, "max_tokens": 4, "workload": small})
	b.Files["/load/trace/file"] = kindtest.Artifact("anvil.file/v1", "trace", []byte(file))
	if err := os.WriteFile(filepath.Join(b.Env.PlanDir, "trace"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestATraceIsReplayed(t *testing.T) {
	const file = "time\n7.0\n7.1\n7.1\n7.5\n"
	for name, tc := range map[string]struct {
		load map[string]any
		want []int64
	}{
		"by count":    {map[string]any{"requests": 3}, []int64{0, 10_000_000, 10_000_000}},
		"by duration": {map[string]any{"duration": "10ms"}, []int64{0}},
		"whole":       {map[string]any{"duration": "1m"}, []int64{0, 10_000_000, 10_000_000, 50_000_000}},
	} {
		p, err := traced(t, file, tc.load).run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, p.schedule.DueNS); diff != "" || *p.schedule.Arrival != "trace" || p.schedule.Stream != nil {
			t.Errorf("%s: schedule %s %v", name, diff, p.schedule.Stream)
		}
		if got := p.measurement.Accounting.Outcomes[record.OutcomeTruncated] + p.measurement.Accounting.Outcomes[record.OutcomeOK]; got != len(tc.want) {
			t.Errorf("%s: outcomes %v", name, p.measurement.Accounting.Outcomes)
		}
		for _, a := range p.attempts {
			if *a.T.Due != tc.want[a.Index] || *a.T.Start < *a.T.Due {
				t.Errorf("%s: request %d was due at %d, began at %d", name, a.Index, *a.T.Due, *a.T.Start)
			}
		}
	}
}

func TestATraceThatDoesNotFitIsAProblemOfThePlan(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		load map[string]any
		at   string
		says string
	}{
		"too short":     {"time\n1\n", map[string]any{"requests": 2}, "/load/trace/file", "the trace has 1 arrivals"},
		"no times":      {"x\n1\n", map[string]any{"requests": 1}, "/load/trace/file", `trace: no column "time"`},
		"other columns": {"time\n1\n", map[string]any{"requests": 1, "trace": map[string]any{"file": "trace", "format": "csv", "columns": map[string]any{"input": "x"}}}, "/load/trace/columns", `"input" is not read`},
	} {
		_, problems := traced(t, tc.file, tc.load).Resolve()
		if len(problems) != 1 || problems[0].Pointer != tc.at || !strings.Contains(problems[0].Message, tc.says) {
			t.Errorf("%s: problems %+v", name, problems)
		}
	}
}
