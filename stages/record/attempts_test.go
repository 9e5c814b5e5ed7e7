package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"anvil/pipeline/digest"
)

// sampleAttempt is a whole attempt as the contract shows it.
func sampleAttempt(i int) *Attempt {
	request := digest.FromBytes(fmt.Append(nil, "request", i))
	at := int64(i) * 1_000_000
	return &Attempt{
		Index: i, Client: "c0", Item: new("case-03"), PromptSHA256: digest.FromBytes(fmt.Append(nil, "prompt", i)),
		RequestSHA256: &request, PlannedInputTokens: new(4096), MaxOutputTokens: 10240,
		T: Stamps{
			Due: new(at), Start: new(at + 41_000), Connected: new(at + 120_000), Sent: new(at + 121_000), Written: new(at + 130_000),
			Headers: new(at + 9_000_000), FirstByte: new(at + 9_000_000), FirstOutput: new(at + 9_800_000), FirstContent: new(at + 15_000_000),
			LastOutput: new(at + 88_000_000), End: new(at + 88_100_000),
		},
		Arrivals: []int64{at + 9_800_000, 5_200_000, 73_000_000}, ArrivalKinds: "rcc", Coalesced: "000",
		SeenEmpty: []*int64{nil, nil, nil}, ClientDelay: []int64{3000, 2000, 900},
		Outcome: OutcomeOK, HTTPStatus: new(200), FinishReasons: []string{"stop"}, DoneMarker: true, Model: new("glm-5.3-flash"),
		Usage: Usage{Input: new(int64(4070)), Output: new(int64(231)), Reasoning: new(int64(80)), Cached: new(int64(0)), Source: "final"},
		Text:  new("né <b>"), Reasoning: new("…"), TextSHA256: digest.FromBytes([]byte("né <b>")), Choices: 1,
	}
}

func sampleHeader() AttemptsHeader {
	return AttemptsHeader{
		Client: "c0", Endpoint: AttemptsEndpoint{API: "openai-chat", Model: "m"}, Load: map[string]any{"mode": "closed"},
		Planned: new(3), Stamps: "kernel", Clock: AttemptsClock{WallStartAt: "2026-11-30T09:00:00.000000001Z", WallStartUnixNS: 1796029200000000001},
		Seed: 7, Request: AttemptsRequest{Protocol: "capacity-v4-reasoning", MaxTokens: 10240},
	}
}

func writeAttempts(tb testing.TB, attempts ...*Attempt) []byte {
	tb.Helper()
	var out bytes.Buffer
	w, err := NewAttemptsWriter(&out, sampleHeader())
	if err != nil {
		tb.Fatal(err)
	}
	for _, a := range attempts {
		if err := w.Write(a); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close("completed"); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func plain(tb testing.TB, packed []byte) []byte {
	tb.Helper()
	r, err := Decompress(bytes.NewReader(packed))
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// readAttempts returns what was read until the error.
func readAttempts(src []byte) (got []Attempt, footer *AttemptsFooter, err error) {
	r, err := NewAttemptsReader(bytes.NewReader(src))
	if err != nil {
		return nil, nil, err
	}
	for a, err := range r.All() {
		if err != nil {
			return got, r.Footer(), errors.Join(err, r.Close())
		}
		got = append(got, a)
	}
	return got, r.Footer(), r.Close()
}

func TestAttemptsComeBackAsWritten(t *testing.T) {
	packed := writeAttempts(t, sampleAttempt(0), sampleAttempt(2), sampleAttempt(1))
	for name, src := range map[string][]byte{"zstd": packed, "plain": plain(t, packed)} {
		got, footer, err := readAttempts(src)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := []Attempt{*sampleAttempt(0), *sampleAttempt(2), *sampleAttempt(1)}
		for i := range want {
			want[i].Notes, want[i].ToolCalls, want[i].Tries = []string{}, []ToolCall{}, []Try{}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: attempts differ (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(&AttemptsFooter{Footer: true, Lines: 3, Complete: true, Status: "completed"}, footer); d != "" {
			t.Errorf("%s: footer differs (-want +got):\n%s", name, d)
		}
	}
}

func TestAttemptsHaveNoNullLists(t *testing.T) {
	lines := strings.Split(string(plain(t, writeAttempts(t, &Attempt{Outcome: OutcomeNotStarted}))), "\n")
	for _, key := range []string{"arrivals", "seen_empty", "notes", "finish_reasons", "tool_calls", "tries"} {
		if want := `"` + key + `":[]`; !strings.Contains(lines[1], want) {
			t.Errorf("the row lacks %s: %s", want, lines[1])
		}
	}
	if !strings.Contains(lines[1], `"client_delay":null`) {
		t.Errorf("client_delay of user stamps is not null: %s", lines[1])
	}
	if !strings.Contains(lines[0], `"cell":{}`) {
		t.Errorf("the header's cell is not an object: %s", lines[0])
	}
}

func TestAttemptsFramesHoldWholeLines(t *testing.T) {
	long := sampleAttempt(0)
	long.Text = new(strings.Repeat("<é>", 100_000))
	var attempts []*Attempt
	for range 40 {
		attempts = append(attempts, long)
	}
	packed := writeAttempts(t, attempts...)
	if again := writeAttempts(t, attempts...); !bytes.Equal(packed, again) {
		t.Error("the same attempts gave other bytes")
	}
	var sizes []int
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	magic := []byte{0x28, 0xb5, 0x2f, 0xfd}
	for rest := packed; len(rest) > 0; {
		end := bytes.Index(rest[4:], magic)
		frame := rest
		if end >= 0 {
			frame = rest[:end+4]
		}
		rest = rest[len(frame):]
		content, err := dec.DecodeAll(frame, nil)
		if err != nil {
			t.Fatalf("frame %d: %v", len(sizes), err)
		}
		if content[len(content)-1] != '\n' {
			t.Errorf("frame %d ends inside a line", len(sizes))
		}
		before := content[:bytes.LastIndexByte(content[:len(content)-1], '\n')+1]
		if len(before) >= attemptsFrame {
			t.Errorf("frame %d has %d bytes before its last line, want it closed at the first line end after %d", len(sizes), len(before), attemptsFrame)
		}
		sizes = append(sizes, len(content))
	}
	if len(sizes) < 3 || slices.Min(sizes[:len(sizes)-1]) < attemptsFrame {
		t.Errorf("frames hold %v bytes, want several, all but the last of at least %d", sizes, attemptsFrame)
	}
}

func TestAttemptsCutAnywhereAreIncomplete(t *testing.T) {
	packed := writeAttempts(t, sampleAttempt(0), sampleAttempt(1))
	whole := plain(t, packed)
	start := bytes.IndexByte(whole, '\n') + 1
	for n := start; n < len(whole)-1; n++ {
		got, _, err := readAttempts(whole[:n])
		if !errors.Is(err, ErrIncomplete) {
			t.Fatalf("plain, cut at byte %d: %d attempts, error %v, want %v", n, len(got), err, ErrIncomplete)
		}
	}
	for n := 5; n < len(packed); n++ {
		if _, _, err := readAttempts(packed[:n]); err == nil {
			t.Fatalf("zstd, cut at byte %d: no error", n)
		}
	}
	if _, footer, err := readAttempts(whole[:len(whole)-1]); err != nil || footer == nil {
		t.Errorf("without the last line feed: footer %v, %v, want it read", footer, err)
	}
}

func TestAttemptsErrorsNameTheLine(t *testing.T) {
	lines := strings.SplitAfter(string(plain(t, writeAttempts(t, sampleAttempt(0), sampleAttempt(1)))), "\n")
	header, row, footer := lines[0], lines[1], lines[3]
	for name, c := range map[string]struct{ src, want string }{
		"empty":                 {"", "line 1: the file is empty"},
		"no header":             {row, "line 1: header: schema is \"\""},
		"wrong schema":          {`{"schema":"anvil.grades/v1"}` + "\n", `line 1: header: schema is "anvil.grades/v1"`},
		"not JSON":              {"hello\n", "line 1: header:"},
		"broken row":            {header + row + "{\"index\": x}\n" + footer, "line 3: attempt:"},
		"wrong type":            {header + "{\"index\": \"0\"}\n" + footer, "line 2: attempt:"},
		"a line is lost":        {header + row + footer, "line 3: footer: it counts 2 lines, the file has 1"},
		"content after the end": {header + row + row + footer + row, "line 5: content after the footer"},
		"empty line":            {header + "\n" + footer, "line 2: attempt:"},
	} {
		_, _, err := readAttempts([]byte(c.src))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// A line of blanks that compresses to nothing must not be taken in whole.
func TestAttemptsRefuseEndlessLines(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"schema":"anvil.attempts/v1"}`+"\n"), io.LimitReader(blanks{}, MaxLine+1<<20))
	r, err := NewAttemptsReader(endless)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range r.All() {
		if !errors.Is(err, ErrLineTooLong) {
			t.Errorf("error %v, want %v", err, ErrLineTooLong)
		}
	}
}

type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// failAfter fails once n bytes were written.
type failAfter struct{ n int }

func (f *failAfter) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestAttemptsWriterKeepsItsFirstError(t *testing.T) {
	w, err := NewAttemptsWriter(&failAfter{n: 10}, sampleHeader())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close("completed"); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Close: %v, want %v", err, io.ErrShortWrite)
	}
	if err := w.Write(sampleAttempt(0)); err == nil {
		t.Error("Write after an error gave none")
	}
}
