package prov

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

// maxReferrer bounds the documents in which references are looked for.
const maxReferrer = 64 << 20 // bytes

// A reference is one that stands in a document, with the names beside it.
type reference struct {
	stage.Ref
	stage, name string
}

// document adds what a document refers to, and what that refers to in turn.
func (c *closure) document(ctx context.Context, root stage.Artifact) error {
	todo := []stage.Artifact{root}
	for len(todo) > 0 {
		a := todo[0]
		todo = todo[1:]
		refs, err := c.references(ctx, a)
		if err != nil {
			return err
		}
		for _, ref := range refs {
			held, err := c.held(ctx, ref)
			if err != nil {
				return err
			}
			if !held {
				c.miss(ref.Ref)
				continue
			}
			b, err := c.artifact(ctx, ref.Ref, ref.stage, ref.name)
			if err != nil {
				return err
			}
			if c.add(b) {
				todo = append(todo, b)
			}
		}
	}
	return nil
}

func (c *closure) miss(ref stage.Ref) {
	if !c.seen[ref] {
		c.seen[ref] = true
		c.absent = append(c.absent, ref)
	}
}

// held tells whether the store has both the object and its limitation set.
func (c *closure) held(ctx context.Context, ref reference) (bool, error) {
	_, err := c.r.Set(ctx, ref.Limitations)
	if err == nil {
		var rc interface{ Close() error }
		if rc, err = c.r.objects.Open(ctx, ref.SHA256, ref.Size); err == nil {
			return true, rc.Close()
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return false, err
}

// references reads the references in a JSON document, in a stable order, each once;
// anything but one JSON object has none.
func (c *closure) references(ctx context.Context, a stage.Artifact) ([]reference, error) {
	if a.Size > maxReferrer {
		return nil, nil
	}
	b, err := c.r.Bytes(ctx, a.SHA256, a.Size)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var doc any
	if dec.Decode(&doc) != nil || dec.More() {
		return nil, nil // JSON Lines, or no JSON at all
	}
	var found []reference
	seen := map[stage.Ref]bool{}
	walk(doc, func(r reference) {
		if !seen[r.Ref] {
			seen[r.Ref] = true
			found = append(found, r)
		}
	})
	return found, nil
}

// walk reports every object that is a reference, keys in order.
func walk(v any, found func(reference)) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			walk(e, found)
		}
	case map[string]any:
		if r, ok := asReference(v); ok {
			found(r)
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			walk(v[k], found)
		}
	}
}

func asReference(fields map[string]any) (r reference, ok bool) {
	text := func(name string) string { s, _ := fields[name].(string); return s }
	size, isNumber := fields["size"].(json.Number)
	n, err := size.Int64()
	if !isNumber || err != nil || n < 0 || text("schema") == "" {
		return r, false
	}
	sum, err := digest.Parse(text("sha256"))
	if err != nil {
		return r, false
	}
	set, err := digest.Parse(text("limitations"))
	if err != nil {
		return r, false
	}
	ref := stage.Ref{Schema: schemas.ID(text("schema")), SHA256: sum, Size: n, Limitations: set}
	return reference{Ref: ref, stage: text("stage"), name: text("name")}, true
}
