package plan

import (
	"encoding/json"

	"anvil/pipeline/digest"
	"anvil/schemas"
)

// Ids of the documents that the command line prints about a plan.
const (
	ShowSchema  schemas.ID = "anvil.plan-show/v1"
	CheckSchema schemas.ID = "anvil.plan-check/v1"
)

// A Show is what "plan show --json" prints.
type Show struct {
	Schema         schemas.ID      `json:"schema"`
	File           string          `json:"file"`
	Name           string          `json:"name"`
	SHA256         digest.Digest   `json:"sha256"`          // of the plan file
	ResolvedSHA256 digest.Digest   `json:"resolved_sha256"` // of plan.resolved.json
	Stages         []ShowStage     `json:"stages"`          // in plan order
	Plan           json.RawMessage `json:"plan"`            // the resolved plan
}

// A ShowStage is a stage with its ports bound.
type ShowStage struct {
	ID     string              `json:"id"`
	Uses   string              `json:"uses"`
	Needs  []string            `json:"needs"`
	Inputs map[string][]source `json:"inputs"`
}

// Show returns the plan as "plan show --json" prints it.
func (p *Plan) Show() Show {
	s := Show{
		Schema: ShowSchema, File: p.File, Name: p.Name, SHA256: p.Digest, ResolvedSHA256: p.ResolvedDigest,
		Stages: make([]ShowStage, len(p.Stages)), Plan: p.Resolved,
	}
	for i, st := range p.Stages {
		s.Stages[i] = ShowStage{ID: st.ID, Uses: st.Kind.Spec().Name, Needs: list(st.Needs), Inputs: st.inputsByPort()}
	}
	return s
}

// A Check is what "plan check --json" prints.
type Check struct {
	OK       bool           `json:"ok"`
	Problems []CheckProblem `json:"problems"`
}

// A CheckProblem is one problem; Line and Column count from 1. A fault of the
// command line has the flag for its file.
type CheckProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// CheckOf returns what Parse said of a plan as "plan check --json" prints it.
func CheckOf(err error) Check {
	c := Check{OK: err == nil, Problems: []CheckProblem{}}
	for _, p := range Problems(err) {
		c.Problems = append(c.Problems, CheckProblem{
			File: p.Pos.File, Line: p.Pos.Line, Column: p.Pos.Column, Path: p.Path, Message: p.Message, Hint: p.Hint,
		})
	}
	return c
}
