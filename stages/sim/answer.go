package sim

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// An answer is what the model says to one request.
type answer struct {
	reasoning []string // tokens
	content   []string // tokens
	asked     int      // of content: those that the prompt asks for word by word, at its beginning
	finish    string   // stop or length
	stopped   string   // the stop string that ended it
}

// A task is all that an answer depends on.
type task struct {
	question question
	prompt   uint64 // name of the prompt: equal prompts get equal answers
	wrong    *rand.Rand
	fault    fault
	limits   limits
}

// Limits are what a request says about the length of its answer.
type limits struct {
	maxTokens int
	minTokens int
	ignoreEOS bool
	stop      []string
	thinking  bool
}

// answer composes the answer to a task.
func (cfg Config) answer(t task) answer {
	var a answer
	room := t.limits.maxTokens
	if t.limits.thinking && cfg.ReasoningTokens > 0 {
		w := &writer{rand: stream(cfg.Seed, "reasoning", t.prompt), words: thinkWords}
		w.write(min(cfg.ReasoningTokens, room))
		a.reasoning = w.tokens
		room -= len(a.reasoning)
	}
	w := &writer{rand: stream(cfg.Seed, "answer", t.prompt), words: plainWords}
	asked := cfg.say(w, t)
	w.write(max(0, min(room, t.limits.minTokens-len(a.reasoning))-len(w.tokens)))
	if t.limits.ignoreEOS {
		w.write(max(0, room-len(w.tokens)))
	}
	a.content, a.stopped = cutAtStop(w.tokens, t.limits.stop)
	a.finish = "stop"
	if len(a.content) > room || t.limits.ignoreEOS && a.stopped == "" {
		a.content, a.finish = a.content[:min(room, len(a.content))], "length"
		a.stopped = ""
	}
	a.asked = min(asked, len(a.content))
	return a
}

// say writes what the model wants to say, without regard to length, and returns
// how many tokens of it are the marker and the code words. A fault of these stands
// where they begin: no cap of one token or more can cut it away.
func (cfg Config) say(w *writer, t task) (asked int) {
	w.addText(t.question.spoken(t.fault))
	asked = len(w.tokens)
	switch {
	case len(t.question.words) > 0:
		w.addText(strings.Join(spokenWords(t), " "))
		asked = len(w.tokens)
	case len(t.question.facts) > 0:
		w.addText(factsJSON(t.question.facts, t.wrong))
	default:
		w.write(naturalLength(w.rand))
	}
	return asked
}

// spoken returns the marker as the answer begins with it.
func (q question) spoken(f fault) string {
	if q.marker == "" || f.Outcome != "canary_failed" {
		return q.marker
	}
	switch f.Variant {
	case "foreign":
		return foreignMarker(q.marker) + " " + q.marker
	case "late":
		return "Well, " + q.marker
	default:
		return ""
	}
}

// foreignMarker returns the marker of another request: the last digit is the next.
func foreignMarker(marker string) string {
	last := len(marker) - 1
	return marker[:last] + string('0'+(marker[last]-'0'+1)%10)
}

func spokenWords(t task) []string {
	words := t.question.words
	if t.fault.Outcome != "length_mismatch" {
		return words
	}
	switch {
	case t.fault.Variant == "long":
		return slices.Concat([]string{"here", "they", "are"}, words)
	case len(words) == 1:
		return []string{"none"} // nothing at all would be another outcome
	}
	return words[:len(words)-1]
}

// factsJSON writes the object that was asked for. With wrong, one value of it
// is not what the prompt states.
func factsJSON(facts []fact, wrong *rand.Rand) string {
	bad := -1
	if wrong != nil {
		bad = wrong.IntN(len(facts))
	}
	var b strings.Builder
	for i, f := range facts {
		b.WriteString(map[bool]string{true: "{", false: ", "}[i == 0])
		value := f.value
		if i == bad {
			value = mistake(value)
		}
		b.WriteString(quote(f.key) + ": " + value)
	}
	return b.String() + "}"
}

// mistake returns a wrong value in place of a right one.
func mistake(value string) string {
	if n, err := strconv.ParseInt(value, 10, 53); err == nil {
		return strconv.FormatInt(n+1, 10)
	}
	if plainNumber.MatchString(value) {
		return value + "1"
	}
	return `"not stated"`
}

// naturalLength draws the length of an invented answer: 16 to 176 tokens,
// around 96 in the mean.
func naturalLength(r *rand.Rand) int {
	return 16 + r.IntN(41) + r.IntN(41) + r.IntN(41) + r.IntN(41)
}

// addText appends the tokens of a text, parted from what stands before it by a space.
func (w *writer) addText(text string) {
	if text == "" {
		return
	}
	if len(w.tokens) > 0 {
		text = " " + text
	}
	for t := range Tokens(text) {
		w.tokens = append(w.tokens, t)
	}
	w.sentence = 0
}

// cutAtStop ends the answer before the first of the stop strings, which it returns.
func cutAtStop(tokens, stop []string) (kept []string, found string) {
	if len(stop) == 0 {
		return tokens, ""
	}
	text := strings.Join(tokens, "")
	end := len(text)
	for _, s := range stop {
		if i := strings.Index(text, s); i >= 0 && i < end {
			end, found = i, s
		}
	}
	if found == "" {
		return tokens, ""
	}
	return slices.Collect(Tokens(text[:end])), found
}
