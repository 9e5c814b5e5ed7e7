package main

import "encoding/json"

// document prints v as the one JSON document of a command.
func (a *app) document(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
