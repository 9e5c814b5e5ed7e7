package engine

// A Watcher follows one answer while it is read. It allocates nothing once its
// buffers have grown to the largest event, unless the answer is compressed. It is
// not safe for concurrent use.
type Watcher struct {
	in      intake
	outputs int
}

// A Signal is what the bytes of one read were to the answer.
type Signal struct {
	Outputs int     // output events that ended in these bytes; each resets the limits of first output and gap
	End     EndKind // EndNone, or why nothing more is to be read: EndMark, EndEnough, EndEventTooLarge, EndBodyTooLarge
}

// NewWatcher returns a watcher that Reset prepares for one answer after another.
func (p *Protocol) NewWatcher(l Limits) *Watcher {
	w := &Watcher{in: intake{p: p, limits: l}}
	w.in.event = func() {
		if w.in.r.out != 0 {
			w.outputs++
		}
	}
	return w
}

// Reset begins an answer with its head.
func (w *Watcher) Reset(h Head) { w.in.reset(h, true) }

// Feed takes the bytes of one read of the body, as they are after de-chunking.
// b may be reused when it returns.
func (w *Watcher) Feed(b []byte) Signal {
	w.outputs = 0
	end := w.in.feed(b)
	return Signal{Outputs: w.outputs, End: end}
}

// Close frees what a compressed answer needs. Reset does it too.
func (w *Watcher) Close() { w.in.close() }
