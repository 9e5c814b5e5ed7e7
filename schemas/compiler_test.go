package schemas

import (
	"fmt"
	"io"
	"math/big"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// newCompiler is the library's compiler, meta-schema and all: what the assembler
// must agree with.
func newCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.ExtractAnnotations = true
	c.AssertFormat = true
	c.Formats = formats
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		name, ok := strings.CutPrefix(url, base)
		if !ok {
			return nil, fmt.Errorf("schema %q: not among the embedded ones", url)
		}
		return files.Open(name)
	}
	anything := jsonschema.MustCompileString("anything.json", `{}`)
	for _, name := range []string{marksName, defaultName} {
		c.RegisterExtension(name, anything, ownKeyword(name))
	}
	return c
}

// ownKeyword picks one of the keywords of our own out of a schema.
type ownKeyword string

func (k ownKeyword) Compile(_ jsonschema.CompilerContext, m map[string]any) (jsonschema.ExtSchema, error) {
	var s jsonschema.Schema
	if err := extend(&s, m); err != nil {
		return nil, err
	}
	return s.Extensions[string(k)], nil
}

func TestAssembledSchemasAreTheLibrarysOwn(t *testing.T) {
	c := newCompiler()
	for _, id := range List() {
		want, err := c.Compile(base + id.FileName())
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		got, err := Compile(id)
		if err != nil {
			t.Fatal(err)
		}
		same := sameSchemas{}
		if same.compare(reflect.ValueOf(got), reflect.ValueOf(want), string(id)); len(same.wrong) > 0 {
			t.Errorf("%d differences:\n%s", len(same.wrong), strings.Join(same.wrong[:min(10, len(same.wrong))], "\n"))
		}
	}
}

func TestAssemblingRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, src := range map[string]string{
		"unknown keyword": `{"properties": {"a": {"dependentRequired": {}}}}`,
		"dead reference":  `{"properties": {"a": {"$ref": "defs.schema.json#/$defs/nothing"}}}`,
		"no such file":    `{"$ref": "nowhere.schema.json#"}`,
		"wrong value":     `{"items": {"type": 3}}`,
		"bad pattern":     `{"pattern": "("}`,
		"no schema":       `{"not": "never"}`,
		"own keyword":     `{"x-anvil-key": "secret"}`,
	} {
		documents.Store("refused.schema.json", decodeText(t, src))
		if s, err := newAssembler().at(base + "refused.schema.json#"); err == nil {
			t.Errorf("%s: got %v, want an error", name, s)
		}
	}
	documents.Delete("refused.schema.json")
}

// sameSchemas compares two graphs of schemas, which hold cycles.
type sameSchemas struct {
	seen  map[[2]*jsonschema.Schema]bool
	wrong []string
}

func (c *sameSchemas) compare(got, want reflect.Value, where string) {
	if want.Kind() == reflect.Interface {
		g, w := got.Elem(), want.Elem()
		if !g.IsValid() || !w.IsValid() || g.Type() != w.Type() {
			c.equal(fmt.Sprint(got), fmt.Sprint(want), where)
			return
		}
		got, want = g, w
	}
	switch w := want.Interface().(type) {
	case *regexp.Regexp:
		c.equal(fmt.Sprint(got.Interface()), fmt.Sprint(w), where)
		return
	case *big.Rat:
		c.equal(fmt.Sprint(got.Interface()), fmt.Sprint(w), where)
		return
	case *jsonschema.Draft:
		c.equal(got.Interface(), w, where)
		return
	case *jsonschema.Schema:
		g := got.Interface().(*jsonschema.Schema)
		if c.seen == nil {
			c.seen = map[[2]*jsonschema.Schema]bool{}
		}
		if pair := [2]*jsonschema.Schema{g, w}; g != nil && w != nil && !c.seen[pair] {
			c.seen[pair] = true
			for i, field := range reflect.VisibleFields(reflect.TypeFor[jsonschema.Schema]()) {
				if field.IsExported() {
					c.compare(got.Elem().Field(i), want.Elem().Field(i), where+"."+field.Name)
				}
			}
		} else if g == nil || w == nil {
			c.equal(g == nil, w == nil, where)
		}
		return
	}
	switch want.Kind() {
	case reflect.Map:
		c.equal(got.Len(), want.Len(), where)
		for _, k := range want.MapKeys() {
			if g := got.MapIndex(k); g.IsValid() {
				c.compare(g, want.MapIndex(k), fmt.Sprintf("%s[%v]", where, k))
			} else {
				c.equal("absent", k, where)
			}
		}
	case reflect.Slice:
		c.equal(got.Len(), want.Len(), where)
		for i := range min(got.Len(), want.Len()) {
			c.compare(got.Index(i), want.Index(i), fmt.Sprintf("%s[%d]", where, i))
		}
	default:
		c.equal(got.Interface(), want.Interface(), where)
	}
}

func (c *sameSchemas) equal(got, want any, where string) {
	if !reflect.DeepEqual(got, want) {
		c.wrong = append(c.wrong, fmt.Sprintf("%s: got %v, want %v", where, got, want))
	}
}
