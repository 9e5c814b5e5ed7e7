package engine

import "anvil/stages/internal/engine/jsonview"

// object reads a payload that has to be a JSON object and picks members of it;
// the first of keys is the one that holds errors. What is no object, and every
// error, is filed here: ok is false then. A value that says nothing (null, no
// data at all) is noted.
func (r *reading) object(name, data []byte, keys []string, out []value) (v value, ok bool) {
	v, valid := jsonview.ParseObject(data, keys, out)
	failed := string(name) == "error"
	switch {
	case !valid && len(trimSpace(data)) == 0 && !failed:
		r.remark("empty_event")
	case !valid && failed:
		r.failRaw(data)
	case !valid:
		r.malformed("not JSON", data)
	case isError(out[0]):
		r.failWith(out[0])
	case failed:
		r.failWith(v)
	case v.Kind() == jsonview.Null:
		r.remark("null_event")
	case v.Kind() != jsonview.Object:
		r.malformed("not an object", v.Raw())
	default:
		return v, true
	}
	return v, false
}

// failRaw keeps an error that is no JSON.
func (r *reading) failRaw(data []byte) {
	if !r.live {
		r.fail("error", string(data))
	}
}

// isDone tells whether a payload is the end mark of the OpenAI shapes.
func isDone(data []byte) bool {
	const done = "[DONE]"
	return len(data) >= len(done) && len(data) < 64 && string(trimSpace(data)) == done
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// sample is the beginning of what was not understood, for a message.
func sample(b []byte) string {
	const n = 80
	if len(b) > n {
		return string(b[:n]) + "…"
	}
	return string(b)
}
