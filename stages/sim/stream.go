package sim

import (
	"context"
	"net/http"
	"time"
)

// dripEvery is how often the endless answer of total_timeout sends a token.
const dripEvery = 50 * time.Millisecond

// A sender streams one answer.
type sender struct {
	*turn
	engine *Engine
	w      http.ResponseWriter
	flush  func() error
	chunk  *chunker
}

func (e *Engine) streamAnswer(ctx context.Context, w http.ResponseWriter, t *turn) {
	s := &sender{
		turn: t, engine: e, w: w, flush: http.NewResponseController(w).Flush,
		chunk: newChunker(t, e.cfg.Model, e.cfg.Version, time.Now().Unix(), e.cfg.PrefixCache),
	}
	if err := s.run(ctx); err != nil {
		e.finished(t, "abort")
		sever(w, false)
	}
}

// run streams the answer. Headers leave at once, also while the request waits
// for its slot, as vLLM does: the time to headers says nothing. An error means
// that the client is gone or the engine is closed.
func (s *sender) run(ctx context.Context) error {
	if s.fault == (fault{"stalled_first", "no_headers"}) {
		<-ctx.Done()
		return ctx.Err()
	}
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	s.w.WriteHeader(http.StatusOK)
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.engine.await(ctx, s.turn); err != nil {
		return err
	}
	if err := s.events(ctx); err != nil {
		return err
	}
	return s.end(ctx)
}

// events sends every output event at its time. What ends the answer goes out
// with the last, as one write, and so arrives with it.
func (s *sender) events(ctx context.Context) error {
	if s.chat && (len(s.job.pace.events) > 0 || s.script.tail == tailFinish) {
		s.chunk.role()
	}
	if len(s.job.pace.events) == 0 && !s.script.endless {
		return s.engine.pacer.wait(ctx, s.engine.due(s.turn, s.job.pace.end))
	}
	for i, offset := range s.job.pace.events {
		planned := s.engine.due(s.turn, offset)
		if err := s.engine.pacer.wait(ctx, planned); err != nil {
			return err
		}
		s.event(i)
		if i == len(s.job.pace.events)-1 && !s.script.endless {
			s.close()
		}
		if err := s.send(i, planned); err != nil {
			return err
		}
	}
	return nil
}

// event puts the i-th output event into the buffer.
func (s *sender) event(i int) {
	tokens, reasoning := s.answer.event(i, s.job.pace.reasoning, s.engine.cfg.TokensPerEvent)
	s.engine.tokens.Add(int64(len(tokens)))
	start := len(s.chunk.buf)
	s.chunk.tokens(tokens, reasoning, s.script.blank)
	if i != s.script.broken {
		return
	}
	if s.fault.Variant == "half" {
		s.chunk.buf = append(s.chunk.buf[:start+(len(s.chunk.buf)-start)/2], "\n\n"...)
		return
	}
	s.chunk.buf = append(s.chunk.buf[:start], "data: {\"id\":\"chatcmpl-sim\",\"choices\":[{]}\n\n"...)
}

// send writes the buffer and tells the observer.
func (s *sender) send(i int, planned time.Time) error {
	observe := s.engine.observer.Load()
	before := time.Now()
	_, err := s.w.Write(s.chunk.buf)
	if err == nil {
		err = s.flush()
	}
	s.chunk.buf = s.chunk.buf[:0]
	if err == nil && observe != nil {
		(*observe)(Sent{ID: s.id, Request: s.seq, Event: i, Planned: planned, Before: before, After: time.Now()})
	}
	return err
}

// close puts what ends the answer into the buffer, and counts the answer.
func (s *sender) close() {
	reason, c := s.answer.finish, s.chunk
	switch s.script.tail {
	case tailFinish:
		c.finish(reason, s.answer.stopped)
		if s.includeUsage {
			c.usage()
		}
		c.done()
	case tailDone:
		reason = "abort"
		c.done()
	case tailEOF, tailChunk:
		reason = "abort"
	default:
		if s.script.tail == tailLateError {
			c.finish(reason, s.answer.stopped)
		}
		reason = "error"
		c.raw(errorEvent(s.script.tail))
	}
	s.engine.finished(s.turn, reason)
}

func errorEvent(t tail) string {
	const object = `{"error":{"message":"EngineCore encountered an issue (injected fault)","type":"InternalServerError","param":null,"code":500}}`
	switch t {
	case tailErrorText:
		return "data: {\"error\":\"injected fault\"}\n\ndata: [DONE]\n\n"
	case tailErrorEvent:
		return "event: error\ndata: " + object + "\n\n"
	default:
		return "data: " + object + "\n\ndata: [DONE]\n\n"
	}
}

// end does what the last event could not take along.
func (s *sender) end(ctx context.Context) error {
	if len(s.job.pace.events) == 0 && !s.script.endless {
		s.close()
		if err := s.send(-1, s.engine.due(s.turn, s.job.pace.end)); err != nil {
			return err
		}
	}
	switch s.script.tail {
	case tailChunk:
		s.severInChunk()
		return nil
	case tailHang:
		return s.hang(ctx)
	case tailDrip:
		return s.drip(ctx)
	default:
		return nil
	}
}

// severInChunk announces a chunk and closes the connection in the middle of it.
func (s *sender) severInChunk() {
	conn, buf, err := http.NewResponseController(s.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = buf.WriteString("100\r\n" + s.chunk.head)
	_ = buf.Flush()
	_ = conn.Close()
}

// hang keeps the answer open without output until the client goes away.
func (s *sender) hang(ctx context.Context) error {
	if !s.script.comments {
		<-ctx.Done()
		return ctx.Err()
	}
	for n := 1; ; n++ {
		s.chunk.raw(": ping\n\n")
		if err := s.repeat(ctx, n, pingEvery); err != nil {
			return err
		}
	}
}

// drip sends a token again and again.
func (s *sender) drip(ctx context.Context) error {
	for n := 1; ; n++ {
		s.chunk.tokens([]string{plainWords[n%len(plainWords)]}, false, false)
		s.engine.tokens.Add(1)
		if err := s.repeat(ctx, n, dripEvery); err != nil {
			return err
		}
	}
}

func (s *sender) repeat(ctx context.Context, n int, every time.Duration) error {
	planned := s.engine.due(s.turn, s.job.pace.end+time.Duration(n)*every)
	if err := s.engine.pacer.wait(ctx, planned); err != nil {
		return err
	}
	return s.send(len(s.job.pace.events)+n-1, planned)
}

// event returns the tokens of the i-th output event.
func (a answer) event(i, reasoningEvents, perEvent int) (tokens []string, reasoning bool) {
	from := a.reasoning
	if reasoning = i < reasoningEvents; !reasoning {
		i, from = i-reasoningEvents, a.content
	}
	return from[i*perEvent : min((i+1)*perEvent, len(from))], reasoning
}
