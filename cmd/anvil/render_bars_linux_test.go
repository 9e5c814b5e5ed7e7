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

func TestBarsLeaveACleanTerminal(t *testing.T) {
	master, tty := openTerminal(t)
	l := newLiveBars(tty)
	l.Emit(event.Event{Event: event.RunStarted, Run: "glm-4k-x"})
	for i := range 3 {
		l.Emit(event.Event{Event: event.StageProgress, Stage: "measure", Done: int64(i), Total: 9, Unit: "requests"})
	}
	l.Emit(event.Event{Event: event.StageFinished, Stage: "weights", Status: "ok"})
	l.Emit(event.Event{Event: event.StageFinished, Stage: "measure", Status: "aborted"})
	l.Emit(event.Event{Event: event.StageProgress, Stage: "left open", Done: 1, Total: 9, Unit: "requests"})
	l.Emit(event.Event{Event: event.RunWarning, Text: "the last line"})
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
	got := screen(t, out.String())
	want := []string{"run glm-4k-x", "  weights      ok", "  measure      aborted", "the last line", "END"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("on the screen stays %q, want %q", got, want)
	}
}
