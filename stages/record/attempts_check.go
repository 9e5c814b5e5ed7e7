package record

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"anvil/pipeline/digest"
	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/shape"
)

// eachLine parses line after line and hands every row over, until the footer,
// which it returns, or the end. Memory does not grow with the file.
func (c *checker) eachLine(lines *LineReader, row func(v jsontree.Value, pointer string)) (footer jsontree.Value, rows int64) {
	var doc jsontree.Doc
	for {
		text, err := lines.Next()
		at := fmt.Sprintf("/line/%d", lines.Line())
		if errors.Is(err, io.EOF) {
			c.problem("", "lines.incomplete", jsontree.Value{}, nil, "incomplete: the file ends at line %d without its footer", lines.Line()-1)
			return jsontree.Value{}, rows
		}
		if err != nil {
			c.problem(at, "lines.unreadable", jsontree.Value{}, nil, "%v", err)
			c.report.Unreadable = true
			return jsontree.Value{}, rows
		}
		if err := doc.Parse(text); err != nil {
			if !lines.whole {
				c.problem(at, "lines.incomplete", jsontree.Value{}, nil, "incomplete: line %d stops in the middle, and the footer is missing", lines.Line())
				return jsontree.Value{}, rows
			}
			c.problem(at, faultRule(err), jsontree.Value{}, nil, "line %d: %v", lines.Line(), inLine(err))
			rows++
			continue
		}
		v := doc.Root()
		c.integersFit(v, at)
		if marked, _ := v.Get("footer").Bool(); marked {
			c.afterFooter(lines)
			return v, rows
		}
		rows++
		row(v, at)
	}
}

func faultRule(err error) string {
	if e, ok := errors.AsType[*jsontree.Error](err); ok {
		return string(e.Fault)
	}
	return string(jsontree.Syntax)
}

func (c *checker) afterFooter(lines *LineReader) {
	if _, err := lines.Next(); !errors.Is(err, io.EOF) {
		c.problem(fmt.Sprintf("/line/%d", lines.Line()), "lines.after-footer", jsontree.Value{}, nil, "content after the footer")
	}
}

// checkFooter compares its count with the lines that were read.
func (c *checker) checkFooter(footer jsontree.Value, pointer string, rows int64) {
	if footer.Exists() {
		c.intIs(pointer+"/lines", "lines.count", footer.Get("lines"), rows, "there are %d lines between header and footer", rows)
	}
}

// checkRows checks JSON Lines whose rows have a schema and nothing else: every
// line must conform.
func checkRows(c *checker, header jsontree.Value, lines *LineReader) {
	id := *c.report.Kind
	s, err := shape.Compile(id)
	if err != nil {
		c.problem("", "schema.missing", jsontree.Value{}, nil, "%v", err)
		return
	}
	c.accepts(s, header, "/line/1")
	footer, rows := c.eachLine(lines, func(v jsontree.Value, at string) {
		c.accepts(s, v, at)
	})
	c.checkFooter(footer, fmt.Sprintf("/line/%d", rows+2), rows)
	c.recomputed = jsontree.Obj{{Name: "lines", Value: rows}}
}

// checkGrades checks the rows and what the footer counts.
func checkGrades(c *checker, header jsontree.Value, lines *LineReader) {
	s, err := shape.Compile(GradesSchema)
	if err != nil {
		c.problem("", "schema.missing", jsontree.Value{}, nil, "%v", err)
		return
	}
	c.accepts(s, header, "/line/1")
	tally, last := map[string]int64{}, int64(-1)
	footer, rows := c.eachLine(lines, func(v jsontree.Value, at string) {
		c.accepts(s, v, at)
		tally[v.Get("verdict").Str()]++
		index, ok := v.Get("index").Int()
		c.holds(!ok || index > last, at+"/index", "grades.order", v.Get("index"), nil, "index %d follows %d: want one line a request, in order", index, last)
		last = index
	})
	at := fmt.Sprintf("/line/%d", rows+2)
	c.checkFooter(footer, at, rows)
	counts := jsontree.Obj{}
	for _, verdict := range Verdicts() {
		n := tally[string(verdict)]
		counts = append(counts, jsontree.Member{Name: string(verdict), Value: n})
		c.intIs(at+"/counts/"+string(verdict), "grades.counts", footer.At("counts", string(verdict)), n, "%d lines have this verdict", n)
	}
	c.recomputed = jsontree.Obj{{Name: "lines", Value: rows}, {Name: "counts", Value: counts}}
}

// An attemptsCheck is a file of attempts in the middle of its check.
type attemptsCheck struct {
	*checker
	header   jsontree.Value
	row      *shape.Schema
	stamps   string
	planned  figure
	seen     bitset
	outcomes map[Outcome]int64
}

func checkAttempts(c *checker, header jsontree.Value, lines *LineReader) {
	a := &attemptsCheck{checker: c, stamps: header.Get("stamps").Str(), planned: figureOf(header.Get("planned")), outcomes: map[Outcome]int64{}}
	parts := map[string]*shape.Schema{}
	for _, name := range []string{"header", "row", "footer"} {
		s, err := shape.Fragment(AttemptsSchema, "#/$defs/"+name)
		if err != nil {
			c.problem("", "schema.missing", jsontree.Value{}, nil, "%v", err)
			return
		}
		parts[name] = s
	}
	a.row = parts["row"]
	c.accepts(parts["header"], header, "/line/1")
	a.header = header
	a.checkClock(header.Get("clock"))
	footer, rows := c.eachLine(lines, a.check)
	at := fmt.Sprintf("/line/%d", rows+2)
	if footer.Exists() {
		c.accepts(parts["footer"], footer, at)
	}
	c.checkFooter(footer, at, rows)
	a.close(footer, rows)
}

// close: every planned request has its line.
func (a *attemptsCheck) close(footer jsontree.Value, rows int64) {
	if a.planned.ok && footer.Exists() {
		a.holds(float64(rows) == a.planned.v, "/line/1/planned", "attempts.accounting", a.header.Get("planned"), rows, "%v requests were planned, %d have a line", a.planned.v, rows)
	}
	outcomes := jsontree.Obj{}
	for _, o := range Outcomes() {
		if n := a.outcomes[o]; n > 0 {
			outcomes = append(outcomes, jsontree.Member{Name: string(o), Value: n})
		}
	}
	a.recomputed = jsontree.Obj{{Name: "lines", Value: rows}, {Name: "accounting", Value: jsontree.Obj{{Name: "planned", Value: rows}, {Name: "outcomes", Value: outcomes}}}}
}

func (a *attemptsCheck) check(v jsontree.Value, at string) {
	if !a.accepts(a.row, v, at) {
		return // the rules below need the types
	}
	outcome := Outcome(v.Get("outcome").Str())
	a.outcomes[outcome]++
	a.checkIndex(v, at)
	t := readStamps(v.Get("t"))
	a.checkStamps(v.Get("t"), at+"/t", t)
	a.checkArrivals(v, at, t)
	a.checkOutcome(v, at, outcome, t)
	a.checkUsage(v.Get("usage"), at+"/usage")
	a.checkText(v, at)
	a.checkTries(v, at, outcome)
	a.checkFindings(v, at)
}

// checkFindings: what was found of the marker and the words follows from the
// counts beside it.
func (a *attemptsCheck) checkFindings(v jsontree.Value, at string) {
	if k := v.Get("canary"); k.Is(jsontree.Object) {
		a.checkCanaryPassed(k, at+"/canary")
	}
	if o := v.Get("controlled_output"); o.Is(jsontree.Object) {
		a.checkControlledPassed(o, at+"/controlled_output", o.Get("policy").Str())
	}
}

// checkClock: the two forms of the phase's start are one moment, as far as the
// label goes.
func (a *attemptsCheck) checkClock(clock jsontree.Value) {
	label, stamp := clock.Get("wall_start_at"), clock.Get("wall_start_unix_ns")
	spelt, err := time.Parse(time.RFC3339Nano, label.Str())
	ns, ok := stamp.Int()
	if err != nil || !ok {
		return // the schema says so
	}
	apart := time.Unix(0, ns).Sub(spelt).Abs()
	a.holds(apart < lastDigit(label.Str()), "/line/1/clock/wall_start_unix_ns", "attempts.clock", stamp, nil, "%v from the moment that wall_start_at spells, %s", apart, label.Str())
}

// lastDigit is the unit of the last digit of a time: 1 ns with nine decimals.
func lastDigit(label string) time.Duration {
	_, decimals, _ := strings.Cut(label, ".")
	unit := time.Second
	for i := 0; i < len(decimals) && '0' <= decimals[i] && decimals[i] <= '9' && unit > 1; i++ {
		unit /= 10
	}
	return unit
}

func (a *attemptsCheck) checkIndex(v jsontree.Value, at string) {
	index, ok := v.Get("index").Int()
	at += "/index"
	switch {
	case !ok:
	case a.planned.ok && float64(index) >= a.planned.v:
		a.problem(at, "attempts.index", v.Get("index"), nil, "index %d of %v planned requests", index, a.planned.v)
	case index >= maxIndex:
		a.problem(at, "attempts.index", v.Get("index"), nil, "index %d: more requests than a file can hold", index)
	case !a.seen.add(index):
		a.problem(at, "attempts.once", v.Get("index"), nil, "request %d has a line already", index)
	}
}

// maxIndex bounds the set of indices that were seen to 16 MiB.
const maxIndex = 1 << 27

// A bitset grows to what is put in.
type bitset []uint64

// add tells whether i is new.
func (b *bitset) add(i int64) bool {
	word, bit := int(i/64), uint64(1)<<(i%64)
	if word >= len(*b) {
		*b = append(*b, make([]uint64, word+1-len(*b))...)
	}
	fresh := (*b)[word]&bit == 0
	(*b)[word] |= bit
	return fresh
}

// moments are the members of t in the order in which they can happen, per chain.
var momentNames = []string{"due", "start", "connected", "sent", "written", "headers", "first_byte", "first_output", "first_content", "last_output", "end"}

type moments map[string]int64 // absent: null

func readStamps(t jsontree.Value) moments {
	m := make(moments, len(momentNames))
	for name, v := range t.Members() {
		if n, ok := v.Int(); ok {
			m[name] = n
		}
	}
	return m
}

// stampChains are the orders that always hold. The answer may begin before the
// last request byte is with the kernel, so written stands in a chain of its own.
var stampChains = [][]string{
	{"due", "start", "connected", "sent", "headers", "first_byte", "first_output", "first_content", "last_output", "end"},
	{"sent", "written"},
}

func (a *attemptsCheck) checkStamps(t jsontree.Value, at string, m moments) {
	for _, chain := range stampChains {
		last, name := int64(math.MinInt64), ""
		for _, n := range chain {
			v, ok := m[n]
			if !ok {
				continue
			}
			a.holds(v >= last, at+"/"+n, "attempts.order", t.Get(n), nil, "before %s", name)
			last, name = v, n
		}
	}
}

// checkArrivals: as many of everything as there are output events, in order,
// and their ends are the stamps.
func (a *attemptsCheck) checkArrivals(v jsontree.Value, at string, m moments) {
	arrivals, kinds, coalesced, empty := v.Get("arrivals"), v.Get("arrival_kinds"), v.Get("coalesced"), v.Get("seen_empty")
	n := len(kinds.Str())
	count := func(name string, v jsontree.Value, k int) {
		a.holds(k == n, at+"/"+name, "attempts.events", v, n, "%d where arrival_kinds has %d events", k, n)
	}
	count("coalesced", coalesced, len(coalesced.Str()))
	count("seen_empty", empty, empty.Len())
	if delays := v.Get("client_delay"); delays.Is(jsontree.Array) {
		count("client_delay", delays, delays.Len())
	} else if a.stamps != "user" {
		a.holds(n == 0, at+"/client_delay", "attempts.events", delays, nil, "null only with user stamps")
	}
	ends := a.walkArrivals(arrivals, at, kinds.Str(), coalesced.Str())
	count("arrivals", arrivals, ends.n)
	stamp := func(name string, want int64, ok bool) {
		got, has := m[name]
		var computed any
		if ok {
			computed = want
		}
		a.holds(ok == has && got == want, at+"/t/"+name, "attempts.arrivals", v.At("t", name), computed, "the arrivals say otherwise")
	}
	stamp("first_output", ends.first, ends.n > 0)
	stamp("last_output", ends.last, ends.n > 0)
	stamp("first_content", ends.content, ends.hasContent)
	i := 0
	for _, e := range empty.Elems() {
		if low, ok := e.Int(); ok && i < len(ends.offsets) && low > ends.offsets[i] {
			a.problem(jsontree.Index(at+"/seen_empty", i), "attempts.seen-empty", e, nil, "after the arrival that it bounds")
		}
		i++
	}
}

type arrivalEnds struct {
	n                    int
	first, last, content int64
	hasContent           bool
	offsets              []int64
}

func (a *attemptsCheck) walkArrivals(arrivals jsontree.Value, at, kinds, coalesced string) (e arrivalEnds) {
	for i, v := range arrivals.Elems() {
		d, _ := v.Int()
		if sum := e.last + d; (sum > e.last) == (d > 0) {
			e.last = sum
		} else {
			a.problem(jsontree.Index(at+"/arrivals", i), "attempts.arrivals", v, nil, "no int64 holds the time of this arrival")
		}
		if i == 0 {
			e.first = d
		} else {
			shared := d == 0 && i < len(coalesced) && (coalesced[i] != '1' || coalesced[i-1] != '1')
			if d < 0 {
				a.problem(jsontree.Index(at+"/arrivals", i), "attempts.arrivals", v, nil, "an event arrives before the one before it")
			} else if shared {
				a.problem(jsontree.Index(at+"/arrivals", i), "attempts.coalesced", v, nil, "two events share an arrival and are not marked coalesced")
			}
		}
		if i < len(kinds) && kinds[i] == 'c' && !e.hasContent {
			e.content, e.hasContent = e.last, true
		}
		e.offsets = append(e.offsets, e.last)
		e.n++
	}
	return e
}

// checkOutcome: what did not begin has no stamps, what succeeded has no error.
func (a *attemptsCheck) checkOutcome(v jsontree.Value, at string, o Outcome, m moments) {
	at += "/outcome"
	_, started := m["start"]
	switch {
	case o.Success():
		a.holds(v.Get("error").Is(jsontree.Null), at, "attempts.outcome", v.Get("outcome"), nil, "a success with an error")
		_, ended := m["end"]
		a.holds(started && ended, at, "attempts.outcome", v.Get("outcome"), nil, "a success without start or end")
	case o == OutcomeClientShed, o == OutcomeNotStarted:
		a.holds(!started, at, "attempts.outcome", v.Get("outcome"), nil, "never began, and has a start")
	}
	if !started {
		for _, name := range momentNames[2:] {
			if _, ok := m[name]; ok {
				a.problem(at, "attempts.outcome", v.Get("outcome"), nil, "%s without a start", name)
				return
			}
		}
	}
}

func (a *attemptsCheck) checkUsage(u jsontree.Value, at string) {
	known := u.Get("input").Is(jsontree.Number) || u.Get("output").Is(jsontree.Number)
	unknown := !u.Get("input").Is(jsontree.Number) || !u.Get("output").Is(jsontree.Number)
	source := u.Get("source")
	a.holds(source.Str() != "none" || !known, at+"/source", "attempts.usage", source, nil, "counts without a source")
	a.holds(!unknown || u.Get("reason").Is(jsontree.String), at+"/reason", "attempts.usage", u.Get("reason"), nil, "a count is unknown without a reason")
	output, ok := u.Get("output").Int()
	reasoning, ok2 := u.Get("reasoning").Int()
	a.holds(!ok || !ok2 || reasoning <= output, at+"/reasoning", "attempts.usage", u.Get("reasoning"), nil, "more than the %d output tokens, which hold it", output)
	input, ok := u.Get("input").Int()
	cached, ok2 := u.Get("cached").Int()
	a.holds(!ok || !ok2 || cached <= input, at+"/cached", "attempts.usage", u.Get("cached"), nil, "more than the %d input tokens, which hold it", input)
}

// checkText: a whole stored text has the digest beside it.
func (a *attemptsCheck) checkText(v jsontree.Value, at string) {
	text := v.Get("text")
	if cut, _ := v.Get("text_truncated").Bool(); cut || !text.Is(jsontree.String) {
		return
	}
	a.textIs(at+"/text_sha256", "attempts.text", v.Get("text_sha256"), digest.FromBytes([]byte(text.Str())).String(), "the digest of the text")
}

func (a *attemptsCheck) checkTries(v jsontree.Value, at string, o Outcome) {
	var last jsontree.Value
	for _, t := range v.Get("tries").Elems() {
		last = t
	}
	if last.Exists() {
		a.textIs(at+"/tries", "attempts.tries", last.Get("outcome"), string(o), "the last try is the attempt's own")
	}
}
