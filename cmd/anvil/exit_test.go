package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"anvil/schemas"
)

// Programs branch on the code of an error: the schema lists every one that the
// command line can print, and none besides.
func TestErrorCodesAreThoseOfTheSchema(t *testing.T) {
	var listed struct {
		Properties struct {
			Error struct {
				Properties struct {
					Code struct {
						Enum []string `json:"enum"`
					} `json:"code"`
				} `json:"properties"`
			} `json:"error"`
		} `json:"properties"`
	}
	src, err := schemas.Table(schemas.ID("anvil.error/v1").FileName())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(src, &listed); err != nil {
		t.Fatal(err)
	}
	printed := map[string]bool{}
	for _, row := range errorTable {
		printed[row.name] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	literal := regexp.MustCompile(`code: exit[A-Za-z]+, name: "([a-z_]+)"`)
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range literal.FindAllSubmatch(src, -1) {
			printed[string(m[1])] = true
		}
	}
	enum := listed.Properties.Error.Properties.Code.Enum
	for name := range printed {
		if !slices.Contains(enum, name) {
			t.Errorf("error code %q is not in the schema", name)
		}
	}
	for _, name := range enum {
		if !printed[name] && name != "internal" {
			t.Errorf("the schema lists %q, which nothing prints", name)
		}
	}
}

func TestErrorsFitTheirSchema(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(plan, []byte("schema: anvil.plan/v1\nname: x\nstages: []\ncolour: red\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a plan that is not there": {[]string{"plan", "run", "nowhere.yaml"}, exitUsage, "unreadable"},
		"a plan with problems":     {[]string{"plan", "run", plan}, exitPlan, "plan_invalid"},
		"an unknown flag":          {[]string{"plan", "run", "--colour"}, exitUsage, "usage"},
		"an unknown command":       {[]string{"plan", "walk"}, exitUsage, "usage"},
		"no run":                   {[]string{"run", "show", "latest"}, exitUsage, "no_run"},
		"a base that is not there": {[]string{"plan", "run", "../../plans/quickstart.yaml", "--only", "grade"}, exitPlan, "base_cannot_serve"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, problems bytes.Buffer
			args := append(slices.Clone(tt.args), "--json", "--workspace", t.TempDir())
			if code := run(args, strings.NewReader(""), &out, &problems); code != tt.code {
				t.Errorf("exit %d, want %d", code, tt.code)
			}
			var doc map[string]any
			if err := json.Unmarshal(problems.Bytes(), &doc); err != nil {
				t.Fatalf("stderr is not one document: %v\n%s", err, &problems)
			}
			if err := schemas.Check("anvil.error/v1", doc); err != nil {
				t.Error(err)
			}
			if got := doc["error"].(map[string]any)["code"]; got != tt.want {
				t.Errorf("code %q, want %q", got, tt.want)
			}
			if out.Len() > 0 {
				t.Errorf("an error wrote to stdout: %s", &out)
			}
		})
	}
}
