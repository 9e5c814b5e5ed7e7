package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/prov"
)

// writeProvenanceTree prints the final record and, below it, everything that it
// stands on: each artifact with schema, digest and size, and the attempt that
// made it. What was unfolded above is named again and not unfolded again.
func writeProvenanceTree(w io.Writer, doc *prov.Document) {
	fmt.Fprintf(w, "run   %s %s\n", line(doc.Run), doc.Status)
	if doc.Base != nil {
		fmt.Fprintf(w, "base  %s\n", line(*doc.Base))
	}
	fmt.Fprintf(w, "plan  %s (%s) sha256 %s\n", line(doc.Plan.Name), line(doc.Plan.Path), doc.Plan.SHA256)
	if doc.Tool != nil {
		fmt.Fprintf(w, "tool  anvil %s, binary sha256 %s\n", line(doc.Tool.Version), doc.Tool.BinarySHA256)
	}
	fmt.Fprintln(w)
	for _, r := range slices.Concat(doc.Tree(), unread(doc)) {
		writeTreeRow(w, doc.Run, r)
	}
	for _, s := range doc.Stages {
		if s.Result == nil {
			fmt.Fprintf(w, "%s (%s): %s\n", line(s.Stage), line(s.Kind), s.Status)
		}
	}
}

// unread are the rows of what the run took in as it is: artifacts with the very
// bytes of a leaf, which the tree takes for the leaf alone.
func unread(doc *prov.Document) []prov.Row {
	shown := map[digest.Digest]bool{}
	for _, r := range doc.Tree() {
		shown[r.SHA256] = true
	}
	var rows []prov.Row
	for _, s := range doc.Stages {
		if s.Result == nil || s.Upstream {
			continue
		}
		for _, o := range s.Result.Outputs {
			if shown[o.SHA256] {
				continue
			}
			rows = append(rows, prov.Row{Name: o.Name, Ref: o.Ref, Stage: s.Stage, Kind: s.Kind, Run: s.Result.Run, How: s.How})
			for _, in := range s.Result.Inputs {
				rows = append(rows, prov.Row{Depth: 1, Name: in.Name, Ref: in.Ref})
			}
		}
	}
	return rows
}

func writeTreeRow(w io.Writer, run string, r prov.Row) {
	indent := strings.Repeat("  ", r.Depth)
	made := "leaf file"
	if r.Stage != "" {
		how := "upstream"
		if r.How != nil {
			how = strings.ReplaceAll(string(*r.How), "_", " ")
		}
		made = fmt.Sprintf("%s by %s", how, r.Stage)
		if r.Run != run {
			made += " in " + r.Run
		}
	}
	again := ""
	if r.Seen {
		again = ", see above"
	}
	fmt.Fprintf(w, "%s%s  %s, %s, %s%s\n%s  sha256 %s\n", indent, line(r.Name), line(string(r.Schema)), size(r.Size), line(made), again, indent, r.SHA256)
}
