package plan

import (
	"fmt"
	"slices"
	"strings"

	"anvil/schemas"
)

// checkTwice reports what an endpoint says twice: one of the two would be sent
// and the other forgotten without a word. The second as written is at fault.
func (p *parser) checkTwice(e *endpoint, config map[string]any) {
	if config["api_key_env"] != nil && config["api_key_file"] != nil {
		keys := e.inOrder("api_key_env", "api_key_file")
		p.keyProblem(e.pointer+"/"+keys[1], fmt.Sprintf("`%s` and `%s` exclude each other", keys[0], keys[1]), "leave one out: a request bears one key")
	}
	first := map[string]string{} // path of a header by its name, in which case does not count
	for _, key := range e.inOrder("headers", "headers_env") {
		headers, _ := config[key].(map[string]any)
		for _, header := range e.headersIn(key, headers) {
			path := key + "." + header
			if other, ok := first[strings.ToLower(header)]; ok {
				p.keyProblem(schemas.Join(e.pointer, key, header), fmt.Sprintf("the header is that of %s: case does not tell headers apart", other), "leave one out")
				continue
			}
			first[strings.ToLower(header)] = path
		}
	}
}

// inOrder returns the keys in the order in which the plan writes them.
func (e *endpoint) inOrder(keys ...string) []string {
	slices.SortStableFunc(keys, func(a, b string) int { return slices.Index(e.where.order, a) - slices.Index(e.where.order, b) })
	return keys
}

// headersIn are the names of the headers under a key, in the order of the plan.
func (e *endpoint) headersIn(key string, headers map[string]any) []string {
	if where := e.where.fields[key]; where != nil && len(where.order) == len(headers) {
		return where.order
	}
	return keys(headers)
}
