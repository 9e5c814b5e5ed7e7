package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"anvil/pipeline/plan"
)

func newPlanGraphCommand(a *app) *cobra.Command {
	var sets []string
	var format string
	c := &cobra.Command{
		Use: "graph PLAN", Short: "Draw the stages of a plan and what flows between them", Args: exactly("a plan file"),
		RunE: func(_ *cobra.Command, args []string) error { return a.planGraph(args[0], sets, format) },
	}
	setFlag(c, &sets)
	c.Flags().StringVar(&format, "format", "text", "text, mermaid or dot")
	return c
}

func (a *app) planGraph(file string, sets []string, format string) error {
	p, err := a.readPlan(file, sets, nil)
	if err != nil {
		return planError(err)
	}
	if a.json {
		return a.document(graphDocument(p))
	}
	draw, ok := map[string]func(io.Writer, *plan.Plan){"text": drawText, "mermaid": drawMermaid, "dot": drawDot}[format]
	if !ok {
		return usagef("--format %q: want text, mermaid or dot", format)
	}
	draw(a.stdout, p)
	return nil
}

type graphNode struct {
	ID   string `json:"id"`
	Uses string `json:"uses"`
}

type graphEdge struct {
	From  string   `json:"from"`
	To    string   `json:"to"`
	Ports []string `json:"ports"` // empty for an order without data
}

// graphDocument is `plan graph --json`, anvil.plan-graph/v1.
func graphDocument(p *plan.Plan) any {
	nodes, edges := []graphNode{}, []graphEdge{}
	for _, s := range p.Stages {
		nodes = append(nodes, graphNode{s.ID, s.Kind.Spec().Name})
		for _, n := range s.Needs {
			edges = append(edges, graphEdge{n, s.ID, portsFrom(s, n)})
		}
	}
	return map[string]any{"schema": "anvil.plan-graph/v1", "nodes": nodes, "edges": edges}
}

func portsFrom(s plan.Stage, id string) []string {
	ports := []string{}
	for _, in := range s.Inputs {
		for _, from := range in.From {
			if from.Stage == id {
				ports = append(ports, in.Port)
				break
			}
		}
	}
	return ports
}

func drawText(w io.Writer, p *plan.Plan) {
	for _, s := range p.Stages {
		fmt.Fprintf(w, "%s (%s)\n", line(s.ID), s.Kind.Spec().Name)
		for _, n := range s.Needs {
			fmt.Fprintf(w, "  <- %s %s\n", line(n), suffix("as ", strings.Join(portsFrom(s, n), ", ")))
		}
	}
}

func drawMermaid(w io.Writer, p *plan.Plan) {
	fmt.Fprintln(w, "flowchart LR")
	at := map[string]int{}
	for i, s := range p.Stages {
		at[s.ID] = i
		fmt.Fprintf(w, "  s%d[\"%s<br/>%s\"]\n", i, mermaidText(s.ID), s.Kind.Spec().Name)
	}
	for i, s := range p.Stages {
		for _, n := range s.Needs {
			fmt.Fprintf(w, "  s%d --> s%d\n", at[n], i)
		}
	}
}

// mermaidText keeps a label from ending its own quotes or tags.
func mermaidText(s string) string {
	return strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "#", "&num;").Replace(line(s))
}

func drawDot(w io.Writer, p *plan.Plan) {
	fmt.Fprintln(w, "digraph plan {\n  rankdir=LR;\n  node [shape=box];")
	for _, s := range p.Stages {
		fmt.Fprintf(w, "  %q [label=%q];\n", s.ID, s.ID+"\n"+s.Kind.Spec().Name)
	}
	for _, s := range p.Stages {
		for _, n := range s.Needs {
			fmt.Fprintf(w, "  %q -> %q;\n", n, s.ID)
		}
	}
	fmt.Fprintln(w, "}")
}
