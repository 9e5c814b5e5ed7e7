package engine

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
