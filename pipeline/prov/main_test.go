package prov_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lowers the count of random checks: each writes a run to disk. A
// count on the command line wins: -rapid.checks=1000.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "12"); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(m.Run()) //nolint:forbidigo // the main function of the tests
}
