package stage

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

func env(vars map[string]string) *Secrets {
	return &Secrets{Env: func(name string) (string, bool) { v, ok := vars[name]; return v, ok }}
}

func TestRedactHidesEverySpelling(t *testing.T) {
	const key = `sk-a/b+"c" é`
	s := env(map[string]string{"KEY": key, "EMPTY": ""})
	if got, ok := s.Lookup("KEY"); !ok || got != key {
		t.Fatalf("Lookup = %q, %v", got, ok)
	}
	for _, name := range []string{"EMPTY", "UNSET"} {
		if _, ok := s.Lookup(name); ok {
			t.Errorf("%s counts as a secret", name)
		}
	}
	for _, text := range []string{
		key, "Bearer " + key, `{"error": "bad key sk-a/b+\"c\" é"}`, "?key=sk-a%2Fb%2B%22c%22+%C3%A9",
		"Basic " + base64.StdEncoding.EncodeToString([]byte(key)), key + key,
	} {
		got := s.Redact(text)
		if strings.Contains(got, "sk-a") || strings.Contains(got, base64.StdEncoding.EncodeToString([]byte(key))) {
			t.Errorf("Redact(%q) = %q", text, got)
		}
		if len(got) != len(text) {
			t.Errorf("Redact changed the length of %q to %d", text, len(got))
		}
		b := []byte(text)
		s.RedactBytes(b)
		if string(b) != got {
			t.Errorf("RedactBytes gives %q, Redact %q", b, got)
		}
	}
	if got := s.Redact("nothing here"); got != "nothing here" {
		t.Errorf("an innocent text became %q", got)
	}
	if got, want := s.Longest(), len(base64.StdEncoding.EncodeToString([]byte(key))); got < want {
		t.Errorf("Longest = %d, want at least %d", got, want)
	}
}

func TestNoSecretsAreNoCrash(t *testing.T) {
	var s *Secrets
	if _, ok := s.Lookup("X"); ok || s.Redact("x") != "x" || s.Longest() != 0 {
		t.Error("a nil Secrets knows secrets")
	}
	s.RedactBytes([]byte("x"))
}

// A local server's dummy key would be found in every document.
func TestAValueTooShortToProtectIsSaidOnceAndNotHidden(t *testing.T) {
	env := map[string]string{"DUMMY": "token", "KEY": "sk-test", "BLANK": " ok\n"}
	var told []string
	s := &Secrets{
		Env:      func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		TooShort: func(name string) { told = append(told, name) },
	}
	for _, name := range []string{"DUMMY", "KEY", "BLANK", "DUMMY"} {
		if got, ok := s.Lookup(name); !ok || got != env[name] {
			t.Errorf("%s: got %q, %v", name, got, ok)
		}
	}
	if got, want := s.Redact(`{"token": "ok, sk-test"}`), `{"token": "ok, *******"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !slices.Equal(told, []string{"DUMMY", "BLANK"}) {
		t.Errorf("told of %v", told)
	}
}
