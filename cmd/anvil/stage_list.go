package main

import (
	"errors"
	"slices"
	"strings"
)

// A stageList is the value of --only, --from and --force: stage ids, divided by
// commas. A comma inside brackets belongs to a child's id:
// "measure[concurrency=4,rep=2]".
type stageList struct{ ids *[]string }

// String returns the flag's text.
func (l stageList) String() string {
	if l.ids == nil {
		return ""
	}
	return strings.Join(*l.ids, ",")
}

// Set adds what one use of the flag names.
func (l stageList) Set(text string) error {
	before := len(*l.ids)
	l.split(text)
	if slices.Contains((*l.ids)[before:], "") {
		return errors.New("an empty stage id")
	}
	return nil
}

func (l stageList) split(text string) {
	depth, from := 0, 0
	for i, r := range text {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ',' && depth <= 0:
			*l.ids = append(*l.ids, text[from:i])
			from = i + 1
		}
	}
	*l.ids = append(*l.ids, text[from:])
}

// Type is what the help shows.
func (stageList) Type() string { return "stage,…" }
