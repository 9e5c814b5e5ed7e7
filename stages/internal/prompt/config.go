package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"

	"anvil/pipeline/stage"
	"anvil/schemas"
)

// A Config is the plan key workload, resolved.
type Config struct {
	Source string `json:"source"`

	ContextTokens      Size   `json:"context_tokens"`
	CacheMode          string `json:"cache_mode"`
	SharedPrefixTokens int    `json:"shared_prefix_tokens"`
	Stream             string `json:"stream"`

	File   *string `json:"file"`
	Format string  `json:"format"`
	Order  string  `json:"order"`
	Epochs int     `json:"epochs"`

	ThinkTime string `json:"think_time"`

	Seed             int64  `json:"seed"`
	ResponseWords    int    `json:"response_words"`
	ControlledOutput string `json:"controlled_output"`
	Canaries         bool   `json:"canaries"`
}

// Strict tells whether answers of another length than asked are failures.
func (c Config) Strict() bool { return c.ControlledOutput == "strict" }

// Synthetic tells whether prompts are made up.
func (c Config) Synthetic() bool { return c.Source == "synthetic" }

// Open returns the prompts. Of a dataset file is the projection; bytesPerToken
// is what is known of the engine's tokenizer, 0 for nothing.
func (c Config) Open(file io.Reader, bytesPerToken float64) (Source, error) {
	checks := Checks{Canaries: c.Canaries, Words: c.ResponseWords, Seed: c.Seed}
	switch c.Source {
	case "synthetic":
		shared := 0
		if c.CacheMode == "shared" {
			shared = c.SharedPrefixTokens
		}
		return Synthetic{
			Seed: c.Seed, Stream: c.Stream, Size: c.ContextTokens, SharedTokens: shared, BytesPerToken: bytesPerToken, Checks: checks,
		}.Source(), nil
	case "dataset":
		d := Dataset{Epochs: c.Epochs, Checks: checks, BytesPerToken: bytesPerToken}
		if c.Order == "shuffle" {
			d.Order = shuffler(c.Seed)
		}
		return d.Source(file)
	}
	return nil, fmt.Errorf("workload source %q is not built", c.Source)
}

func shuffler(seed int64) *rand.Rand {
	r, _ := Synthetic{Seed: seed, Stream: "dataset"}.draws("order", 0)
	return r
}

// Resolve sets what of a workload comes from the plan, at pointer in the
// configuration of a stage, and reports what the schema cannot say. It returns
// how many prompts there are, -1 where that has no end or is not known yet.
func Resolve(r *stage.Resolution, pointer, stream string) int {
	w, ok := r.With["workload"].(map[string]any)
	if !ok {
		return -1
	}
	if s, set := w["seed"]; !set || s == nil {
		w["seed"] = json.Number(strconv.FormatInt(r.Plan.Seed, 10))
	}
	switch w["source"] {
	case "synthetic":
		w["stream"] = stream
		resolveSize(r, pointer, w)
	case "dataset":
		return resolveFile(r, pointer, w)
	case "sessions":
		r.Problem(pointer+"/source", "conversations of several turns are not built yet", `use "synthetic" or "dataset"`)
	}
	return -1
}

func resolveSize(r *stage.Resolution, pointer string, w map[string]any) {
	raw, err := json.Marshal(w["context_tokens"])
	var size Size
	if err == nil {
		err = json.Unmarshal(raw, &size)
	}
	if err != nil {
		r.Problem(pointer+"/context_tokens", err.Error(), "")
		return
	}
	if problem := size.Check(); problem != "" {
		r.Problem(pointer+"/context_tokens", problem, "")
	}
	shared, _ := w["shared_prefix_tokens"].(json.Number)
	n, _ := shared.Int64()
	switch least := size.least(); {
	case n > 0 && w["cache_mode"] == "unique":
		r.Problem(pointer+"/shared_prefix_tokens", "unique prompts share no prefix", "set cache_mode: shared")
	case n > int64(least):
		r.Problem(pointer+"/shared_prefix_tokens",
			fmt.Sprintf("a prefix of %d tokens does not fit into prompts of %d: it is a part of context_tokens, and they would be longer than planned", n, least),
			"set it to the smallest of context_tokens at most")
	}
}

// least is the smallest size that can be drawn.
func (s Size) least() int {
	switch {
	case len(s.Uniform) == 2:
		return s.Uniform[0]
	case len(s.Normal) == 4:
		return int(math.Ceil(max(s.Normal[2], 1)))
	}
	for i, n := range s.tokens {
		if s.total[i] > 0 {
			return n
		}
	}
	return s.Fixed
}

// resolveFile looks at the rows while the plan is read, so that a bad one is
// found before anything runs. A file that cannot be opened is the plan's to report.
func resolveFile(r *stage.Resolution, pointer string, w map[string]any) int {
	format, _ := w["format"].(string)
	if !KnownFormat(format) {
		r.Problem(pointer+"/format", fmt.Sprintf("format %q is not built yet", format), "use anvil, sharegpt, lm-eval, openai-evals or promptfoo")
		return -1
	}
	path, _ := w["file"].(string)
	if r.Open == nil || path == "" {
		return -1
	}
	type outcome struct {
		rows int // -1 where the file cannot be opened
		err  error
	}
	found := stage.Read(r, format+" rows of "+path, func() outcome {
		file, err := r.Open(path)
		if err != nil {
			return outcome{rows: -1}
		}
		defer file.Close()
		var rows lineCount
		err = Project(format, file, &rows)
		return outcome{int(rows), err}
	})
	if found.err != nil {
		r.Problem(pointer+"/file", path+": "+found.err.Error(), "")
	}
	if found.err != nil || found.rows < 0 {
		return -1
	}
	epochs, _ := w["epochs"].(json.Number)
	n, _ := epochs.Int64()
	return found.rows * int(max(n, 1))
}

// lineCount counts the rows of a projection, which end with a line feed each.
type lineCount int

func (n *lineCount) Write(p []byte) (int, error) {
	*n += lineCount(bytes.Count(p, []byte("\n")))
	return len(p), nil
}

// ProjectWorkload is what a stage whose "with" holds a workload keeps of its
// files in its key: of the dataset what is sent, so that expectations, tags and
// graders can be corrected without asking again.
func ProjectWorkload(config json.RawMessage, pointer string, file io.Reader, w io.Writer) (schemas.ID, bool, error) {
	if pointer != "/workload/file" {
		return "", false, nil
	}
	var c struct {
		Workload struct{ Format string }
	}
	err := json.Unmarshal(config, &c)
	if err == nil {
		err = Project(c.Workload.Format, file, w)
	}
	if err != nil {
		return "", true, fmt.Errorf("dataset: %w", err)
	}
	return RowSchema, true, nil
}
