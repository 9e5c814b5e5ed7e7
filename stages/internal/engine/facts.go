package engine

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"strings"

	"anvil/stages/internal/engine/jsonview"
)

// NotOffered is the reason of a fact whose path the server does not have: that is
// no failure, and no zero.
const NotOffered = "not offered"

// Facts are what an endpoint says of itself; a fact is null where nothing says
// it, with the reason in Unknown. Their texts come from the server: whoever
// writes them redacts secrets, whoever shows them escapes.
type Facts struct {
	Engine        *string           `json:"engine"` // vllm, sglang, llamacpp, tgi, trtllm, ollama, or as the server names itself
	Version       *string           `json:"version"`
	Models        []string          `json:"models"` // null where no list is offered
	ModelListed   *bool             `json:"model_listed"`
	Root          *string           `json:"root"`           // what the served name stands for
	ContextWindow *int              `json:"context_window"` // tokens of one request, prompt and output
	PrefixCache   *bool             `json:"prefix_cache"`   // whether prompts are cached
	Slots         *int              `json:"slots"`          // requests computed at once
	WeightsDigest *string           `json:"weights_digest"` // as the server states it; a claim
	Settings      map[string]any    `json:"settings"`       // of the server, those that bear on figures
	Sources       map[string]string `json:"sources"`        // fact to the path that told it
	Unknown       map[string]string `json:"unknown"`        // fact to the reason why it is null
}

// Probe asks an endpoint about itself through rt, with the headers of its
// requests. It never fails: what cannot be had is unknown, and a server that does
// not answer is not asked everything.
func (p *Protocol) Probe(ctx context.Context, rt http.RoundTripper, h http.Header) Facts {
	ctx, cancel := context.WithTimeout(ctx, factsLimit)
	defer cancel()
	q := &inquiry{p: p, rt: rt, header: h, refused: map[string]string{}, facts: Facts{
		Settings: map[string]any{}, Sources: map[string]string{}, Unknown: map[string]string{},
	}}
	q.models(ctx)
	q.version(ctx)
	if e := p.Endpoint.Engine; e != "" && e != "auto" && e != "none" {
		q.text("engine", "plan", &q.facts.Engine, e)
	}
	if p.Endpoint.Engine != "none" {
		q.metrics(ctx)
		q.ask(ctx)
	}
	q.reasons()
	return q.facts
}

// A question is a path of one engine and how its answer is read.
type question struct {
	engine string
	method string
	path   string
	read   func(q *inquiry, path string, v value)
}

// questions are asked of the engine that the endpoint is known to be, all of them
// while nothing says what it is.
func questions() []question {
	return []question{
		{"vllm", http.MethodGet, "/server_info", vllmServerInfo},
		{"sglang", http.MethodGet, "/server_info", sglangServerInfo},
		{"sglang", http.MethodGet, "/get_server_info", sglangServerInfo},
		{"sglang", http.MethodGet, "/get_model_info", sglangModelInfo},
		{"llamacpp", http.MethodGet, "/props", llamaProps},
		{"tgi", http.MethodGet, "/info", tgiInfo},
		{"trtllm", http.MethodGet, "/v2", tritonServer},
		{"ollama", http.MethodGet, "/api/version", ollamaVersion},
		{"ollama", http.MethodPost, "/api/show", ollamaShow},
		{"ollama", http.MethodGet, "/api/ps", ollamaLoaded},
		{"ollama", http.MethodGet, "/api/tags", ollamaTags},
	}
}

// ask goes through the questions. An answer that fits one engine names it, and
// from then on only its questions are asked.
func (q *inquiry) ask(ctx context.Context) {
	for _, one := range questions() {
		if q.facts.Engine != nil && *q.facts.Engine != one.engine {
			continue
		}
		body := []byte(nil)
		if one.method == http.MethodPost {
			body = q.p.modelBody()
		}
		if v, ok := q.object(ctx, one.method, one.path, body); ok {
			one.read(q, one.path, v)
		}
	}
}

func (p *Protocol) modelBody() []byte {
	b, err := Fields{"model": p.Model}.encode()
	if err != nil {
		return nil
	}
	return b
}

// models reads the list of models, wherever base_url ends.
func (q *inquiry) models(ctx context.Context) {
	const path = "/v1/models"
	url, err := q.p.Endpoint.RootPath(path)
	if strings.HasPrefix(q.p.Adapter.API(), "openai-") || strings.HasPrefix(q.p.Adapter.API(), "anthropic-") {
		url, err = q.p.Endpoint.BasePath("/models")
	}
	if err != nil {
		q.refused[path] = err.Error()
		return
	}
	v, ok := q.objectAt(ctx, http.MethodGet, path, url, nil)
	list := v.Get("data")
	if !ok || list.Kind() != jsonview.Array {
		q.refused[path] = cmp.Or(q.refused[path], "the answer holds no list")
		return
	}
	q.facts.Models, q.facts.Sources["models"] = []string{}, path
	listed := false
	for at := 0; len(q.facts.Models) < maxTools; {
		m, more := list.Next(&at)
		if !more {
			break
		}
		id := bounded(m.Get("id").Text(), maxName)
		q.facts.Models = append(q.facts.Models, id)
		if id == q.p.Model || strings.TrimSuffix(id, ":latest") == q.p.Model {
			listed = true
			q.model(path, m)
		}
	}
	q.facts.ModelListed, q.facts.Sources["model_listed"] = &listed, path
}

// model reads the entry of the model that is asked for.
func (q *inquiry) model(path string, m value) {
	q.text("root", path, &q.facts.Root, m.Get("root").Text())
	switch owner := m.Get("owned_by"); {
	case owner.Is("library"):
		q.text("engine", path, &q.facts.Engine, "ollama")
	case owner.Is("openai"), owner.Is("organization-owner"), owner.Is("system"): // also what proxies say
	default:
		q.text("engine", path, &q.facts.Engine, owner.Text())
	}
	for _, v := range []value{m.Get("max_model_len"), m.At("meta", "n_ctx"), m.Get("context_length"), m.Get("max_input_tokens")} {
		q.count("context_window", path, &q.facts.ContextWindow, v)
	}
}

func (q *inquiry) version(ctx context.Context) {
	const path = "/version"
	v, ok := q.object(ctx, http.MethodGet, path, nil)
	if !ok {
		return
	}
	q.text("version", path, &q.facts.Version, v.Get("version").Text())
	q.text("engine", path, &q.facts.Engine, v.Get("engine").Text())
}

// cacheConfig is the metric in which vLLM and SGLang tell their cache's settings.
var cacheConfig = regexp.MustCompile(`(?m)^(vllm|sglang):cache_config_info\{(.*)\} `)

// label is one of its labels.
var label = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)

// metrics looks for the engine's name and the settings of its cache.
func (q *inquiry) metrics(ctx context.Context) {
	const path = "/metrics"
	url, err := q.p.Endpoint.MetricsURL()
	if err != nil || url == "" {
		return
	}
	body, ok := q.fetch(ctx, http.MethodGet, path, url, nil)
	if !ok {
		return
	}
	for _, engine := range []string{"vllm", "sglang", "llamacpp"} {
		if strings.Contains(string(body), "\n"+engine+":") {
			q.text("engine", path, &q.facts.Engine, engine)
		}
	}
	found := cacheConfig.FindSubmatch(body)
	if found == nil {
		return
	}
	for _, l := range label.FindAllStringSubmatch(string(found[2]), -1) {
		switch l[1] {
		case "block_size", "cache_dtype", "num_gpu_blocks", "num_cpu_blocks", "gpu_memory_utilization", "prefix_caching_hash_algo":
			q.facts.Settings[l[1]] = bounded(l[2], maxName)
		case "enable_prefix_caching":
			q.flag("prefix_cache", path, &q.facts.PrefixCache, l[2] == "True" || l[2] == "true")
		}
	}
}
