package record

import (
	"errors"
	"strings"
	"testing"
)

// records.md 9.2: of two members of one name nobody knows which is meant.
func TestRowsThatNameAKeyTwiceAreRefused(t *testing.T) {
	attempts := string(plain(t, writeAttempts(t, sampleAttempt(0))))
	grades := written(t)
	for name, c := range map[string]struct {
		read     func(string) error
		src      string
		from, to string
		want     string
	}{
		"attempts header":   {attemptsError, attempts, `"client":`, `"client":"x","client":`, "line 1: header:"},
		"attempt":           {attemptsError, attempts, `"index":0`, `"index":1,"index":0`, "line 2: attempt: column"},
		"attempt outcome":   {attemptsError, attempts, `"outcome":`, `"outcome":"cut","outcome":`, "line 2: attempt: column"},
		"inside an attempt": {attemptsError, attempts, `"usage":{`, `"usage":{"input":1,`, "line 2: attempt: column"},
		"attempts footer":   {attemptsError, attempts, `{"footer":true`, `{"footer":true,"status":"aborted"`, "line 3: footer:"},
		"grades header":     {gradesError, grades, `"reducer":`, `"reducer":"all","reducer":`, "line 1: header:"},
		"grade":             {gradesError, grades, `"verdict":"pass"`, `"verdict":"fail","verdict":"pass"`, "line 2: grade:"},
		"grades footer":     {gradesError, grades, `{"footer":true`, `{"footer":true,"complete":false`, "line 4: footer:"},
	} {
		if err := c.read(c.src); err != nil {
			t.Fatalf("%s: unchanged: %v", name, err)
		}
		if !strings.Contains(c.src, c.from) {
			t.Fatalf("%s: nothing to change in %s", name, c.src)
		}
		err := c.read(strings.Replace(c.src, c.from, c.to, 1))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !strings.Contains(err.Error(), "duplicate") {
			t.Errorf("%s: error %v, want %q and that a key is there twice", name, err, c.want)
		}
	}
}

func attemptsError(src string) error {
	_, _, err := readAttempts([]byte(src))
	return err
}

func gradesError(src string) error {
	_, _, err := readAll(src)
	return err
}

func TestReadersNameALineOnce(t *testing.T) {
	header := strings.SplitAfter(written(t), "\n")[0]
	for name, err := range map[string]error{
		"no attempts": attemptsError(""), "no grades": gradesError(""),
		"no JSON": attemptsError("{\n"), "no grade": gradesError(header + "x\n"),
	} {
		if err == nil || strings.Count(err.Error(), "line") != 1 {
			t.Errorf("%s: %v, want one line named", name, err)
		}
	}
}

func TestGradesCutInALineAreIncomplete(t *testing.T) {
	whole := written(t)
	start := strings.IndexByte(whole, '\n') + 1
	for n := start; n < len(whole)-1; n++ {
		if err := gradesError(whole[:n]); !errors.Is(err, ErrIncomplete) {
			t.Fatalf("cut at byte %d: %v, want %v", n, err, ErrIncomplete)
		}
	}
}
