package record

import (
	"encoding/json"
	"testing"

	"anvil/schemas"
	"anvil/stages/internal/jsontree"
)

func schemaID(id string) schemas.ID { return schemas.ID(id) }

func validate(t *testing.T, id string, v jsontree.Value) []schemas.Violation {
	t.Helper()
	vs, err := schemas.Validate(schemas.ID(id), v.Go(func(text string) any { return json.Number(text) }))
	if err != nil {
		t.Fatal(err)
	}
	return vs
}
