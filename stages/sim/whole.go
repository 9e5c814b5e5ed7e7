package sim

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// wholeAnswer answers a request that is not to be streamed, at the moment when
// its last token is made.
func (e *Engine) wholeAnswer(ctx context.Context, w http.ResponseWriter, t *turn) {
	if err := e.makeWhole(ctx, t); err != nil {
		e.finished(t, "abort")
		sever(w, false)
		return
	}
	e.tokens.Add(int64(len(t.answer.reasoning) + len(t.answer.content)))
	body := marshal(e.completion(t))
	reason := t.answer.finish
	switch t.script.tail {
	case tailError, tailErrorText, tailErrorEvent, tailLateError:
		reason, body = "error", []byte(`{"error":{"message":"injected fault","type":"InternalServerError","param":null,"code":500}}`)
	case tailEOF, tailDone, tailChunk:
		reason = "abort"
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	default:
	}
	e.finished(t, reason)
	switch {
	case reason == "abort":
		e.sendHalf(w, body)
	case t.fault.Outcome == "malformed" && !t.stream:
		writeBody(w, http.StatusOK, body[:len(body)/2])
	default:
		writeBody(w, http.StatusOK, body)
	}
}

// makeWhole waits until the last token is made, or for ever.
func (e *Engine) makeWhole(ctx context.Context, t *turn) error {
	if err := e.await(ctx, t); err != nil {
		return err
	}
	if t.script.endless {
		<-ctx.Done()
		return ctx.Err()
	}
	return e.pacer.wait(ctx, e.due(t, t.job.pace.end))
}

// sendHalf announces a whole body and ends the connection after half of it.
func (e *Engine) sendHalf(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	sever(w, false)
}

// completion returns the one JSON object of an answer.
func (e *Engine) completion(t *turn) map[string]any {
	content, reasoning := strings.Join(t.answer.content, ""), strings.Join(t.answer.reasoning, "")
	choice := map[string]any{"index": 0, "logprobs": nil, "finish_reason": t.answer.finish, "stop_reason": nil}
	if t.answer.stopped != "" {
		choice["stop_reason"] = t.answer.stopped
	}
	if t.script.blank {
		content, reasoning = "", ""
	}
	object := "text_completion"
	if t.chat {
		object = "chat.completion"
		message := map[string]any{"role": "assistant", "content": content, "reasoning_content": nil}
		if reasoning != "" {
			message["reasoning_content"] = reasoning
		}
		choice["message"] = message
	} else {
		choice["text"] = content
	}
	if t.logprobs {
		choice["logprobs"] = t.probabilities(t.answer.content)
	}
	u := usage{
		prompt: t.prompt.chain.tokens, cached: t.cached, cacheOn: e.cfg.PrefixCache,
		reasoning: len(t.answer.reasoning), completed: len(t.answer.reasoning) + len(t.answer.content),
	}
	return map[string]any{
		"id": t.id, "object": object, "created": time.Now().Unix(), "model": e.cfg.Model,
		"system_fingerprint": fingerprint + "-" + e.cfg.Version, "choices": []any{choice},
		"usage": json.RawMessage(u.append(nil)),
	}
}

// failAtOnce answers a request whose fault needs no model.
func (e *Engine) failAtOnce(w http.ResponseWriter, t *turn) {
	e.finished(t, "error")
	const message = "injected fault"
	switch t.fault.Outcome + "." + t.fault.Variant {
	case "refused_load.503":
		writeError(w, overloaded(message))
	case "refused_load.429":
		writeError(w, &apiError{status: http.StatusTooManyRequests, kind: "RateLimitError", message: message, retryAfter: 2})
	case "refused_load.529":
		writeError(w, &apiError{status: 529, kind: "OverloadedError", message: message, retryAfter: 1})
	case "http_error.400":
		writeError(w, badRequest("", message))
	case "http_error.401_string":
		writeBody(w, http.StatusUnauthorized, []byte(`{"error":"Unauthorized"}`))
	case "http_error.redirect":
		w.Header().Set("Location", "http://127.0.0.1:9/elsewhere/v1/chat/completions")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case "http_error.502_html":
		writePage(w, http.StatusBadGateway)
	case "malformed.html":
		writePage(w, http.StatusOK)
	case "transport.reset":
		sever(w, true)
	case "transport.close":
		sever(w, false)
	default:
		writeError(w, &apiError{status: http.StatusInternalServerError, kind: "InternalServerError", message: message})
	}
}

func writePage(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte("<!doctype html><title>anvil-sim</title><h1>Injected fault</h1>\n"))
}
