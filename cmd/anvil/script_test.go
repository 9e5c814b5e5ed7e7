package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"anvil/schemas"
	"anvil/stages/sim"
)

var update = flag.Bool("update", false, "write what the scripts compare with")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"anvil": main})
}

// TestScripts runs testdata/script: the command line as a user meets it, each
// command a process of its own. $REPO is the repository.
func TestScripts(t *testing.T) {
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("REPO", repo)
			env.Setenv("XDG_RUNTIME_DIR", filepath.Join(env.WorkDir, ".runtime"))
			env.Values[engineKey{}] = &engineServer{}
			env.Values[signalledKey{}] = new(*exec.Cmd)
			env.Defer(func() { env.Values[engineKey{}].(*engineServer).stop() })
			return os.MkdirAll(filepath.Join(env.WorkDir, ".runtime"), 0o700)
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "namespaces":
				return exec.CommandContext(t.Context(), "unshare", "-rm", "true").Run() == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"jsonfield": scriptJSONField,
			"schema":    scriptSchema,
			"flip":      scriptFlip,
			"edit":      scriptEdit,
			"tree":      scriptTree,
			"serve":     scriptServe,
			"conns":     scriptConns,
			"held":      scriptHeld,
			"release":   scriptRelease,
			"signal":    scriptSignal,
			"exitcode":  scriptExitCode,
		},
	})
}

// jsonfield FILE POINTER WANT compares one value of a JSON document; WANT is
// JSON, or a plain word for a string.
func scriptJSONField(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: jsonfield FILE POINTER WANT")
	}
	var doc any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &doc))
	got, err := lookup(doc, args[1])
	ts.Check(err)
	var want any
	if json.Unmarshal([]byte(args[2]), &want) != nil {
		want = args[2]
	}
	if same := cmp.Equal(got, want); same == neg {
		ts.Fatalf("%s has %v at %s, want %v", args[0], got, args[1], args[2])
	}
}

func lookup(doc any, pointer string) (any, error) {
	for _, name := range strings.Split(pointer, "/")[1:] {
		switch v := doc.(type) {
		case map[string]any:
			next, ok := v[name]
			if !ok {
				return nil, fmt.Errorf("no %q in %s", name, pointer)
			}
			doc = next
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i < 0 || i >= len(v) {
				return nil, fmt.Errorf("no element %q of %d in %s", name, len(v), pointer)
			}
			doc = v[i]
		default:
			return nil, fmt.Errorf("%q leads into a scalar in %s", name, pointer)
		}
	}
	return doc, nil
}

// schema FILE ID checks each line (JSON Lines) or the whole of a file.
func scriptSchema(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: schema FILE ID")
	}
	for dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0]))); dec.More(); {
		var doc any
		ts.Check(dec.Decode(&doc))
		err := schemas.Check(schemas.ID(args[1]), doc)
		if (err == nil) == neg {
			ts.Fatalf("%s: %v", args[0], err)
		}
	}
}

// flip FILE flips one bit in the middle of a file, also of one that is read-only.
func scriptFlip(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: flip FILE")
	}
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	if len(b) == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
	b[len(b)/2] ^= 1
	ts.Check(os.Chmod(name, 0o600))
	ts.Check(os.WriteFile(name, b, 0o600))
}

// edit FILE OLD NEW replaces the one occurrence of OLD.
func scriptEdit(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	if n := bytes.Count(b, []byte(args[1])); n != 1 {
		ts.Fatalf("%q stands %d times in %s", args[1], n, args[0])
	}
	ts.Check(os.WriteFile(name, bytes.Replace(b, []byte(args[1]), []byte(args[2]), 1), 0o644))
}

// tree DIR copies a folder of the repository into the script's.
func scriptTree(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: tree FROM TO")
	}
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(ts.MkAbs(args[0]))))
}

// An engineServer is the embedded engine in the test's own process, which counts
// the connections that it was asked for.
type engineServer struct {
	http  *httptest.Server
	held  *held
	conns atomic.Int64
}

type engineKey struct{}

func (e *engineServer) stop() {
	if e.held != nil {
		e.held.release()
		e.held = nil
	}
	if e.http != nil {
		e.http.CloseClientConnections()
		e.http.Close()
		e.http = nil
	}
}

// serve start|hold N|echo|parrot|stop: the engine, the engine that answers N
// requests and holds the others, a server that refuses every request and says in
// its error what key it was sent, or one that streams the key as its answer, at
// $BASE_URL ($SERVER without /v1); stop leaves the address dead.
func scriptServe(ts *testscript.TestScript, _ bool, args []string) {
	e := ts.Value(engineKey{}).(*engineServer)
	e.stop()
	if len(args) == 0 || (args[0] == "hold") != (len(args) == 2) {
		ts.Fatalf("usage: serve start|hold N|echo|parrot|stop")
	}
	var handler http.Handler
	switch args[0] {
	case "stop":
		return
	case "echo":
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, fmt.Sprintf(`{"error": {"message": "bad key %s"}}`, r.Header.Get("Authorization")), http.StatusUnauthorized)
		})
	case "parrot":
		handler = http.HandlerFunc(parrot)
	default:
		engine, err := sim.New(sim.DefaultConfig())
		ts.Check(err)
		ts.Defer(func() { _ = engine.Close() })
		handler = engine.Handler()
	}
	if args[0] == "hold" {
		n, err := strconv.ParseInt(args[1], 10, 64)
		ts.Check(err)
		e.held = hold(handler, n)
		handler = e.held
	}
	e.http = httptest.NewUnstartedServer(handler)
	e.http.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			e.conns.Add(1)
		}
	}
	e.http.Start()
	ts.Setenv("SERVER", e.http.URL)
	ts.Setenv("BASE_URL", e.http.URL+"/v1")
}

// parrot streams the key that it was sent: whole, in two pieces, and in escapes.
func parrot(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	var escaped strings.Builder
	for _, c := range []byte(key) {
		fmt.Fprintf(&escaped, `\u%04x`, c)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, text := range []string{"your key ", key, " is ", key[:len(key)/2], key[len(key)/2:], " or ", escaped.String()} {
		fmt.Fprintf(w, "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"}}]}\n\n", text)
	}
	fmt.Fprint(w, "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],",
		"\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n")
}

// conns [same]: remembers how many connections there were, or fails when there
// are more since (! conns same: when there are not).
func scriptConns(ts *testscript.TestScript, neg bool, args []string) {
	n := fmt.Sprint(ts.Value(engineKey{}).(*engineServer).conns.Load())
	if len(args) == 0 {
		ts.Setenv("CONNS", n)
	} else if was := ts.Getenv("CONNS"); (n == was) == neg {
		ts.Fatalf("%s connections, there were %s", n, was)
	}
}
