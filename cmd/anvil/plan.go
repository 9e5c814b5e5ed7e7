package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"anvil/pipeline/plan"
	"anvil/pipeline/stage"
	"anvil/stages"
)

func newPlanCommand(a *app) *cobra.Command {
	return group("plan", "Check, show, explain and run plans",
		newPlanCheckCommand(a),
		newPlanShowCommand(a),
		newPlanGraphCommand(a),
		newPlanExplainCommand(a),
		newPlanRunCommand(a),
	)
}

// maxPlan bounds the plan file that is read into memory.
const maxPlan = 64 << 20

// readPlan reads and resolves a plan file. params are a base run's, nil for none.
func (a *app) readPlan(file string, sets []string, params map[string]any) (*plan.Plan, error) {
	src, err := readBounded(file, maxPlan)
	if err != nil {
		return nil, &exitError{code: exitUsage, name: "unreadable", err: err}
	}
	return a.parsePlan(file, src, sets, params)
}

func (a *app) parsePlan(file string, src []byte, sets []string, params map[string]any) (*plan.Plan, error) {
	set, err := parseSets(sets)
	if err != nil {
		return nil, err
	}
	return plan.Parse(file, src, stages.All(), plan.Options{Set: set, Params: params, Getenv: a.getenv})
}

func parseSets(sets []string) (map[string]string, error) {
	set := make(map[string]string, len(sets))
	for _, s := range sets {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, usagef("--set %q: want key=value", s)
		}
		if _, twice := set[key]; twice {
			return nil, usagef("--set %s is given twice", key)
		}
		set[key] = value
	}
	return set, nil
}

// readBounded reads a regular file of at most limit bytes; anything else (a
// folder, a pipe that never ends) is an error rather than a hang.
func readBounded(file string, limit int64) ([]byte, error) {
	f, err := stage.OpenRegular(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %s", file, size(limit))
	}
	return b, nil
}

// planError gives the problems of a plan exit code 3. As JSON they are the
// error's message, a line each, and stand one by one under "problems".
func planError(err error) error {
	problems := plan.Problems(err)
	if len(problems) == 0 {
		return err
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.Error()
	}
	return &exitError{
		code: exitPlan, name: "plan_invalid", err: errors.New(strings.Join(lines, "\n")),
		more: map[string]any{"problems": plan.CheckOf(err).Problems},
	}
}
