package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"anvil/pipeline/event"
)

// openTerminal opens a pseudo-terminal of 80 columns: what is written to tty is
// read from the other side.
func openTerminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return master, tty
}

var control = regexp.MustCompile(`\x1b\[([0-9]*)([A-Z])`)

// screen is what a person sees after the bytes: cursor up and erase to the end
// are all that the bars use; anything else is an error.
func screen(t *testing.T, out string) []string {
	t.Helper()
	lines := []string{""}
	for out != "" {
		loc := control.FindStringSubmatchIndex(out)
		text := out
		if loc != nil {
			text = out[:loc[0]]
		}
		for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
			switch r {
			case '\n':
				lines = append(lines, "")
			case '\x1b':
				t.Fatalf("a control sequence that no bar needs: %q", out)
			default:
				lines[len(lines)-1] += string(r)
			}
		}
		if loc == nil {
			break
		}
		switch out[loc[4]:loc[5]] {
		case "A":
			n, err := strconv.Atoi(out[loc[2]:loc[3]])
			if err != nil {
				n = 1
			}
			lines = append(lines[:max(0, len(lines)-1-n)], "")
		case "J":
			lines[len(lines)-1] = ""
		}
		out = out[loc[1]:]
	}
	return lines
}

// show renders the events on a terminal and returns what stays on its screen.
func show(t *testing.T, events ...event.Event) []string {
	t.Helper()
	master, tty := openTerminal(t)
	l := newLiveBars(tty)
	for _, e := range events {
		l.Emit(e)
	}
	l.Close()
	fmt.Fprint(tty, "END")

	var out strings.Builder
	_ = master.SetReadDeadline(time.Now().Add(10 * time.Second))
	for buf := make([]byte, 4096); !strings.HasSuffix(out.String(), "END"); {
		n, err := master.Read(buf)
		if err != nil {
			t.Fatalf("read the terminal: %v after %q", err, out.String())
		}
		out.Write(buf[:n])
	}
	return screen(t, out.String())
}

func TestBarsLeaveACleanTerminal(t *testing.T) {
	progress := func(stage string, done int64) event.Event {
		return event.Event{Event: event.StageProgress, Stage: stage, Done: done, Total: 9, Unit: "requests"}
	}
	for name, tt := range map[string]struct {
		events []event.Event
		want   []string
	}{
		"bars come and go": {
			[]event.Event{
				{Event: event.RunStarted, Run: "glm-4k-x"},
				progress("measure", 1), progress("measure", 2),
				{Event: event.StageFinished, Stage: "weights", Status: "ok"},
				{Event: event.StageFinished, Stage: "measure", Status: "aborted"},
				progress("left open", 1),
				{Event: event.RunWarning, Text: "the last line"},
			},
			[]string{"run glm-4k-x", "  weights      ok", "  measure      aborted", "the last line", "END"},
		},
		"lines alone": {
			[]event.Event{{Event: event.RunStarted, Run: "glm-4k-x"}, {Event: event.RunWarning, Text: "the last line"}},
			[]string{"run glm-4k-x", "the last line", "END"},
		},
		"nothing": {nil, []string{"END"}},
	} {
		if got := show(t, tt.events...); strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s: on the screen stays %q, want %q", name, got, tt.want)
		}
	}
}
