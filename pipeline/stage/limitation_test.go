package stage

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anvil/pipeline/digest"
	"anvil/schemas"
)

func drawLimitation(t *rapid.T) Limitation {
	l := Limitation{
		Code:      rapid.SampledFrom([]string{"plan.stated", "client.lag", "usage.missing"}).Draw(t, "code"),
		Severity:  rapid.SampledFrom([]Severity{Note, Caveat, Void}).Draw(t, "severity"),
		Origin:    rapid.SampledFrom([]string{"measure", "plan", "run"}).Draw(t, "origin"),
		AppliesTo: rapid.SliceOfN(rapid.SampledFrom([]string{"*", "ttft_p50_ms", "e2e_p50_ms"}), 1, 3).Draw(t, "applies"),
		Text:      rapid.SampledFrom([]string{"a", "b", "<é>"}).Draw(t, "text"),
	}
	if rapid.Bool().Draw(t, "has evidence") {
		l.Evidence = &Ref{Schema: "anvil.attempts/v1", SHA256: digest.FromBytes([]byte{rapid.Byte().Draw(t, "evidence")}), Size: 1}
	}
	return l
}

func TestUnionIsAUnionOfSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ls := rapid.SliceOfN(rapid.Custom(drawLimitation), 0, 12).Draw(t, "limitations")
		cut := rapid.IntRange(0, len(ls)).Draw(t, "cut")
		a, b := NewLimitationSet(ls[:cut]...), NewLimitationSet(ls[cut:]...)
		whole := NewLimitationSet(ls...)
		_, want := whole.Canonical()
		if _, got := a.Union(b).Canonical(); got != want {
			t.Fatalf("a ∪ b differs from the set of both")
		}
		if _, got := b.Union(a, b).Canonical(); got != want {
			t.Fatalf("union is not commutative and idempotent")
		}
		for _, l := range ls {
			one := NewLimitationSet(l)
			if missing := one.Missing(whole); len(missing) != 0 {
				t.Fatalf("lost %v", missing)
			}
		}
		for i := range whole {
			less := slices.Delete(slices.Clone(whole), i, i+1)
			if missing := whole.Missing(less); len(missing) != 1 || compareLimitations(missing[0], whole[i]) != 0 {
				t.Fatalf("dropping %v was seen as %v", whole[i], missing)
			}
		}
	})
}

func TestCanonicalFitsItsSchema(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, d := NewLimitationSet(rapid.SliceOf(rapid.Custom(drawLimitation)).Draw(t, "limitations")...).Canonical()
		if digest.FromBytes(raw) != d {
			t.Fatal("the digest is not that of the bytes")
		}
		var doc any
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		if err := schemas.Check("anvil.limitations/v1", doc); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTheEmptySetIsAnEmptyArray(t *testing.T) {
	if raw, _ := LimitationSet(nil).Canonical(); string(raw) != "[]" {
		t.Errorf("got %s", raw)
	}
}

func TestLimitFillsTheTemplate(t *testing.T) {
	l := Limit("load.concurrency-not-reached", "reached", 3, "planned", 8)
	if want := "At most 3 requests overlapped where 8 were planned."; l.Text != want {
		t.Errorf("text %q, want %q", l.Text, want)
	}
	if l.Severity != Caveat || !slices.Equal(l.AppliesTo, []string{Every}) {
		t.Errorf("severity %q, applies to %q", l.Severity, l.AppliesTo)
	}
}

func TestTheTableOfCodesIsSortedAndComplete(t *testing.T) {
	// design.md 7 lists the automatic codes.
	const listed = `weights.unverified weights.no-reference weights.revision-unpinned weights.not-rehashed weights.unbound engine.simulated
usage.missing tokens.disagree tokens.estimated client.same-host client.lag client.bound client.uncalibrated stamps.user-space
load.concurrency-not-reached load.rate-not-reached load.ramp-included load.shed samples.few samples.no-steady-state samples.one-repetition
cache.warm-prompts cache.state-unknown cache.warm-rows cache.reset-not-offered outputs.truncated requests.failed model.name-differs
canary.failed clock.stepped endpoint.foreign-traffic api.unproven tls.unverified proxy.used run.reused-evidence run.retried run.interrupted
run.resumed import.unverified compare.unknown-field plan.stated`
	codes := LimitationCodes()
	if !slices.IsSortedFunc(codes, func(a, b LimitationCode) int { return strings.Compare(a.Code, b.Code) }) {
		t.Error("schemas/limitations.json is not sorted by code")
	}
	for want := range strings.FieldsSeq(listed) {
		if !slices.ContainsFunc(codes, func(c LimitationCode) bool { return c.Code == want }) {
			t.Errorf("schemas/limitations.json lacks %s", want)
		}
	}
	for _, c := range codes {
		if c.Text == "" || c.Severity != Note && c.Severity != Caveat && c.Severity != Void {
			t.Errorf("%s: severity %q, text %q", c.Code, c.Severity, c.Text)
		}
	}
}
