package sse

import "strings"

// reference is the standard's algorithm written down for a whole stream at once:
// slow and obvious. complete says that the stream ended cleanly.
func reference(stream string) (events []Event, partial bool) {
	stream = strings.TrimPrefix(stream, "\xef\xbb\xbf")
	lines, rest := splitLines(stream)
	var name, id string
	var data []string
	dispatch := func() {
		if data != nil || name != "" {
			events = append(events, Event{
				Name: []byte(name), Data: []byte(strings.Join(data, "\n")), ID: []byte(id), Bare: data == nil,
			})
		}
		name, data = "", nil
	}
	for _, line := range lines {
		if line == "" {
			dispatch()
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(data, value)
		case "event":
			name = value
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		}
	}
	if rest == "" {
		dispatch()
	}
	return events, rest != ""
}

func splitLines(s string) (lines []string, rest string) {
	for {
		i := strings.IndexAny(s, "\r\n")
		if i < 0 {
			return lines, s
		}
		lines = append(lines, s[:i])
		if strings.HasPrefix(s[i:], "\r\n") {
			i++
		}
		s = s[i+1:]
	}
}
