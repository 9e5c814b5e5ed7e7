package plan

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

// Options are what a plan is resolved with besides its text.
type Options struct {
	Set    map[string]string // --set key=value, each read as the type of the parameter's default
	Params map[string]any    // a base run's resolved parameters; Set changes only what it names
	Getenv func(name string) (string, bool)
}

// Parse reads a plan, whose relative paths start in the folder of file, and
// resolves it. The error is a *multierror.Error that holds every *Problem,
// sorted by Pos; see Problems. Parse opens no file for writing and reads none
// but to find out that it is there, and those that a kind asks to look into.
func Parse(file string, src []byte, kinds stage.Set, opt Options) (*Plan, error) {
	p := &parser{
		file: file, dir: filepath.Dir(file), kinds: kinds, opt: opt,
		plan: &Plan{File: file, Source: src, Digest: digest.FromBytes(src)},
	}
	p.run(src)
	if err := p.ps.err(); err != nil {
		return nil, err
	}
	return p.plan, nil
}

// A parser holds one reading of one plan.
type parser struct {
	file, dir string
	kinds     stage.Set
	opt       Options
	ps        problems

	root   map[string]any // as the file has it
	places *place
	scope  scope            // params and env
	top    map[string]any   // root with references substituted and defaults filled, without endpoints and stages
	heads  []map[string]any // the stages likewise
	axes   []axis

	endpoints map[string]*endpoint
	drafts    []*draft
	byID      map[string]*draft
	stats     map[string]fileState
	shelf     shelf

	own     worker     // of the parser itself
	workers []*worker  // see spread
	peers   sync.Mutex // held while a kind looks at a stage that it does not depend on

	plan *Plan
}

func (p *parser) run(src []byte) {
	r := &reader{file: p.file, ps: &p.ps}
	var ok bool
	if p.root, p.places, ok = r.read(src); !ok {
		return
	}
	p.readParams()
	p.readAxes()
	p.readTop()
	p.readLimitations()
	p.readEndpoints()
	p.readStages()
	if !p.orderStages() {
		return
	}
	p.bindPorts()
	p.multiply()
	p.configure()
	if len(p.ps.list) == 0 {
		p.finish()
	}
}

// problem reports a fault of the value at a pointer into the plan, unless it
// follows from one that was reported.
func (p *parser) problem(pointer, message, hint string) {
	where, _, bad := p.places.find(pointer)
	if !bad {
		p.ps.add(Problem{Pos: p.pos(where.at), Path: p.places.dotted(pointer), Message: message, Hint: hint})
	}
}

// keyProblem is problem at the key of the value.
func (p *parser) keyProblem(pointer, message, hint string) {
	where, exact, bad := p.places.find(pointer)
	at := where.at
	if exact {
		at = where.key
	}
	// The value of an unknown key may be bad too; the key is still unknown.
	if !bad || exact && where.bad {
		p.ps.add(Problem{Pos: p.pos(at), Path: p.places.dotted(pointer), Message: message, Hint: hint})
	}
}

func (p *parser) pos(s spot) Pos { return Pos{File: p.file, Line: s.line, Column: s.column} }

// faults reports what a schema says of the value at prefix.
func (p *parser) faults(prefix string, faults []schemas.Fault) {
	for _, f := range faults {
		if f.Key {
			p.keyProblem(prefix+f.Pointer, f.Message, f.Hint)
		} else {
			p.problem(prefix+f.Pointer, f.Message, p.retypeHint(prefix+f.Pointer, f))
		}
	}
}

// meant is the hint for a word that is not among those that may stand there;
// none is the hint when there are no such words.
func (p *parser) meant(word, none string, known func() []string) string {
	if near, ok := p.ps.near(word, known); ok {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if p.ps.advice > maxAdvice {
		return ""
	}
	if words := known(); len(words) > 0 {
		return "known: " + join(words)
	}
	return none
}

func join(words []string) string { return strings.Join(words, ", ") }
