package prompt

import (
	"encoding/json"
	"errors"
	"strings"
)

// A message is one of a row's, its members under the very names that are sent:
// encoding/json would take "Role" for "role", which no server does.
type message struct {
	fields map[string]json.RawMessage
	role   string
	plain  string            // the content, where it is a text
	parts  []json.RawMessage // the content, where it is a list; else nil
}

// readMessage refuses what no server could be sent: a message without a role, or
// with a content that is neither a text nor a list of parts. An assistant that
// calls tools has no content, or null.
func readMessage(raw json.RawMessage) (m message, err error) {
	if json.Unmarshal(raw, &m.fields) != nil || m.fields == nil ||
		json.Unmarshal(m.fields["role"], &m.role) != nil || m.role == "" {
		return m, errors.New(`want an object with a "role"`)
	}
	content := m.fields["content"]
	if content == nil || string(content) == "null" || json.Unmarshal(content, &m.plain) == nil {
		return m, nil
	}
	wrong := errors.New(`"content": want a text or a list of parts, each an object`)
	if json.Unmarshal(content, &m.parts) != nil {
		return m, wrong
	}
	for _, p := range m.parts {
		if len(p) == 0 || p[0] != '{' {
			return m, wrong
		}
	}
	return m, nil
}

// text is what of the message an API is sent that takes a text alone.
func (m message) text() string {
	if m.parts == nil {
		return m.plain
	}
	var b strings.Builder
	for _, raw := range m.parts {
		var p struct{ Text string }
		if json.Unmarshal(raw, &p) == nil {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}
