package plan

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"

	"anvil/pipeline/stage"
	"anvil/schemas"
)

const (
	endpointSchema = "anvil.endpoint/v1"
	simModel       = "anvil-sim" // what an endpoint without a name for its model serves on the embedded engine
)

// An endpoint as the plan writes it, and as each matrix point that it names
// resolves it.
type endpoint struct {
	name     string
	raw      map[string]any
	pointer  string
	where    *place
	axes     map[string]bool
	resolved map[string]*resolvedEndpoint // by the cell's axes that it names
}

type resolvedEndpoint struct {
	Endpoint
	config map[string]any
}

func (p *parser) readEndpoints() {
	p.endpoints = map[string]*endpoint{}
	p.plan.Endpoints = map[string]Endpoint{}
	all, _ := p.root["endpoints"].(map[string]any)
	where := p.places.fields["endpoints"]
	if where == nil {
		return
	}
	for _, name := range where.order {
		raw, ok := all[name].(map[string]any)
		if !ok {
			continue
		}
		e := &endpoint{
			name: name, raw: raw, pointer: schemas.Join("/endpoints", name), where: where.fields[name],
			axes: map[string]bool{}, resolved: map[string]*resolvedEndpoint{},
		}
		p.checkReferences(raw, e.where, e.pointer, p.full(nil), e.axes)
		p.endpoints[name] = e
		first := p.resolveEndpoint(e, p.firstCell(e.axes))
		if len(e.axes) == 0 {
			p.plan.Endpoints[name] = first.Endpoint
		}
	}
}

// full is the scope of a stage's with and of endpoints.
func (p *parser) full(cell stage.Cell) *scope {
	axes := p.scope.axes
	if axes == nil {
		axes = []string{}
	}
	return &scope{params: p.scope.params, env: p.scope.env, cell: cell, axes: axes}
}

// firstCell is the first point of the axes named.
func (p *parser) firstCell(axes map[string]bool) stage.Cell {
	var c stage.Cell
	for _, a := range p.axes {
		if axes[a.name] {
			c = append(c, stage.AxisValue{Axis: a.name, Value: a.values[0]})
		}
	}
	return c
}

func (p *parser) resolveEndpoint(e *endpoint, cell stage.Cell) *resolvedEndpoint {
	key := cellName(project(cell, e.axes))
	if r, ok := e.resolved[key]; ok {
		return r
	}
	config := substitute(e.raw, p.full(cell)).(map[string]any)
	if config["base_url"] == nil && config["sim"] == nil {
		config["sim"] = map[string]any{}
	}
	p.check(endpointSchema, e.pointer, config)
	base, real := config["base_url"].(string)
	if real {
		p.checkServer(e, config, base)
	} else {
		if config["model"] == nil {
			config["model"] = simModel
		}
		if sim, ok := config["sim"].(map[string]any); ok {
			p.checkFaults(e, sim)
			if sim["seed"] == nil {
				sim["seed"] = json.Number(fmt.Sprint(p.plan.Seed))
			}
		}
	}
	p.checkSecrets(e, config)
	config["name"] = e.name
	r := &resolvedEndpoint{Endpoint: Endpoint{Name: e.name, BaseURL: base, Config: encode(config)}, config: config}
	e.resolved[key] = r
	return r
}

// checkFaults reports shares that add up to more than every request; those of
// single requests, outcome@index, do not count.
func (p *parser) checkFaults(e *endpoint, sim map[string]any) {
	faults, _ := sim["faults"].(map[string]any)
	sum := new(big.Rat)
	for outcome, share := range faults {
		n, _ := share.(json.Number)
		if r, ok := new(big.Rat).SetString(n.String()); ok && !strings.Contains(outcome, "@") {
			sum.Add(sum, r)
		}
	}
	if sum.Cmp(big.NewRat(1, 1)) > 0 {
		p.problem(e.pointer+"/sim/faults", "the shares add up to "+strings.TrimRight(sum.FloatString(9), "0"), "1 is every request")
	}
}

// checkServer checks what only a real server needs.
func (p *parser) checkServer(e *endpoint, config map[string]any, base string) {
	if config["model"] == nil {
		p.problem(e.pointer, `missing key "model"`, "a server is asked for a model by name")
	}
	if config["sim"] != nil {
		// One plan may serve both: its base_url is then a parameter, and the
		// embedded engine's settings wait until it is null.
		if text, _ := e.raw["base_url"].(string); !strings.Contains(text, "${") {
			p.keyProblem(e.pointer+"/sim", "the embedded engine is used only with base_url null", "leave sim out, or base_url")
		}
		config["sim"] = nil
	}
	u, err := url.Parse(base)
	switch {
	case base == "": // the schema has said so
	case err != nil: // its text may hold a password
		p.problem(e.pointer+"/base_url", "is no URL", `for example "http://127.0.0.1:8000/v1"`)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		p.problem(e.pointer+"/base_url", "must be an http or https URL with a host", `for example "http://127.0.0.1:8000/v1"`)
	case u.User != nil:
		p.problem(e.pointer+"/base_url", "must not hold a user or password", "a plan only names secrets: api_key_env, api_key_file, headers_env")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		p.problem(e.pointer+"/base_url", "must not have a query or fragment: paths are appended to it", "")
	}
}

// headers that carry secrets wherever they are used.
var secretHeaders = []string{"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"}

// checkSecrets keeps values of secrets out of the plan and names that the plan
// shows apart from those that it hides.
func (p *parser) checkSecrets(e *endpoint, config map[string]any) {
	shown := func(name any) bool { _, ok := p.scope.env[fmt.Sprint(name)]; return ok }
	tell := func(pointer string, name any) {
		p.problem(pointer, fmt.Sprintf("%v is in the plan's env list, whose values the resolved plan shows", name), "take it out of env")
	}
	if name := config["api_key_env"]; name != nil && shown(name) {
		tell(e.pointer+"/api_key_env", name)
	}
	p.checkTwice(e, config)
	p.checkFraming(e, config)
	secret, _ := config["headers_env"].(map[string]any)
	for _, header := range keys(secret) {
		if shown(secret[header]) {
			tell(schemas.Join(e.pointer, "headers_env", header), secret[header])
		}
	}
	plain, _ := config["headers"].(map[string]any)
	for _, header := range keys(plain) {
		if slices.Contains(secretHeaders, strings.ToLower(header)) {
			p.keyProblem(schemas.Join(e.pointer, "headers", header), "a secret does not belong in a plan", "name its variable in headers_env, or use api_key_env")
		}
	}
	if proxy, ok := config["proxy"].(string); ok {
		if u, err := url.Parse(proxy); err == nil && u.User != nil {
			p.problem(e.pointer+"/proxy", "must not hold a user or password", "a plan only names secrets")
		}
	}
	if metrics, ok := config["metrics"].(string); ok && strings.HasPrefix(metrics, "http") {
		p.checkMetrics(e.pointer+"/metrics", metrics)
	}
	if file, ok := config["api_key_file"].(string); ok {
		p.checkFile(e.pointer+"/api_key_file", file)
	}
	tls, _ := config["tls"].(map[string]any)
	if file, ok := tls["ca_file"].(string); ok {
		p.checkFile(e.pointer+"/tls/ca_file", file)
	}
}

// Headers that frame a request or manage its connection are the client's own.
var clientHeaders = []string{
	"connection", "content-length", "expect", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

func (p *parser) checkFraming(e *endpoint, config map[string]any) {
	for _, key := range []string{"headers", "headers_env"} {
		headers, _ := config[key].(map[string]any)
		for _, header := range keys(headers) {
			if slices.Contains(clientHeaders, strings.ToLower(header)) {
				p.keyProblem(schemas.Join(e.pointer, key, header), "the header is the client's own: it says how a request is framed or what becomes of its connection",
					"leave it out; connections: new closes one after each request")
			}
		}
	}
}

// checkMetrics checks the URL of counters. A server other than base_url's is
// asked without any credential.
func (p *parser) checkMetrics(pointer, metrics string) {
	const example = `for example "http://127.0.0.1:9090/metrics"`
	switch u, err := url.Parse(metrics); {
	case err != nil: // its text may hold a password
		p.problem(pointer, "is no URL", example)
	case u.Hostname() == "":
		p.problem(pointer, "must be an http or https URL with a host", example)
	case u.User != nil:
		p.problem(pointer, "must not hold a user or password", "a plan only names secrets; those of the endpoint are sent where scheme, host and port are base_url's")
	}
}
