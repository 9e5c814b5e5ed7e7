package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"

	"github.com/spf13/cobra"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// version is what this build calls itself; a release sets it by -ldflags -X.
var version = "0.1.0-dev"

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print which build this is", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			tool, err := toolIdentity()
			if err != nil {
				return err
			}
			if a.json {
				return a.document(tool)
			}
			fmt.Fprintf(a.stdout, "anvil %s\n", tool.Version)
			if tool.Revision != nil {
				fmt.Fprintf(a.stdout, "revision %s, dirty %v\n", *tool.Revision, *tool.Dirty)
			} else {
				fmt.Fprintf(a.stdout, "revision unknown: %s\n", *tool.RevisionReason)
			}
			fmt.Fprintf(a.stdout, "binary sha256 %s\n", tool.BinarySHA256)
			return nil
		},
	}
}

// toolIdentity says which program writes the evidence: what the build recorded
// of its revision, and the digest of the very file that runs.
var toolIdentity = sync.OnceValues(func() (stage.Tool, error) {
	t := stage.Tool{Version: version}
	path, err := os.Executable()
	if err != nil {
		return t, fmt.Errorf("find the running binary: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return t, fmt.Errorf("read the running binary: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	// os.File's own way to a writer takes 32 KiB at a time; what fits the second cache is read fastest.
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, make([]byte, 64<<10)); err != nil {
		return t, fmt.Errorf("hash the running binary: %w", err)
	}
	t.BinarySHA256 = digest.Digest(h.Sum(nil))
	setRevision(&t)
	return t, nil
})

func setRevision(t *stage.Tool) {
	info, ok := debug.ReadBuildInfo()
	settings := map[string]string{}
	if ok {
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	if rev, ok := settings["vcs.revision"]; ok {
		dirty := settings["vcs.modified"] == "true"
		t.Revision, t.Dirty = &rev, &dirty
		return
	}
	reason := "the build recorded no revision, as under `go run` or with -buildvcs=false; the binary's SHA-256 identifies it"
	t.RevisionReason = &reason
}
