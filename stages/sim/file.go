package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"anvil/schemas"
	"anvil/stages/internal/jsontree"
)

// ConfigSchema is the schema of a configuration file.
const ConfigSchema schemas.ID = "anvil.sim-config/v1"

// ParseConfig reads a configuration file, JSON of [ConfigSchema]; what it
// leaves out has its default. It reports everything that is wrong, one error a line.
func ParseConfig(src []byte) (Config, error) {
	if _, err := jsontree.Parse(src); err != nil { // stricter than encoding/json: duplicate keys, lone surrogates
		return Config{}, err
	}
	doc := map[string]any{}
	in := json.NewDecoder(bytes.NewReader(src))
	in.UseNumber()
	if err := in.Decode(&doc); err != nil || doc == nil {
		return Config{}, errors.New("want a JSON object")
	}
	if err := checkDocument(doc); err != nil {
		return Config{}, err
	}
	filled, err := json.Marshal(doc)
	if err != nil {
		return Config{}, fmt.Errorf("encode the defaults: %w", err)
	}
	var cfg Config
	if err := json.Unmarshal(filled, &cfg); err != nil {
		return Config{}, err
	}
	return cfg, cfg.Check()
}

// checkDocument fills in the defaults of a configuration and checks it.
func checkDocument(doc map[string]any) error {
	if err := schemas.Fill(ConfigSchema, doc); err != nil {
		return err
	}
	faults, err := schemas.Faults(ConfigSchema, doc)
	if err != nil {
		return err
	}
	errs := make([]error, len(faults))
	for i, f := range faults {
		where := strings.TrimPrefix(f.Pointer, "/")
		errs[i] = errors.New(strings.TrimPrefix(where+": "+f.Message, ": "))
		if f.Hint != "" {
			errs[i] = fmt.Errorf("%w (%s)", errs[i], f.Hint)
		}
	}
	return errors.Join(errs...)
}
