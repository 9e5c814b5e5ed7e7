package engine

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// paths answers requests from captures and texts; what it lacks is 404.
type paths map[string]string

func (p paths) RoundTrip(r *http.Request) (*http.Response, error) {
	body, ok := p[r.Method+" "+r.URL.Path]
	switch {
	case ok && strings.HasPrefix(body, "error: "):
		return nil, errors.New(strings.TrimPrefix(body, "error: "))
	case !ok:
		return &http.Response{StatusCode: 404, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"detail":"Not Found"}`))}, nil
	}
	status := 200
	if code, rest, cut := strings.Cut(body, "|"); cut && len(code) == 3 {
		status, body = int(code[0]-'0')*100+int(code[1]-'0')*10+int(code[2]-'0'), rest
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func captured(t *testing.T, name string) string {
	t.Helper()
	c := readCaptureBody(t, name)
	return string(c)
}

func probe(t *testing.T, api, model string, rt http.RoundTripper) Facts {
	t.Helper()
	base := "http://h/v1"
	p, err := Open(Endpoint{BaseURL: &base, API: api, Model: &model, Engine: "auto", Metrics: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	return p.Probe(context.Background(), rt, http.Header{"Content-Type": {"application/json"}})
}

func wantFact[T comparable](t *testing.T, name string, got *T, want T, f Facts) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: got null (%s), want %v", name, f.Unknown[name], want)
		return
	}
	if *got != want {
		t.Errorf("%s: got %v, want %v", name, *got, want)
	}
	if f.Sources[name] == "" || f.Unknown[name] != "" {
		t.Errorf("%s: source %q, reason %q of a known fact", name, f.Sources[name], f.Unknown[name])
	}
}

func TestFactsOfVLLM(t *testing.T) {
	metrics := "# TYPE\nvllm:num_requests_running 0\n" + `vllm:cache_config_info{block_size="128",cache_dtype="auto",enable_prefix_caching="True",num_gpu_blocks="64"} 1.0` + "\n"
	info, _, _ := strings.Cut(captured(t, "vllm/0.32.0/get-server-info"), "\n\n[rest cut")
	f := probe(t, "openai-chat", "tiny", paths{
		"GET /v1/models": captured(t, "vllm/0.32.0/get-v1-models"), "GET /version": captured(t, "vllm/0.32.0/get-version"),
		"GET /metrics": metrics, "GET /server_info": info + `"}`,
	})
	wantFact(t, "engine", f.Engine, "vllm", f)
	wantFact(t, "version", f.Version, "0.32.0", f)
	wantFact(t, "root", f.Root, "/models/hf-tiny", f)
	wantFact(t, "context_window", f.ContextWindow, 2048, f)
	wantFact(t, "model_listed", f.ModelListed, true, f)
	wantFact(t, "prefix_cache", f.PrefixCache, true, f)
	for name, want := range map[string]string{"block_size": "128", "dtype": "torch.bfloat16", "tensor_parallel_size": "1", "enforce_eager": "True"} {
		if f.Settings[name] != want {
			t.Errorf("setting %s: got %v, want %s", name, f.Settings[name], want)
		}
	}
}

func TestFactsOfLlamaCPP(t *testing.T) {
	f := probe(t, "openai-chat", "tiny", paths{
		"GET /v1/models": captured(t, "llama.cpp/b10434/get-v1-models"), "GET /props": captured(t, "llama.cpp/b10434/get-props"), "GET /metrics": captured(t, "llama.cpp/b10434/get-metrics-before"),
	})
	wantFact(t, "engine", f.Engine, "llamacpp", f)
	wantFact(t, "version", f.Version, "b1-7e4c0a9", f)
	wantFact(t, "context_window", f.ContextWindow, 1024, f)
	wantFact(t, "slots", f.Slots, 2, f)
	if f.PrefixCache != nil || f.Unknown["prefix_cache"] == "" {
		t.Errorf("prefix cache: got %v, reason %q", f.PrefixCache, f.Unknown["prefix_cache"])
	}
}

func TestFactsOfOllama(t *testing.T) {
	f := probe(t, "ollama", "hf-tiny", paths{
		"GET /v1/models": captured(t, "ollama/0.17.4/get-v1-models"), "GET /api/version": captured(t, "ollama/0.17.4/get-api-version"),
		"POST /api/show": captured(t, "ollama/0.17.4/api-show"), "GET /api/ps": captured(t, "ollama/0.17.4/get-api-ps"), "GET /api/tags": captured(t, "ollama/0.17.4/get-api-tags"),
	})
	wantFact(t, "engine", f.Engine, "ollama", f)
	wantFact(t, "version", f.Version, "0.0.0", f)
	wantFact(t, "context_window", f.ContextWindow, 1024, f)
	wantFact(t, "weights_digest", f.WeightsDigest, "48846706c7b8ed230733be526c85e5c971bdde8fa269c49fbdb1c21226f170a3", f)
	if f.Settings["quantization_level"] != "F16" {
		t.Errorf("settings: got %v", f.Settings)
	}
}

func TestFactsOfSGLang(t *testing.T) {
	f := probe(t, "sglang", "glm", paths{
		"GET /v1/models":      `{"object":"list","data":[{"id":"glm","owned_by":"sglang","root":"glm","max_model_len":131072}]}`,
		"GET /server_info":    `{"model_path":"zai-org/GLM","version":"0.5.23","context_length":null,"max_running_requests":48,"disable_radix_cache":false,"tp_size":8,"api_key":"s3cret","quantization":"fp8"}`,
		"GET /get_model_info": `{"model_path":"zai-org/GLM","tokenizer_path":"zai-org/GLM","is_generation":true}`,
	})
	wantFact(t, "engine", f.Engine, "sglang", f)
	wantFact(t, "version", f.Version, "0.5.23", f)
	wantFact(t, "context_window", f.ContextWindow, 131072, f)
	wantFact(t, "slots", f.Slots, 48, f)
	wantFact(t, "prefix_cache", f.PrefixCache, true, f)
	if _, leaked := f.Settings["api_key"]; leaked || f.Settings["quantization"] != "fp8" {
		t.Errorf("settings: got %v", f.Settings)
	}
}

func TestFactsOfTGI(t *testing.T) {
	f := probe(t, "tgi", "m", paths{"GET /info": `{"model_id":"org/m","model_sha":"abc","version":"3.3.6","max_total_tokens":4096,"max_concurrent_requests":128}`})
	wantFact(t, "engine", f.Engine, "tgi", f)
	wantFact(t, "context_window", f.ContextWindow, 4096, f)
	wantFact(t, "weights_digest", f.WeightsDigest, "abc", f)
}

func TestGuideLLM166WhatIsNotOfferedIsUnknownAndNoFailure(t *testing.T) {
	f := probe(t, "openai-chat", "m", paths{})
	if f.Engine != nil || f.Version != nil || f.Models != nil || f.ContextWindow != nil || f.ModelListed != nil {
		t.Errorf("got %+v, want nothing", f)
	}
	if f.Unknown["version"] != NotOffered || f.Unknown["models"] != NotOffered || len(f.Unknown) != 9 {
		t.Errorf("reasons: got %v", f.Unknown)
	}
}

func TestFactsSurviveAServerThatAnswersNonsense(t *testing.T) {
	for name, answer := range map[string]string{
		"html": "<html>", "list": "[]", "null": "null", "empty": "", "numbers": `{"data":5,"version":7,"models":true,"total_slots":"x","model_path":[]}`,
		"entries": `{"data":[null,5,{"id":7},{"id":"m","max_model_len":-1,"root":{}}]}`, "server error": "500|boom", "transport": "error: connection refused", "redirect": "302|",
	} {
		all := paths{"GET /v1/models": answer, "GET /version": answer, "GET /metrics": answer}
		for _, q := range questions() {
			all[q.method+" "+q.path] = answer
		}
		f := probe(t, "openai-chat", "m", all)
		if f.ContextWindow != nil || f.Version != nil || f.Slots != nil {
			t.Errorf("%s: got %+v", name, f)
		}
		for _, fact := range []string{"version", "context_window", "slots"} {
			if f.Unknown[fact] == "" {
				t.Errorf("%s: no reason for %s", name, fact)
			}
		}
	}
}

func TestAModelThatIsNotListedIsSaidToBe(t *testing.T) {
	f := probe(t, "openai-chat", "no-such-model", paths{"GET /v1/models": captured(t, "vllm/0.32.0/get-v1-models")})
	wantFact(t, "model_listed", f.ModelListed, false, f)
	if f.ContextWindow != nil {
		t.Errorf("context window of another model: %d", *f.ContextWindow)
	}
}
