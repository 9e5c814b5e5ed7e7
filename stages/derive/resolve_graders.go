package derive

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"anvil/pipeline/stage"
)

// ResolveGraders fills the defaults of the graders of a grade stage and reports
// every fault of them that shows without data. The files that they name are
// read too: a schema that cannot be used would show when all was measured.
func ResolveGraders(r *stage.Resolution) {
	list, _ := r.With["graders"].([]any)
	if len(list) == 0 {
		r.Problem("/graders", "at least one grader is required", "graders: [{id: a, type: contains, any: [blue]}]")
	}
	b := &builder{files: map[string][]byte{}}
	var ids []string
	for i, v := range list {
		at := fmt.Sprintf("/graders/%d", i)
		if id, ok := resolveGrader(r, b, at, v); ok {
			if slices.Contains(ids, id) {
				r.Problem(at+"/id", fmt.Sprintf("second grader with the id %q", id), "")
			}
			ids = append(ids, id)
		}
	}
}

func resolveGrader(r *stage.Resolution, b *builder, at string, v any) (id string, ok bool) {
	m, isObject := v.(map[string]any)
	if !isObject {
		return "", false // the schema has said so
	}
	id, ok = m["id"].(string)
	clean := len(r.Problems())
	spec, _, err := decodeSpec(m)
	if err == nil {
		err = checkExtract(spec.Extract)
	}
	report(r, at, err)
	of, _ := m["of"].([]any)
	for i, member := range of {
		resolveGrader(r, b, fmt.Sprintf("%s/of/%d", at, i), member)
	}
	if len(r.Problems()) > clean {
		return id, ok // building it would say the same again
	}
	if err = b.readFiles(r, m, at); err == nil {
		_, err = b.graderOf(m, at)
	}
	report(r, at, err)
	return id, ok
}

// report places the fault of a grader at its key.
func report(r *stage.Resolution, at string, err error) {
	var fault *keyError
	switch {
	case err == nil:
	case errors.As(err, &fault):
		r.Problem(at+"/"+fault.key, fault.message, fault.hint)
	default:
		r.Problem(at, err.Error(), "")
	}
}

// maxGraderFile bounds a file that a grader names.
const maxGraderFile = 64 << 20

// readFiles reads the files that a grader names; the plan reports those that
// cannot be opened at their place.
func (b *builder) readFiles(r *stage.Resolution, m map[string]any, at string) error {
	for _, key := range fileKeys {
		path, ok := m[key].(string)
		if !ok || r.Open == nil {
			continue
		}
		src, err := readAll(r, path)
		switch {
		case err != nil:
			return &keyError{key, err.Error(), ""}
		case src != nil:
			b.files[at+"/"+key] = src
		}
	}
	return nil
}

func readAll(r *stage.Resolution, path string) ([]byte, error) {
	f, err := r.Open(path)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxGraderFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %q: %w", path, err)
	case len(src) > maxGraderFile:
		return nil, fmt.Errorf("%q is larger than %d bytes", path, maxGraderFile)
	}
	return src, nil
}
