package derive

import (
	"errors"
	"fmt"
	"slices"

	"anvil/pipeline/stage"
)

// ResolveGraders fills the defaults of the graders of a grade stage and reports
// every fault of them that shows without data.
func ResolveGraders(r *stage.Resolution) {
	list, _ := r.With["graders"].([]any)
	if len(list) == 0 {
		r.Problem("/graders", "at least one grader is required", "graders: [{id: a, type: contains, any: [blue]}]")
	}
	var ids []string
	for i, v := range list {
		at := fmt.Sprintf("/graders/%d", i)
		if id, ok := resolveGrader(r, at, v); ok {
			if slices.Contains(ids, id) {
				r.Problem(at+"/id", fmt.Sprintf("second grader with the id %q", id), "")
			}
			ids = append(ids, id)
		}
	}
}

func resolveGrader(r *stage.Resolution, at string, v any) (id string, ok bool) {
	m, isObject := v.(map[string]any)
	if !isObject {
		return "", false // the schema has said so
	}
	id, ok = m["id"].(string)
	_, err := fillGrader(m)
	if err == nil {
		of, _ := m["of"].([]any)
		clean := len(r.Problems())
		for i, member := range of {
			resolveGrader(r, fmt.Sprintf("%s/of/%d", at, i), member)
		}
		if len(r.Problems()) > clean {
			return id, ok // of its members; building it would say the same again
		}
		_, err = (&builder{}).graderOf(m, "")
	}
	var fault *keyError
	switch {
	case err == nil:
	case errors.As(err, &fault):
		r.Problem(at+"/"+fault.key, fault.message, fault.hint)
	default:
		r.Problem(at, err.Error(), "")
	}
	return id, ok
}
