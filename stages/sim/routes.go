package sim

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// fingerprint is the system_fingerprint of every answer, so that a copy of one says what made it.
const fingerprint = "anvil-sim"

func (e *Engine) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { e.generate(w, r, true) })
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { e.generate(w, r, false) })
	mux.HandleFunc("GET /v1/models", e.models)
	mux.HandleFunc("GET /version", e.version)
	healthy := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	mux.HandleFunc("GET /health", healthy)
	mux.HandleFunc("GET /ping", healthy)
	mux.HandleFunc("GET /metrics", e.serveMetrics)
	mux.HandleFunc("POST /tokenize", e.tokenize)
	mux.HandleFunc("POST /reset_prefix_cache", e.resetPrefixCache)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, map[string]any{"detail": "Not Found"})
	})
	return mux
}

// marked has every response say that it is simulated, and counts it.
func (e *Engine) marked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "anvil-sim/"+e.cfg.Version)
		w.Header().Set("X-Anvil-Simulated", "true")
		next.ServeHTTP(&countingWriter{ResponseWriter: w, engine: e, request: r}, r)
	})
}

func (e *Engine) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": e.cfg.Model, "object": "model", "created": e.start.Unix(), "owned_by": fingerprint,
		"root": e.cfg.Model, "parent": nil, "max_model_len": Window,
	}}})
}

func (e *Engine) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"version": "anvil-sim " + e.cfg.Version})
}

func (e *Engine) resetPrefixCache(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	e.cache.reset()
	e.mu.Unlock()
	writeJSON(w, http.StatusOK, map[string]any{"success": true})
}

// tokenize counts the tokens of a prompt, or of messages with their template,
// exactly as usage does.
func (e *Engine) tokenize(w http.ResponseWriter, r *http.Request) {
	b, failure := readBody(w, r)
	if failure != nil {
		writeError(w, failure)
		return
	}
	b.keepTokens = true
	p := b.prompt(b.has("messages"))
	wantStrings := false
	b.read("return_token_strs", "a boolean", &wantStrings)
	if b.err == nil {
		b.err = e.checkModel(b)
	}
	if b.err != nil {
		writeError(w, b.err)
		return
	}
	ids := make([]int, len(p.tokens))
	for i, t := range p.tokens {
		ids[i] = tokenID(t)
	}
	reply := map[string]any{"count": len(ids), "max_model_len": Window, "tokens": ids, "token_strs": nil}
	if wantStrings {
		reply["token_strs"] = p.tokens
	}
	writeJSON(w, http.StatusOK, reply)
}

func (e *Engine) checkModel(b *body) *apiError {
	model := ""
	b.read("model", "a string", &model)
	if b.err != nil || model == "" || model == e.cfg.Model {
		return b.err
	}
	return &apiError{
		status: http.StatusNotFound, kind: "NotFoundError", param: "model",
		message: "The model " + strconv.Quote(model) + " does not exist; this engine serves " + strconv.Quote(e.cfg.Model) + ".",
	}
}

// generate answers a chat or text completion.
func (e *Engine) generate(w http.ResponseWriter, r *http.Request, chat bool) {
	if failure := e.enter(); failure != nil {
		writeError(w, failure)
		return
	}
	defer e.handlers.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	t, failure := e.receive(ctx, cancel, w, r, chat)
	if failure != nil {
		writeError(w, failure)
		return
	}
	e.answerTurn(ctx, w, t)
}

// receive reads a request and takes it in. Long bodies wait for each other, so
// that their sum stays bounded; what remains of one afterwards is short.
func (e *Engine) receive(ctx context.Context, cancel context.CancelFunc, w http.ResponseWriter, r *http.Request, chat bool) (*turn, *apiError) {
	size := int64(maxBody)
	if r.ContentLength >= 0 {
		size = min(size, r.ContentLength)
	}
	if err := e.bodies.Acquire(ctx, size); err != nil {
		return nil, overloaded("the client is gone")
	}
	defer e.bodies.Release(size)
	b, failure := readBody(w, r)
	arrived := e.now()
	if failure == nil {
		failure = e.checkModel(b)
	}
	if failure != nil {
		return nil, failure
	}
	req, failure := parseRequest(b, chat)
	if failure != nil {
		return nil, failure
	}
	req.arrived = arrived
	question := readQuestion(req.prompt.all, req.prompt.last)
	req.prompt.all, req.prompt.last = "", ""
	return e.admit(req, question, cancel)
}

func (e *Engine) answerTurn(ctx context.Context, w http.ResponseWriter, t *turn) {
	if t.job == nil {
		e.failAtOnce(w, t)
		return
	}
	defer e.leave(t)
	t.prompt.chain.blocks = nil // nothing of a long prompt stays while its answer streams
	if t.stream && t.script.tail != tailBody {
		e.streamAnswer(ctx, w, t)
		return
	}
	e.wholeAnswer(ctx, w, t)
}

// enter counts a handler in, unless the engine is closed.
func (e *Engine) enter() *apiError {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return overloaded("the engine is shutting down")
	}
	e.handlers.Add(1)
	return nil
}

// await waits until the turn has a slot.
func (e *Engine) await(ctx context.Context, t *turn) error {
	select {
	case <-t.job.begun:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func readBody(w http.ResponseWriter, r *http.Request) (*body, *apiError) {
	src, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, &apiError{status: http.StatusRequestEntityTooLarge, kind: "BadRequestError", message: "the body is longer than 16 MiB"}
	}
	if err != nil {
		return nil, badRequest("", "the body ended early: %v", err)
	}
	return parseBody(src)
}

func overloaded(message string) *apiError {
	return &apiError{status: http.StatusServiceUnavailable, kind: "ServiceUnavailableError", message: message, retryAfter: 1}
}

func writeError(w http.ResponseWriter, e *apiError) {
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	writeBody(w, e.status, e.body())
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // what is marshalled here always can be
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeBody(w, status, b)
}

// writeBody sends a whole JSON body. That a client went away meanwhile is its own affair.
func writeBody(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// sever ends the connection without an orderly end of the response; reset has
// the kernel say so at once instead of after what was sent.
func sever(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http's own way to drop a connection
	}
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

const pingEvery = 100 * time.Millisecond
