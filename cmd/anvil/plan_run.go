package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"anvil/pipeline"
	"anvil/pipeline/event"
	"anvil/pipeline/plan"
	"anvil/schemas"
)

// planRunFlags are the flags of `plan run`.
type planRunFlags struct {
	sets  []string
	quiet bool
	jobs  int
	opt   pipeline.Options
}

func newPlanRunCommand(a *app) *cobra.Command {
	f := &planRunFlags{}
	c := &cobra.Command{
		Use: "run PLAN", Short: "Run a plan, or some of its stages on the evidence of an earlier run", Args: onePlan,
		Long: `run executes the stages of a plan in order and ends with a table of what was
measured, how much of it failed, and every limitation.

--only takes over what the named stages need from a base run and always executes
them; later stages are left stale. --from runs the named stages and everything
after them as a plain run does: pure ones are restored when their key is known.`,
		RunE: func(c *cobra.Command, args []string) error { return a.planRun(c.Context(), args[0], f) },
	}
	setFlag(c, &f.sets)
	selectionFlags(c, f)
	flags := c.Flags()
	flags.BoolVar(&f.opt.DryRun, "dry-run", false, "say what would run and run nothing")
	flags.BoolVar(&f.opt.Wait, "wait", false, "wait for locks that other processes hold")
	flags.IntVar(&f.jobs, "jobs", 0, "stages that may run at once; 0: one a core")
	flags.BoolVar(&f.quiet, "quiet", false, "on stderr only what needs attention")
	return c
}

// onePlan wants a plan file alone. A second word behind --resume was meant as the
// run to go on with.
func onePlan(c *cobra.Command, args []string) error {
	err := exactly("a plan file")(c, args)
	if err == nil || len(args) < 2 || !c.Flags().Changed("resume") {
		return err
	}
	return &exitError{code: exitUsage, name: "usage", err: err, hint: "to name the run to go on with write --resume=RUN, with the equals sign"}
}

// selectionFlags say what of a plan to run and on what to build.
func selectionFlags(c *cobra.Command, f *planRunFlags) {
	flags := c.Flags()
	flags.Var(stageList{&f.opt.Only}, "only", "stages to execute on a base run's evidence")
	flags.Var(stageList{&f.opt.From}, "from", "stages to run, with everything after them, on a base run's evidence")
	flags.Var(stageList{&f.opt.Force}, "force", "stages to execute although their key is known")
	flags.StringVar(&f.opt.Resume, "resume", "", "go on with an unfinished run of this plan: the newest, or --resume=RUN")
	flags.Lookup("resume").NoOptDefVal = pipeline.ResumeNewest
	flags.StringVar(&f.opt.Reuse, "reuse", "", "a run whose observations are taken over where their keys are equal (limitation run.reused-evidence)")
	flags.BoolVar(&f.opt.AcceptAborted, "accept-aborted", false, "take over what was aborted as well; the record says status aborted")
	flags.StringVar(&f.opt.Base, "base", "", "the base run; default: the newest of this plan that serves")
}

func (a *app) planRun(ctx context.Context, file string, f *planRunFlags) error {
	outliveReaders()
	if f.jobs < 0 {
		return usagef("--jobs %d: want 1 or more, or 0 for one a core", f.jobs)
	}
	go func() { _, _ = toolIdentity() }() // hashes the binary while the plan is read and decided; the error comes again
	src, err := readBounded(file, maxPlan)
	if err != nil {
		return &exitError{code: exitUsage, name: "unreadable", err: err}
	}
	p, err := a.parsePlan(file, src, f.sets, nil)
	if err != nil {
		return planError(err)
	}
	x, err := a.executor(f)
	if err != nil {
		return err
	}
	defer x.Store.Close()
	if p, err = a.onBase(ctx, x, p, f); err != nil {
		return planError(err)
	}
	x.Tool = toolIdentity
	sink := &acknowledger{next: x.Events}
	ctx, stop := interruptible(ctx, &f.opt, sink.interrupted)
	defer stop()
	x.Events = sink
	run, err := x.Run(ctx, p, f.opt)
	sink.end()
	if l, ok := sink.next.(*liveBars); ok {
		l.Close()
	}
	if errors.Is(err, pipeline.ErrNothingUnfinished) {
		fmt.Fprintf(a.stderr, "%s\n", line(err.Error()))
		return nil
	}
	if run != nil && run.Decisions != nil {
		return a.showDecisions(run, run.Base)
	}
	if run != nil {
		a.showRun(ctx, x.Store, p, run)
	}
	if err != nil {
		return err
	}
	return done(run.Exit)
}

// onBase reads the plan again with a base run's parameters where the run derives
// from one: --set then changes only what it names.
func (a *app) onBase(ctx context.Context, x *pipeline.Executor, p *plan.Plan, f *planRunFlags) (*plan.Plan, error) {
	if len(f.opt.Only) == 0 && len(f.opt.From) == 0 {
		return p, nil
	}
	if err := knownStages(p, f.opt); err != nil {
		return p, err
	}
	base, err := x.FindBase(ctx, p.Name, pipeline.Needs(p), f.opt)
	if err != nil || base == nil {
		return p, err
	}
	f.opt.Base = base.Name
	if maps.Equal(base.Params, p.Params) {
		return p, nil
	}
	return a.parsePlan(p.File, p.Source, f.sets, base.Params)
}

// knownStages finds a misspelt stage before a base is looked for: without a base
// the typing error would stay hidden behind it.
func knownStages(p *plan.Plan, opt pipeline.Options) error {
	var ids, written []string
	for _, s := range p.Stages {
		ids = append(ids, s.ID, s.Of)
		if !slices.Contains(written, s.Of) {
			written = append(written, s.Of) // once, however many children it has
		}
	}
	for _, id := range slices.Concat(opt.Only, opt.From, opt.Force) {
		if slices.Contains(ids, id) {
			continue
		}
		hint := "the plan's stages are " + strings.Join(written, ", ")
		if near, ok := schemas.Closest(id, ids); ok {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return &exitError{code: exitUsage, name: "usage", err: fmt.Errorf("the plan has no stage %q", id), hint: hint}
	}
	return nil
}

// executor is for this workspace; what writes evidence sets its Tool as well.
func (a *app) executor(f *planRunFlags) (*pipeline.Executor, error) {
	s, err := a.openStore()
	if err != nil {
		return nil, err
	}
	sink, diagnosis := a.renderer(f.quiet), a.stderr
	if l, ok := sink.(*liveBars); ok {
		diagnosis = l.progress
	}
	return &pipeline.Executor{
		Workspace: a.workspace, Store: s, Events: sink, Log: a.logger(diagnosis),
		Jobs: f.jobs, LookupEnv: a.getenv, Exec: runProgram,
	}, nil
}

func (a *app) renderer(quiet bool) event.Sink {
	if a.json {
		return newJSONLines(a.stdout)
	}
	if !quiet && a.live(a.stderr) {
		return newLiveBars(a.stderr)
	}
	return &plainLines{w: a.stderr, quiet: quiet}
}

// refreshLine is the command that brings stale stages up to date.
func refreshLine(args []string) string {
	quoted := make([]string, len(args))
	for i, s := range args {
		quoted[i] = shellQuote(s)
	}
	return "anvil " + strings.Join(quoted, " ")
}

func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// runProgram runs a program for a stage, without a shell.
func runProgram(ctx context.Context, argv []string, stdin io.Reader) (stdout, stderr []byte, err error) {
	if len(argv) == 0 {
		return nil, nil, errors.New("no program to run")
	}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Stdin = stdin
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err = c.Run()
	return out.Bytes(), errs.Bytes(), err
}
