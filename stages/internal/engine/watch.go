package engine

// A Watcher follows one answer while it is read. It allocates nothing once its
// buffers have grown to the largest event. It is not safe for concurrent use.
type Watcher struct {
	p      *Protocol
	limits Limits
}

// A Signal is what the bytes of one read were to the answer.
type Signal struct {
	Outputs int     // output events that ended in these bytes; each resets the limits of first output and gap
	End     EndKind // EndNone, or why nothing more is to be read: EndMark, EndEnough, EndEventTooLarge, EndBodyTooLarge
	Used    int     // bytes up to and with the end mark; all of them otherwise
}

// NewWatcher returns a watcher that [Watcher.Reset] prepares for one answer after another.
func (p *Protocol) NewWatcher(l Limits) *Watcher { return &Watcher{p: p, limits: l} }

// Reset begins an answer with its head.
func (w *Watcher) Reset(h Head) {}

// Feed takes the bytes of one read of the body, as they are after de-chunking.
// b may be reused when it returns.
func (w *Watcher) Feed(b []byte) Signal { return Signal{Used: len(b)} }
