package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	asked "anvil/stages/internal/prompt"
)

// checks says, for each fault that a stream can meet, whether its answer is
// the one that the fault promises.
func streamFaultChecks() map[string]func(*reply) bool {
	ordered := func(r *reply) bool { return r.err == nil && r.status == 200 }
	partial := func(r *reply) bool { return r.content != "" && r.finish == "" }
	hasError := func(r *reply) bool { return strings.Contains(r.body, `data: {"error":{"message":`) }
	status := func(want int, part string) func(*reply) bool {
		return func(r *reply) bool { return r.status == want && strings.Contains(r.body, part) }
	}
	retry := func(want int) func(*reply) bool {
		return func(r *reply) bool {
			return r.status == want && r.header.Get("Retry-After") != "" && strings.Contains(r.body, `"code":`)
		}
	}
	cutOff := func(r *reply) bool { return errors.Is(r.err, context.DeadlineExceeded) && r.finish == "" && !r.done }
	pings := func(r *reply) bool { return strings.Count(r.body, ": ping\n\n") > 10 }
	return map[string]func(*reply) bool{
		"refused_load.503":      retry(503),
		"refused_load.429":      retry(429),
		"refused_load.529":      retry(529),
		"http_error.500":        status(500, `"code":500`),
		"http_error.400":        status(400, `"code":400`),
		"http_error.502_html":   status(502, "<!doctype html>"),
		"http_error.401_string": status(401, `{"error":"Unauthorized"}`),
		"http_error.redirect":   func(r *reply) bool { return r.status == 307 && r.header.Get("Location") != "" },
		"in_band_error.object":  func(r *reply) bool { return ordered(r) && partial(r) && hasError(r) && r.done },
		"in_band_error.string": func(r *reply) bool {
			return partial(r) && strings.Contains(r.body, `{"error":"injected fault"}`) && r.done
		},
		"in_band_error.event": func(r *reply) bool {
			return partial(r) && strings.Contains(r.body, "\nevent: error\ndata: {") && !r.done
		},
		"in_band_error.first":     func(r *reply) bool { return r.content == "" && strings.HasPrefix(r.body, `data: {"error":{`) && r.done },
		"in_band_error.finish":    func(r *reply) bool { return r.content != "" && r.finish == "error" && r.done },
		"in_band_error.after_end": func(r *reply) bool { return r.finish == "stop" && hasError(r) && r.done },
		"malformed.json":          func(r *reply) bool { return r.finish == "stop" && len(r.chunks) == len(r.events)-2 && r.done },
		"malformed.half":          func(r *reply) bool { return r.finish == "stop" && len(r.chunks) == len(r.events)-2 && r.done },
		"malformed.html":          status(200, "<!doctype html>"),
		"malformed.body":          status(200, `"object":"chat.completion",`),
		"cut.eof":                 func(r *reply) bool { return ordered(r) && partial(r) && !r.done },
		"cut.done":                func(r *reply) bool { return ordered(r) && partial(r) && r.done },
		"cut.chunk":               func(r *reply) bool { return r.err != nil && partial(r) && !r.done },
		"stalled_first.silent":    func(r *reply) bool { return cutOff(r) && r.body == "" },
		"stalled_first.comments":  func(r *reply) bool { return cutOff(r) && len(r.events) == 0 && pings(r) },
		"stalled_mid.silent":      func(r *reply) bool { return cutOff(r) && partial(r) && !pings(r) },
		"stalled_mid.comments":    func(r *reply) bool { return cutOff(r) && partial(r) && pings(r) },
		"total_timeout.drip":      func(r *reply) bool { return cutOff(r) && len(r.events) > 500 && maxGap(r) <= dripEvery },
		"empty.stop":              func(r *reply) bool { return r.content == "" && r.finish == "stop" && r.done && r.usage.Completion == 0 },
		"empty.blanks":            func(r *reply) bool { return r.content == "" && r.finish == "stop" && r.done && len(r.events) > 5 },
		"truncated.half":          func(r *reply) bool { return r.content != "" && r.finish == "length" && r.done },
		"canary_failed.missing":   func(r *reply) bool { return !strings.Contains(r.content, "ANVIL") && r.finish == "stop" },
		"canary_failed.foreign":   func(r *reply) bool { return strings.Count(r.content, "ANVIL_REQ") == 2 },
		"canary_failed.late":      func(r *reply) bool { return strings.Index(r.content, "ANVIL_REQ") > 0 },
		"length_mismatch.short": func(r *reply) bool {
			return r.content == "ANVIL_REQ_1_00001 w00001 w00002 w00003 w00004 w00005 w00006 w00007"
		},
		"length_mismatch.long": func(r *reply) bool {
			return strings.HasPrefix(r.content, "ANVIL_REQ_1_00001 here they are w00001 ") && strings.HasSuffix(r.content, " w00008")
		},
	}
}

func maxGap(r *reply) (gap time.Duration) {
	for i := 1; i < len(r.arrivals); i++ {
		gap = max(gap, r.arrivals[i].Sub(r.arrivals[i-1]))
	}
	return gap
}

const faultMarker = "ANVIL_REQ_1_00001"

const faultPrompt = "Begin the answer with " + faultMarker + ".\n\nThen write exactly 8 numbered code words: w00001 w00002 w00003 w00004 w00005 w00006 w00007 w00008"

func TestEachFaultDoesWhatItsNameSays(t *testing.T) {
	checks := streamFaultChecks()
	for outcome, variants := range faultVariants() {
		for _, variant := range variants {
			name := outcome + "." + variant
			t.Run(name, func(t *testing.T) {
				if outcome == "transport" || name == "stalled_first.no_headers" {
					checkNoResponse(t, name)
					return
				}
				good, ok := checks[name]
				if !ok {
					t.Fatal("no check is written for this fault")
				}
				cfg := DefaultConfig()
				cfg.Faults = map[string]float64{name + "@1": 1}
				inBubble(t, cfg, func(t *testing.T, c *client) {
					t.Helper()
					sound := c.mustChat(t, faultPrompt, nil)
					if !sound.done || sound.finish != "stop" || sound.content != strings.ReplaceAll(faultPrompt[strings.LastIndex(faultPrompt, ": ")+2:], "w00001", "ANVIL_REQ_1_00001 w00001") {
						t.Fatalf("request 0 is not sound: %s", sound.body)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					r, err := c.chat(ctx, faultPrompt, nil)
					if err != nil {
						t.Fatal(err)
					}
					if !good(r) {
						t.Errorf("status %d, error %v, finish %q:\n%.2000s", r.status, r.err, r.finish, r.body)
					}
					if after := c.mustChat(t, faultPrompt, nil); after.content != sound.content || after.finish != "stop" {
						t.Errorf("request 2 is not sound: %s", after.body)
					}
					synctest.Wait()
					if running, waiting := c.gauges(t); running != 0 || waiting != 0 {
						t.Errorf("%d running, %d waiting when all is over", running, waiting)
					}
				})
			})
		}
	}
	for name := range checks {
		if _, _, err := parseFault(name); err != nil {
			t.Errorf("a check for no fault: %v", err)
		}
	}
}

func checkNoResponse(t *testing.T, name string) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Faults = map[string]float64{name: 1}
	inBubble(t, cfg, func(t *testing.T, c *client) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := c.chat(ctx, faultPrompt, nil)
		if timedOut := errors.Is(err, context.DeadlineExceeded); err == nil || timedOut != strings.HasPrefix(name, "stalled") {
			t.Errorf("got %v", err)
		}
	})
}

func TestResetArrivesAsOne(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Faults = map[string]float64{"transport.reset": 1}
	c := socketClient(t, cfg)
	if _, err := c.chat(t.Context(), "x", nil); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset connection", err)
	}
}

func TestFaultsOfAnswersThatAreNotStreamed(t *testing.T) {
	for name, good := range map[string]func(*reply, error) bool{
		"in_band_error":  func(r *reply, _ error) bool { return r.status == 200 && strings.HasPrefix(r.body, `{"error":`) },
		"malformed.body": func(r *reply, _ error) bool { return r.status == 200 && len(r.chunks) == 0 && r.body != "" },
		"malformed.json": func(r *reply, _ error) bool { return r.status == 200 && len(r.chunks) == 0 && r.body != "" },
		"cut":            func(r *reply, _ error) bool { return r.status == 200 && r.err != nil },
		"empty":          func(r *reply, _ error) bool { return r.content == "" && r.finish == "stop" },
		"truncated":      func(r *reply, _ error) bool { return r.content != "" && r.finish == "length" },
		"stalled_first":  func(_ *reply, err error) bool { return errors.Is(err, context.DeadlineExceeded) },
		"stalled_mid":    func(_ *reply, err error) bool { return errors.Is(err, context.DeadlineExceeded) },
		"total_timeout":  func(_ *reply, err error) bool { return errors.Is(err, context.DeadlineExceeded) },
		"refused_load":   func(r *reply, _ error) bool { return r.status == 503 },
		"http_error":     func(r *reply, _ error) bool { return r.status == 500 },
		"transport":      func(_ *reply, err error) bool { return err != nil && !errors.Is(err, context.DeadlineExceeded) },
		"canary_failed.missing": func(r *reply, _ error) bool {
			return r.content != "" && !asked.CheckCanary(faultMarker, r.content, true).Passed
		},
		"canary_failed.foreign": func(r *reply, _ error) bool {
			return r.content != "" && !asked.CheckCanary(faultMarker, r.content, true).Passed
		},
		"canary_failed.late": func(r *reply, _ error) bool {
			return r.content != "" && !asked.CheckCanary(faultMarker, r.content, true).Passed
		},
		"length_mismatch.short": func(r *reply, _ error) bool {
			return r.content != "" && !asked.CheckWords(8, true, faultMarker, r.content, true).Passed
		},
		"length_mismatch.long": func(r *reply, _ error) bool {
			return r.content != "" && !asked.CheckWords(8, true, faultMarker, r.content, true).Passed
		},
	} {
		for _, cap := range []int{1, 2, 16, 256} {
			t.Run(fmt.Sprintf("%s in %d tokens", name, cap), func(t *testing.T) {
				cfg := DefaultConfig()
				cfg.Faults = map[string]float64{name: 1}
				inBubble(t, cfg, func(t *testing.T, c *client) {
					t.Helper()
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					if r, err := c.chat(ctx, faultPrompt, map[string]any{"stream": false, "max_tokens": cap}); !good(r, err) {
						t.Errorf("got %+v, %v", r, err)
					}
				})
			})
		}
	}
}

func TestFaultsMeetTheirShares(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Faults = map[string]float64{"refused_load": 0.5, "cut.done": 0.1, "http_error": 0.05, "empty@7": 1, "truncated.half@0": 1}
	for seed := range int64(20) {
		cfg.Seed = seed
		p, err := newFaultPlan(cfg)
		if err != nil {
			t.Fatal(err)
		}
		const n = 1000
		count := map[string]int{}
		for i := range n {
			f := p.of(i)
			count[f.Outcome]++
			if i == 7 && f != (fault{"empty", "stop"}) || i == 0 && f != (fault{"truncated", "half"}) {
				t.Fatalf("request %d gets %v", i, f)
			}
			if i == 15 && count["refused_load"] < 6 {
				t.Errorf("seed %d: %d of the first 16 are refused, want about 8", seed, count["refused_load"])
			}
			if f.Outcome == "cut" && f.Variant != "done" {
				t.Fatalf("cut.%s, want the variant that was named", f.Variant)
			}
		}
		for outcome, share := range map[string]float64{"refused_load": 0.5, "cut": 0.1, "http_error": 0.05, "": 0.35} {
			if got := float64(count[outcome]) / n; math.Abs(got-share) > 0.006 {
				t.Errorf("seed %d: %q is %v of the requests, want %v", seed, outcome, got, share)
			}
		}
	}
}

func TestVariantsTakeTurns(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Faults = map[string]float64{"cut": 1}
	p, err := newFaultPlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range 4 {
		got = append(got, p.of(i).Variant)
	}
	if want := []string{"eof", "done", "chunk", "eof"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestBadConfigurationsAreRefusedWithEveryReason(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"prefill_tok_s: want":      func(c *Config) { c.PrefillTokS = 0 },
		"decode_tok_s: want":       func(c *Config) { c.DecodeTokS = math.Inf(1) },
		"slots: want 1":            func(c *Config) { c.Slots = 0 },
		"queue: want 0":            func(c *Config) { c.Queue = -1 },
		"reasoning_tokens: want":   func(c *Config) { c.ReasoningTokens = -1 },
		"tokens_per_event: want":   func(c *Config) { c.TokensPerEvent = 0 },
		"jitter: want a share":     func(c *Config) { c.Jitter = 1.1 },
		"accuracy: want a share":   func(c *Config) { c.Accuracy = math.NaN() },
		`"ctu": want one of`:       func(c *Config) { c.Faults = map[string]float64{"ctu": 0.1} },
		"V one of eof":             func(c *Config) { c.Faults = map[string]float64{"cut.eoff": 0.1} },
		"no server can provoke":    func(c *Config) { c.Faults = map[string]float64{"client_shed": 0.1} },
		"want a share from 0 to 1": func(c *Config) { c.Faults = map[string]float64{"cut": 1.5} },
		"add up to 1.2":            func(c *Config) { c.Faults = map[string]float64{"cut": 0.6, "empty": 0.6} },
		"has the share 1":          func(c *Config) { c.Faults = map[string]float64{"cut@3": 0.5} },
		"number of a request":      func(c *Config) { c.Faults = map[string]float64{"cut@03": 1} },
		"already gets cut":         func(c *Config) { c.Faults = map[string]float64{"cut@3": 1, "empty@3": 1} },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
		if _, err := New(cfg); err == nil {
			t.Errorf("an engine was made where %q was wrong", want)
		}
	}
	all := Config{Jitter: 2, Faults: map[string]float64{"a": 1, "b": 1}}
	if n := strings.Count(fmt.Sprint(all.Check()), "\n"); n != 6 {
		t.Errorf("%d lines, want one for each of 7 faults: %v", n+1, all.Check())
	}
}

func TestOutcomesCoverTheTable(t *testing.T) {
	want := strings.Fields("canary_failed cut empty http_error in_band_error length_mismatch malformed refused_load stalled_first stalled_mid total_timeout transport truncated")
	if got := slices.Sorted(maps.Keys(faultVariants())); !slices.Equal(got, want) {
		t.Errorf("got %v, want every outcome that a server can provoke: %v", got, want)
	}
}
