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

// screen is what a person sees after the bytes. Bars move the cursor up and
// erase from it to the end, and use no other control: anything else is an error.
func screen(t *testing.T, out string) []string {
	t.Helper()
	s := &terminal{lines: [][]rune{nil}}
	for out != "" {
		loc := control.FindStringSubmatchIndex(out)
		text := out
		if loc != nil {
			text = out[:loc[0]]
		}
		for _, r := range text {
			if r == '\x1b' {
				t.Fatalf("a control sequence that no bar needs: %q", out)
			}
			s.put(r)
		}
		if loc == nil {
			break
		}
		s.control(out[loc[4]:loc[5]], out[loc[2]:loc[3]])
		out = out[loc[1]:]
	}
	var lines []string
	for _, l := range s.lines {
		lines = append(lines, string(l))
	}
	return lines
}

// A terminal has a cursor.
type terminal struct {
	lines    [][]rune
	row, col int
}

func (s *terminal) put(r rune) {
	switch r {
	case '\r':
		s.col = 0
	case '\n':
		if s.row++; s.row == len(s.lines) {
			s.lines = append(s.lines, nil)
		}
	default:
		l := s.lines[s.row]
		for len(l) <= s.col {
			l = append(l, ' ')
		}
		l[s.col] = r
		s.lines[s.row] = l
		s.col++
	}
}

func (s *terminal) control(letter, argument string) {
	switch letter {
	case "A":
		n, err := strconv.Atoi(argument)
		if err != nil {
			n = 1
		}
		s.row = max(0, s.row-n)
	case "J":
		s.lines = s.lines[:s.row+1]
		if l := s.lines[s.row]; len(l) > s.col {
			s.lines[s.row] = l[:s.col]
		}
	}
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
