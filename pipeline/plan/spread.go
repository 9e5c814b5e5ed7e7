package plan

import (
	"runtime"
	"sync"
	"sync/atomic"

	"anvil/schemas"
)

// A worker has codecs of its own, which remember what they have seen and are
// not safe for concurrent use.
type worker struct {
	codecs map[schemas.ID]*codec
}

// codec returns the codec of a configuration's schema.
func (w *worker) codec(id schemas.ID) (*codec, error) {
	if c, ok := w.codecs[id]; ok {
		return c, nil
	}
	c, err := newCodec(id)
	if err != nil {
		return nil, err
	}
	if w.codecs == nil {
		w.codecs = map[schemas.ID]*codec{}
	}
	w.codecs[id] = c
	return c, nil
}

// check fills the defaults of doc and returns its faults.
func (w *worker) check(id schemas.ID, doc map[string]any) ([]schemas.Fault, error) {
	c, err := w.codec(id)
	if err != nil {
		return nil, err
	}
	faults, _, err := c.Check(doc)
	return faults, err
}

// spreadFrom is how many stages are worth a second worker.
const spreadFrom = 32

// spread calls do for each index below n, on every processor when there are
// many. What do changes must belong to its index alone.
func (p *parser) spread(n int, do func(w *worker, i int)) {
	workers := min(runtime.GOMAXPROCS(0), n/spreadFrom)
	if workers <= 1 {
		for i := range n {
			do(&p.own, i)
		}
		return
	}
	for len(p.workers) < workers {
		p.workers = append(p.workers, &worker{})
	}
	var next atomic.Int64
	var done sync.WaitGroup
	for _, w := range p.workers[:workers] {
		done.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(w, int(i))
			}
		})
	}
	done.Wait()
}
