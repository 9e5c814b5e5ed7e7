package engine

import (
	"regexp"
	"strings"

	"anvil/stages/internal/engine/jsonview"
)

// vllmSetting is one setting in the text of vLLM's configuration. Everything else
// there, and the environment beside it, is left alone: it may hold secrets.
var vllmSetting = regexp.MustCompile(`\b(dtype|max_seq_len|tensor_parallel_size|pipeline_parallel_size|data_parallel_size|quantization|kv_cache_dtype|enforce_eager|enable_prefix_caching|enable_chunked_prefill|speculative_config|reasoning_parser|seed)=('[^']*'|[^,()\s]*)`)

func vllmServerInfo(q *inquiry, path string, v value) {
	config := v.Get("vllm_config")
	if config.Kind() != jsonview.String {
		return // SGLang answers at this path too
	}
	q.text("engine", path, &q.facts.Engine, "vllm")
	for _, m := range vllmSetting.FindAllStringSubmatch(config.Text(), -1) {
		name, setting := m[1], strings.Trim(m[2], "'")
		if _, known := q.facts.Settings[name]; !known {
			q.facts.Settings[name] = bounded(setting, maxName)
		}
		if name == "enable_prefix_caching" {
			q.flag("prefix_cache", path, &q.facts.PrefixCache, setting == "True")
		}
	}
}

func sglangServerInfo(q *inquiry, path string, v value) {
	if v.Get("model_path").Missing() {
		return
	}
	q.text("engine", path, &q.facts.Engine, "sglang")
	q.text("version", path, &q.facts.Version, v.Get("version").Text())
	q.text("root", path, &q.facts.Root, v.Get("model_path").Text())
	q.count("context_window", path, &q.facts.ContextWindow, v.Get("context_length"))
	q.count("slots", path, &q.facts.Slots, v.Get("max_running_requests"))
	if off := v.Get("disable_radix_cache"); off.Kind() == jsonview.Bool {
		q.flag("prefix_cache", path, &q.facts.PrefixCache, !off.True())
	}
	q.settings(v, "dtype", "quantization", "kv_cache_dtype", "tp_size", "dp_size", "pp_size", "max_total_num_tokens", "chunked_prefill_size",
		"mem_fraction_static", "attention_backend", "speculative_algorithm", "schedule_policy", "reasoning_parser", "stream_interval")
}

func sglangModelInfo(q *inquiry, path string, v value) {
	if v.Get("model_path").Missing() {
		return
	}
	q.text("engine", path, &q.facts.Engine, "sglang")
	q.text("root", path, &q.facts.Root, v.Get("model_path").Text())
	q.settings(v, "tokenizer_path", "weight_version")
}

func llamaProps(q *inquiry, path string, v value) {
	slots := v.Get("total_slots")
	if slots.Missing() {
		return
	}
	q.text("engine", path, &q.facts.Engine, "llamacpp")
	q.text("version", path, &q.facts.Version, v.Get("build_info").Text())
	q.text("root", path, &q.facts.Root, v.Get("model_path").Text())
	q.count("slots", path, &q.facts.Slots, slots)
	// The window of one slot; the list of models tells the model's own, or the same.
	q.facts.ContextWindow = nil
	q.count("context_window", path, &q.facts.ContextWindow, v.At("default_generation_settings", "n_ctx"))
	q.settings(v, "model_ftype", "model_alias")
}

func tgiInfo(q *inquiry, path string, v value) {
	if v.Get("model_id").Missing() {
		return
	}
	q.text("engine", path, &q.facts.Engine, "tgi")
	q.text("version", path, &q.facts.Version, v.Get("version").Text())
	q.text("root", path, &q.facts.Root, v.Get("model_id").Text())
	q.text("weights_digest", path, &q.facts.WeightsDigest, v.Get("model_sha").Text())
	q.count("context_window", path, &q.facts.ContextWindow, v.Get("max_total_tokens"))
	q.count("slots", path, &q.facts.Slots, v.Get("max_concurrent_requests"))
	q.settings(v, "model_dtype", "model_device_type", "max_input_tokens", "max_batch_total_tokens", "docker_label", "sha")
}

func tritonServer(q *inquiry, path string, v value) {
	if !v.Get("name").Is("triton") {
		return
	}
	q.text("engine", path, &q.facts.Engine, "trtllm")
	q.text("version", path, &q.facts.Version, v.Get("version").Text())
}

func ollamaVersion(q *inquiry, path string, v value) {
	version := v.Get("version")
	if version.Kind() != jsonview.String {
		return
	}
	q.text("engine", path, &q.facts.Engine, "ollama")
	q.text("version", path, &q.facts.Version, version.Text())
}

// numCtx is the window in the parameters of a model, one to a line.
var numCtx = regexp.MustCompile(`(?m)^num_ctx\s+(\d+)\s*$`)

func ollamaShow(q *inquiry, path string, v value) {
	if v.Get("model_info").Missing() {
		return
	}
	q.text("engine", path, &q.facts.Engine, "ollama")
	if m := numCtx.FindStringSubmatch(v.Get("parameters").Text()); m != nil {
		if n, ok := jsonview.Parse([]byte(m[1])); ok {
			q.count("context_window", path, &q.facts.ContextWindow, n)
		}
	}
	q.settings(v.Get("details"), "family", "parameter_size", "quantization_level", "format")
}

// ollamaLoaded: what is loaded knows its window best.
func ollamaLoaded(q *inquiry, path string, v value) {
	if m, ok := q.ofModel(v); ok {
		q.facts.ContextWindow = nil
		q.count("context_window", path, &q.facts.ContextWindow, m.Get("context_length"))
		q.text("weights_digest", path, &q.facts.WeightsDigest, m.Get("digest").Text())
	}
}

func ollamaTags(q *inquiry, path string, v value) {
	if m, ok := q.ofModel(v); ok {
		q.text("weights_digest", path, &q.facts.WeightsDigest, m.Get("digest").Text())
	}
}

// ofModel finds the entry of the model that is asked for in a list of Ollama's.
func (q *inquiry) ofModel(v value) (m value, ok bool) {
	list := v.Get("models")
	for at := 0; ; {
		m, more := list.Next(&at)
		if !more {
			return value{}, false
		}
		if name := m.Get("name").Text(); name == q.p.Model || strings.TrimSuffix(name, ":latest") == q.p.Model {
			return m, true
		}
	}
}
