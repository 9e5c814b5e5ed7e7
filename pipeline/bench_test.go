package pipeline

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"anvil/pipeline/event"
	"anvil/pipeline/prov"
)

// manyPlan is one import and n graders of what it imported.
func manyPlan(l *lab, n int) labPlan {
	lines := []string{"import make"}
	for i := range n {
		lines = append(lines, fmt.Sprintf("grade%05d make import", i))
	}
	p := l.plan(lines...)
	p.file("import", "attempts.jsonl", "{}\n")
	for i := range p.Stages[1:] {
		s := &p.Stages[i+1]
		s.With = fmt.Appendf(nil, `{"graders": [{"id": "g%d", "type": "contains", "any": ["blue"]}]}`, i)
		s.KeyConfig = fmt.Appendf(nil, `{"graders":[{"any":["blue"],"id":"g%d","type":"contains"}]}`, i)
	}
	p.seal()
	return p
}

func BenchmarkRestore(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := newBenchLab(b)
			p := manyPlan(l, n)
			warm(b, l, p, Options{})
			b.ReportAllocs()
			cpu := processorTime(b)
			for b.Loop() {
				r, err := l.x.Run(context.Background(), p.Plan, Options{})
				if err != nil || r.stage("grade00000").How != prov.Restored {
					b.Fatalf("%v, %s", err, states(r))
				}
			}
			b.ReportMetric((processorTime(b)-cpu).Seconds()*1e3/float64(b.N), "cpu-ms/op")
		})
	}
}

// processorTime is what the process has used: on a machine that others share
// it says more than the clock.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkFromGrade(b *testing.B) {
	l := newBenchLab(b)
	p := l.plan("weights see", "scout look", "measure look scout", "grade make measure", "sum sum weights scout measure grade", "prove prove sum")
	warm(b, l, p, Options{})
	cpu := processorTime(b)
	for b.Loop() {
		r, err := l.x.Run(context.Background(), p.Plan, Options{From: []string{"grade"}})
		if err != nil || r.stage("prove").How != prov.Restored {
			b.Fatalf("%v, %s", err, states(r))
		}
	}
	b.ReportMetric((processorTime(b)-cpu).Seconds()*1e3/float64(b.N), "cpu-ms/op")
}

func newBenchLab(b *testing.B) *lab {
	b.Helper()
	l := newLabIn(b, b.TempDir())
	l.x.Events, l.x.Log = event.Discard, zerolog.Nop()
	return l
}

func warm(b *testing.B, l *lab, p labPlan, opt Options) {
	b.Helper()
	if r, err := l.x.Run(context.Background(), p.Plan, opt); err != nil || r.Exit != 0 {
		b.Fatalf("%v, %+v", err, r)
	}
	l.reopen(nil)
	l.x.Events = event.Discard
}
