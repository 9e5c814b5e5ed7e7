// Command anvil runs declared experiments against LLM serving endpoints and
// produces evidence that a stranger can check.
//
// This package is the command line only: flags, rendering and exit codes, one
// file a command. What a command does stands in the packages below pipeline and
// stages.
package main

import (
	"io"
	"os"
	"runtime/debug"
	"slices"
)

func main() {
	// Most commands live for a tenth of a second: at the default pace they would
	// collect garbage six times in it.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program but for the process: it returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, getenv: os.LookupEnv}
	root := newRootCommand(a)
	root.SetArgs(args)
	err := root.Execute()
	if err != nil && slices.Contains(args, "--json") {
		a.json = true // flags behind one that is wrong are not read
	}
	return a.report(err)
}
