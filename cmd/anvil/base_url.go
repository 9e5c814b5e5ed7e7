package main

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"anvil/pipeline"
	"anvil/pipeline/plan"
)

// hintBaseURL names the likeliest reason why a server knows none of the paths: a
// base_url that stops short of the API. It says so once for each address.
func hintBaseURL(w io.Writer, p *plan.Plan, run *pipeline.Run) {
	said := map[string]bool{}
	for _, s := range p.Stages {
		if s.Endpoint == nil || said[s.Endpoint.BaseURL] || !foundNothing(run, s.ID) {
			continue
		}
		u, err := url.Parse(s.Endpoint.BaseURL)
		if err != nil || u.Host == "" || reachesAPI(u.Path) {
			continue
		}
		said[s.Endpoint.BaseURL] = true
		fmt.Fprintf(w, "  the server knows no such path below %s: base_url goes up to and with /v1\n", line(u.Redacted()))
	}
}

// foundNothing tells whether what the stage says is that the first error was a 404.
func foundNothing(run *pipeline.Run, id string) bool {
	const says = "http_404"
	for _, f := range run.Findings {
		if f.Stage == id && !f.TakenOver && strings.Contains(f.Text, says) {
			return true
		}
	}
	for _, s := range run.Stages {
		if s.ID == id && s.Error != nil && strings.Contains(s.Error.Message, says) {
			return true
		}
	}
	return false
}

func reachesAPI(path string) bool {
	return strings.Contains(strings.TrimSuffix(path, "/")+"/", "/v1/")
}
