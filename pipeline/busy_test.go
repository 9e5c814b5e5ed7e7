package pipeline

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// dvc 4325: a lock that nobody can attribute is removed by hand. Who comes second
// is told the process, its host and how long it has held what he wants.
func TestDVC4325BusyNamesProcessHostAndAge(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look")
	release := l.held(p)
	defer release()
	id := l.runFolders()[0]
	later := newLabIn(t, l.dir)
	now := l.x.now().Add(90 * time.Minute)
	later.x.Now = func() time.Time { return now }
	_, err := later.x.Run(t.Context(), p.Plan, Options{Resume: id})
	if !errors.As(err, new(*BusyError)) {
		t.Fatalf("got %v, want a *BusyError", err)
	}
	host, hostErr := os.Hostname()
	if hostErr != nil {
		t.Fatal(hostErr)
	}
	for _, want := range []string{id, fmt.Sprintf("process %d", os.Getpid()), "on " + host, "for 1h30m0s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error says %q, want %q in it", err, want)
		}
	}
}
