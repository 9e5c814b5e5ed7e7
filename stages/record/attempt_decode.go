package record

import (
	"anvil/pipeline/digest"
	"anvil/stages/internal/jsontree"
)

// decodeAttempt reads one line of attempts. Lines as anvil writes them take the
// quick way, several times as fast as a decoder by reflection: a phase has
// 100,000 of them with a hundred arrivals each, and grade, summarize and validate
// read them all. A text that is no JSON, or names a key twice, is an error; what
// is only out of the ordinary goes to that decoder, which also says what is wrong.
func decodeAttempt(doc *jsontree.Doc, line []byte) (Attempt, error) {
	var a Attempt
	if err := doc.Parse(line); err != nil {
		return a, err
	}
	d := quick{ok: true}
	if d.attempt(doc.Root(), &a); d.ok {
		return a, nil
	}
	a = Attempt{}
	err := decodeStrict(line, &a)
	return a, err
}

// A quick decoder gives up, by ok, at the first value of another type than the
// field's; what it has filled then counts for nothing.
type quick struct{ ok bool }

func (d *quick) attempt(v jsontree.Value, a *Attempt) {
	if v.Kind() != jsontree.Object {
		d.ok = false
		return
	}
	a.Index = int(d.integer(v.Get("index")))
	a.Client = d.text(v.Get("client"))
	a.Item = optional(v.Get("item"), d.text)
	a.Session = optional(v.Get("session"), d.text)
	a.Turn = int(d.integer(v.Get("turn")))
	a.PromptSHA256 = d.digest(v.Get("prompt_sha256"))
	a.RequestSHA256 = optional(v.Get("request_sha256"), d.digest)
	a.PlannedInputTokens = optional(v.Get("planned_input_tokens"), d.int)
	a.MaxOutputTokens = int(d.integer(v.Get("max_output_tokens")))
	d.stamps(v.Get("t"), &a.T)
	a.Arrivals = list(d, v.Get("arrivals"), d.integer)
	a.ArrivalKinds = d.text(v.Get("arrival_kinds"))
	a.Coalesced = d.text(v.Get("coalesced"))
	a.SeenEmpty = list(d, v.Get("seen_empty"), func(e jsontree.Value) *int64 { return optional(e, d.integer) })
	a.ClientDelay = list(d, v.Get("client_delay"), d.integer)
	a.Outcome = Outcome(d.text(v.Get("outcome")))
	a.Notes = list(d, v.Get("notes"), d.text)
	a.HTTPStatus = optional(v.Get("http_status"), d.int)
	a.FinishReasons = list(d, v.Get("finish_reasons"), d.text)
	a.DoneMarker = d.boolean(v.Get("done_marker"))
	a.Model = optional(v.Get("model"), d.text)
	d.usage(v.Get("usage"), &a.Usage)
	a.EngineTokens = optional(v.Get("engine_tokens"), d.int)
	a.Text = optional(v.Get("text"), d.text)
	a.Reasoning = optional(v.Get("reasoning"), d.text)
	a.TextSHA256 = d.digest(v.Get("text_sha256"))
	a.TextTruncated = d.boolean(v.Get("text_truncated"))
	a.Choices = int(d.integer(v.Get("choices")))
	// Rare ones are left to the library.
	d.rest(v.Get("error"), &a.Error)
	d.rest(v.Get("tool_calls"), &a.ToolCalls)
	d.rest(v.Get("canary"), &a.Canary)
	d.rest(v.Get("controlled_output"), &a.ControlledOutput)
	d.rest(v.Get("tries"), &a.Tries)
}

func (d *quick) stamps(v jsontree.Value, t *Stamps) {
	if v.Kind() != jsontree.Object {
		d.ok = false
		return
	}
	t.Due = optional(v.Get("due"), d.integer)
	t.Start = optional(v.Get("start"), d.integer)
	t.Connected = optional(v.Get("connected"), d.integer)
	t.Sent = optional(v.Get("sent"), d.integer)
	t.Written = optional(v.Get("written"), d.integer)
	t.Headers = optional(v.Get("headers"), d.integer)
	t.FirstByte = optional(v.Get("first_byte"), d.integer)
	t.FirstOutput = optional(v.Get("first_output"), d.integer)
	t.FirstContent = optional(v.Get("first_content"), d.integer)
	t.LastOutput = optional(v.Get("last_output"), d.integer)
	t.End = optional(v.Get("end"), d.integer)
}

func (d *quick) usage(v jsontree.Value, u *Usage) {
	if v.Kind() != jsontree.Object {
		d.ok = false
		return
	}
	u.Input = optional(v.Get("input"), d.integer)
	u.Output = optional(v.Get("output"), d.integer)
	u.Reasoning = optional(v.Get("reasoning"), d.integer)
	u.Cached = optional(v.Get("cached"), d.integer)
	u.Source = d.text(v.Get("source"))
	u.Reason = optional(v.Get("reason"), d.text)
}

// optional is nil for null and for a member that is not there.
func optional[T any](v jsontree.Value, read func(jsontree.Value) T) *T {
	if k := v.Kind(); k == jsontree.Missing || k == jsontree.Null {
		return nil
	}
	out := read(v)
	return &out
}

// list keeps null and an empty list apart, as the library does.
func list[T any](d *quick, v jsontree.Value, read func(jsontree.Value) T) []T {
	switch v.Kind() {
	case jsontree.Missing, jsontree.Null:
		return nil
	case jsontree.Array:
		out := make([]T, 0, v.Len())
		for _, e := range v.Elems() {
			out = append(out, read(e))
		}
		return out
	default:
		d.ok = false
		return nil
	}
}

func (d *quick) integer(v jsontree.Value) int64 {
	n, ok := v.Int()
	d.ok = d.ok && ok
	return n
}

func (d *quick) int(v jsontree.Value) int { return int(d.integer(v)) }

func (d *quick) text(v jsontree.Value) string {
	d.ok = d.ok && v.Kind() == jsontree.String
	return v.Str()
}

func (d *quick) boolean(v jsontree.Value) bool {
	b, ok := v.Bool()
	d.ok = d.ok && ok
	return b
}

func (d *quick) digest(v jsontree.Value) digest.Digest {
	x, err := digest.Parse(v.Str())
	d.ok = d.ok && err == nil
	return x
}

func (d *quick) rest(v jsontree.Value, into any) {
	if k := v.Kind(); k == jsontree.Missing || k == jsontree.Null || !d.ok {
		return
	}
	d.ok = decodeStrict(v.Raw(), into) == nil
}
