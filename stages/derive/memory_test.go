package derive_test

import (
	"context"
	"io"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/derive"
	"anvil/stages/record"
)

// heapWatch opens artifacts and looks at the live heap at every read of them.
type heapWatch struct {
	from    stage.Opener
	most    uint64
	samples []metrics.Sample
}

func newHeapWatch(from stage.Opener) *heapWatch {
	return &heapWatch{from: from, samples: []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}}
}

func (h *heapWatch) heap() uint64 {
	metrics.Read(h.samples)
	return h.samples[0].Value.Uint64()
}

func (h *heapWatch) Open(ctx context.Context, d digest.Digest, size int64) (io.ReadCloser, error) {
	r, err := h.from.Open(ctx, d, size)
	return watchedReader{r, h}, err
}

type watchedReader struct {
	io.ReadCloser
	watch *heapWatch
}

func (r watchedReader) Read(p []byte) (int, error) {
	r.watch.most = max(r.watch.most, r.watch.heap())
	return r.ReadCloser.Read(p)
}

// summarizeWatched returns by how much the heap grew at most.
func summarizeWatched(tb testing.TB, l *lab, a stage.Artifact) uint64 {
	tb.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // garbage must not hide what is held
	watch := newHeapWatch(l)
	debug.FreeOSMemory()
	before := watch.heap()
	watched := stage.NewArtifact(a.Ref, a.Stage, a.Name, watch, a.LimitationSet())
	if _, err := derive.Summarize(tb.Context(), derive.SummarizeConfig{Quantile: derive.NearestRank, Confidence: 0.95}, map[string][]stage.Artifact{"attempts": {watched}}, labPlan); err != nil {
		tb.Fatal(err)
	}
	if watch.most == 0 {
		tb.Fatal("nothing was read")
	}
	return watch.most - min(watch.most, before)
}

// 400 answers of 100 KB are 40 MB of text; what a record needs of them is
// some numbers each.
func TestSummarizeHoldsNoTexts(t *testing.T) {
	const n, size = 400, 100_000
	l := newLab(t)
	text := strings.Repeat("word ", size/5)
	rows := make([]record.Attempt, n)
	for i := range rows {
		rows[i] = answered(i, "", text, int64(i)*ms, 10)
	}
	if grew := summarizeWatched(t, l, l.attempts("measure", header(n), rows)); grew > n*size/5 {
		t.Errorf("the heap grew by %d MB over %d MB of text", grew>>20, n*size>>20)
	}
}

// The figures of 100,000 attempts with 100 output events each are ten million
// gaps of 8 bytes and little else.
func BenchmarkSummarizePeak(b *testing.B) {
	l, attempts, _ := big(b, 100_000)
	var most uint64
	for b.Loop() {
		most = max(most, summarizeWatched(b, l, attempts))
	}
	b.ReportMetric(float64(most)/(1<<20), "MiB-peak")
}
