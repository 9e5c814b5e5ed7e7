package engine

import "anvil/stages/internal/engine/jsonview"

// tgi is Hugging Face's Text Generation Inference: /generate_stream, one token an
// event, the last one with the whole text and the details.
//
// From its published documentation:
// https://huggingface.co/docs/text-generation-inference/en/reference/api_reference
// https://huggingface.github.io/text-generation-inference/
type tgi struct{}

func (tgi) API() string { return "tgi" }

func (tgi) Proof() Proof {
	return Proof{Source: "https://huggingface.co/docs/text-generation-inference/en/reference/api_reference"}
}

func (tgi) Path(_ string, stream bool) string {
	if stream {
		return "/generate_stream"
	}
	return "/generate"
}

func (tgi) Framing() Framing { return EventStream }

func (tgi) Cap() [][]string { return [][]string{{"parameters", "max_new_tokens"}} }

func (tgi) Unsent(s Sampling) []string { return s.unsent("temperature", "top_p", "seed", "stop") }

func (tgi) Body(_ *Endpoint, r Request, _ bool) (Fields, error) {
	parameters := Fields{"details": true}
	if r.MaxTokens > 0 {
		parameters["max_new_tokens"] = r.MaxTokens
	}
	s := r.Sampling
	switch { // the server refuses a temperature of 0: greedy is not to sample
	case s.Temperature != nil && *s.Temperature == 0:
		parameters["do_sample"] = false
	case s.Temperature != nil:
		parameters["do_sample"], parameters["temperature"] = true, *s.Temperature
	}
	set(parameters, "top_p", s.TopP)
	set(parameters, "seed", s.Seed)
	if s.Stop != nil {
		parameters["stop"] = s.Stop
	}
	return Fields{"inputs": r.prompt(), "parameters": parameters}, nil
}

func (tgi) event(r *reading, name, data []byte) {
	if isDone(data) {
		r.end()
		return
	}
	keys := [...]string{"error", "token", "generated_text", "details"}
	var m [len(keys)]value
	_, ok := r.object(name, data, keys[:], m[:])
	if !ok {
		return
	}
	if m[1].Missing() && m[2].Missing() && m[3].Missing() {
		r.remark("foreign_event")
		return
	}
	if token := m[1]; !token.Get("special").True() {
		r.content(0, token.Get("text"))
	}
	if m[2].Missing() && m[3].Missing() {
		return
	}
	tgiDetails(r, m[3])
	r.end()
}

// tgiDetails reads how the answer ended and what it counted.
func tgiDetails(r *reading, d value) {
	if d.Missing() || r.live {
		return
	}
	r.finish(0, d.Get("finish_reason"))
	c := counts{input: tallyOf(d.Get("input_length")), output: tallyOf(d.Get("generated_tokens"))}
	if n := length(d.Get("prefill")); n > 0 {
		c.input = c.input.or(tally{n: n, have: true})
	}
	r.count(c)
}

// length counts the elements of a list.
func length(list value) (n int64) {
	for at := 0; ; n++ {
		if _, more := list.Next(&at); !more {
			return n
		}
	}
}

func (tgi) body(r *reading, data []byte) {
	v, ok := jsonview.Parse(data)
	if list := 0; ok && v.Kind() == jsonview.Array { // /: a list of one
		if first, more := v.Next(&list); more {
			data = first.Raw()
		}
	}
	keys := [...]string{"error", "generated_text", "details"}
	var m [len(keys)]value
	if _, ok = r.object(nil, data, keys[:], m[:]); !ok {
		return
	}
	if m[1].Kind() != jsonview.String {
		r.malformed("body holds no generated_text", data)
		return
	}
	r.choice(0)
	r.content(0, m[1])
	tgiDetails(r, m[2])
}
