package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/stages/sim"
)

func synth(seed int64, stream string, tokens int) Synthetic {
	return Synthetic{Seed: seed, Stream: stream, Size: Size{Fixed: tokens}}
}

// "Random" prompts that share a prefix are what a prefix cache makes look fast
// (vllm 20083): no two of a cell, of other seeds or of the scout begin alike.
func TestUniquePromptsShareNoPrefix(t *testing.T) {
	const n = 500
	heads, whole := map[string]string{}, map[string]string{}
	for _, s := range []Synthetic{synth(1, "measure", 100), synth(2, "measure", 100), synth(1, "scout", 100), synth(-1, "measure", 100)} {
		source := s.Source()
		for i := range n {
			p := source.At(i)
			name := fmt.Sprintf("%s/%d/%d", s.Stream, s.Seed, i)
			// 16 bytes are the four tokens that a cache's smallest block may hold.
			if other, ok := heads[p.Text[:16]]; ok {
				t.Fatalf("%s begins like %s: %q", name, other, p.Text[:16])
			}
			heads[p.Text[:16]] = name
			if other, ok := whole[p.Digest.String()]; ok {
				t.Fatalf("%s has the digest of %s", name, other)
			}
			whole[p.Digest.String()] = name
		}
	}
}

func TestPromptsAreAFunctionOfSeedAndIndex(t *testing.T) {
	a, b := synth(7, "measure", 200).Source(), synth(7, "measure", 200).Source()
	for _, i := range []int{40, 3, 0, 40} {
		if diff := cmp.Diff(a.At(i), b.At(i)); diff != "" {
			t.Errorf("prompt %d differs: %s", i, diff)
		}
	}
	// Frozen: another text under the same seed would be another measurement.
	const want = "ec8ad9818a3eb414"
	if got := a.At(0).Text[:16]; got != want {
		t.Errorf("prompt 0 of seed 7 begins %q, want %q", got, want)
	}
}

func TestSharedPrefixIsSharedAndOfItsSize(t *testing.T) {
	s := synth(1, "measure", 400)
	s.SharedTokens = 300
	source := s.Source()
	a, b := source.At(0).Text, source.At(1).Text
	n := 0
	for n < len(a) && a[n] == b[n] {
		n++
	}
	if want := 300 * DefaultBytesPerToken; math.Abs(float64(n)-want) > 20 {
		t.Errorf("the common prefix has %d bytes, want about %v", n, want)
	}
}

func TestSizeIsReached(t *testing.T) {
	for _, tokens := range []int{64, 512, 4096} {
		s := synth(1, "measure", tokens)
		p := s.Source().At(0)
		if got := float64(len(p.Text)); math.Abs(got-float64(tokens)*4) > 12 || p.Planned != tokens {
			t.Errorf("%d tokens: %v bytes, planned %d", tokens, got, p.Planned)
		}
		// With what a tokenizer says of such text the size comes out in its tokens.
		s.BytesPerToken = float64(len(p.Text)) / float64(sim.CountTokens(p.Text))
		if got := sim.CountTokens(s.Source().At(1).Text); math.Abs(float64(got-tokens)) > 0.05*float64(tokens)+8 {
			t.Errorf("%d tokens asked with a learned ratio: %d came out", tokens, got)
		}
	}
}

func TestSizesFollowTheirDistribution(t *testing.T) {
	cases := map[string]struct {
		mean, sd float64
		low      int
		high     int
	}{
		`300`:                                {300, 0, 300, 300},
		`{"uniform": [100, 199]}`:            {149.5, 28.9, 100, 199},
		`{"normal": [500, 50, 300, 700]}`:    {500, 50, 300, 700},
		`{"choices": {"100": 3, "1000": 1}}`: {325, 389.7, 100, 1000},
		`{"normal": [5, 0, 1, 10]}`:          {5, 0, 5, 5},
	}
	const n = 4000
	for text, want := range cases {
		var size Size
		if err := json.Unmarshal([]byte(text), &size); err != nil {
			t.Fatal(err)
		}
		s := Synthetic{Seed: 1, Stream: "measure", Size: size}
		sum := 0.0
		for i := range n {
			r, _ := s.draws("size", i)
			k := size.Draw(r)
			if k < want.low || k > want.high {
				t.Fatalf("%s: drew %d", text, k)
			}
			sum += float64(k)
		}
		if off := math.Abs(sum/n - want.mean); off > 5*want.sd/math.Sqrt(n)+1e-9 {
			t.Errorf("%s: mean %v, want %v", text, sum/n, want.mean)
		}
	}
	for _, text := range []string{`{"uniform": [9, 2]}`, `{"normal": [5, 1, 9, 2]}`, `{"normal": [50, 1, 2, 9]}`} {
		var size Size
		if err := json.Unmarshal([]byte(text), &size); err != nil || size.Check() == "" {
			t.Errorf("%s: accepted (%v)", text, err)
		}
	}
}

func TestMarkerAndCodeWordsStandInThePrompt(t *testing.T) {
	s := synth(9, "measure", 300)
	s.Checks = Checks{Canaries: true, Words: 3, Seed: 9}
	p := s.Source().At(41)
	if p.Marker != "ANVIL_REQ_9_00041" || !strings.Contains(p.Text, p.Marker) || !strings.HasSuffix(p.Text, ": w00001 w00002 w00003") {
		t.Errorf("marker %q, text ends %q", p.Marker, p.Text[len(p.Text)-200:])
	}
}

func TestCanary(t *testing.T) {
	const m = "ANVIL_REQ_1_00002"
	cases := map[string]struct {
		answer   string
		complete bool
		passed   bool
		own      int
		foreign  int
	}{
		"begins with it":       {m + " and goes on", true, true, 1, 0},
		"blanks before it":     {"\n " + m, true, true, 1, 0},
		"twice":                {m + " " + m, true, true, 2, 0},
		"not at the start":     {"Well, " + m, true, false, 1, 0},
		"missing":              {"nan nan nan", true, false, 0, 0},
		"another's":            {"ANVIL_REQ_1_00003", true, false, 0, 1},
		"another's as well":    {m + " ANVIL_REQ_1_00003", true, false, 1, 1},
		"a longer number":      {m + "1", true, false, 0, 1},
		"capture not complete": {m, false, false, 1, 0},
		"nothing":              {"", true, false, 0, 0},
	}
	for name, tc := range cases {
		c := CheckCanary(m, tc.answer, tc.complete)
		if c.Passed != tc.passed || c.ObservedMarkerCount != tc.own || c.ForeignMarkerCount != tc.foreign {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestCodeWords(t *testing.T) {
	cases := map[string]struct {
		answer      string
		words, more int
	}{
		"exact":         {"w00001 w00002 w00003", 3, 0},
		"with marks":    {"M w00001, w00002, w00003.", 3, 0},
		"short":         {"w00001 w00002", 2, 0},
		"long":          {"w00001 w00002 w00003 and more", 3, 2},
		"out of order":  {"w00002 w00001 w00003", 1, 2},
		"repeated":      {"w00001 w00001 w00002 w00003", 3, 1},
		"other":         {"I will not", 0, 3},
		"beyond number": {"w00001 w00002 w00003 w00004", 3, 1},
	}
	for name, tc := range cases {
		for _, strict := range []bool{false, true} {
			c := CheckWords(3, strict, "M", tc.answer, true)
			exact := tc.words == 3 && tc.more == 0
			if c.ObservedCodeWords != tc.words || c.ObservedExtraWords != tc.more || *c.ExactAdherence != exact || c.Passed != (exact || !strict) {
				t.Errorf("%s strict %v: %+v", name, strict, c)
			}
		}
	}
	if c := CheckWords(3, true, "", "w00001 w00002 w00003", false); c.ExactAdherence != nil || c.Passed {
		t.Errorf("incomplete: %+v", c)
	}
}

func project(t *testing.T, format, file string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := Project(format, strings.NewReader(file), &out)
	return out.String(), err
}

func TestProjectionHoldsWhatIsSentAndNothingElse(t *testing.T) {
	cases := map[string]struct{ format, file, want string }{
		"prompt": {
			"anvil", "{\"tags\":[\"x\"], \"prompt\":\"a é\", \"id\":\"1\",\"expected\":{\"b\":2}}\r\n\n{\"id\":\"2\",\"prompt\":\"\"}\n",
			"{\"id\":\"1\",\"prompt\":\"a é\"}\n{\"id\":\"2\",\"prompt\":\"\"}\n",
		},
		"messages": {
			"anvil", "\ufeff" + `{"id":"1","messages":[{"role":"user","content":"q","name":"n"}],"images":["data:x"],"graders":["g"]}`,
			`{"id":"1","images":["data:x"],"messages":[{"content":"q","name":"n","role":"user"}]}` + "\n",
		},
		"sharegpt": {
			"sharegpt", `[{"id":"c1","conversations":[{"from":"system","value":"s"},{"from":"human","value":"h"},{"from":"gpt","value":"a"}]},{"id":"c2","conversations":[{"from":"gpt","value":"x"}]}]`,
			`{"id":"c1","messages":[{"content":"s","role":"system"},{"content":"h","role":"user"}]}` + "\n",
		},
		"evals": {
			"openai-evals", `{"input":[{"role":"user","content":"q"}],"ideal":"a"}` + "\n" + `{"input":"text","ideal":"a"}`,
			`{"id":"line-1","messages":[{"content":"q","role":"user"}]}` + "\n" + `{"id":"line-2","prompt":"text"}` + "\n",
		},
		"lm-eval lists": {
			"lm-eval", `{"doc_id":3,"doc":{"q":1},"target":"5","arguments":[["Q: 2+3\nA:",{"until":["\n"]}]],"resps":[["5"]],"filter":"strict"}` + "\n" +
				`{"doc_id":3,"arguments":[["Q: 2+3\nA:",{"until":["\n"]}]],"filter":"flexible"}`,
			`{"id":"3","prompt":"Q: 2+3\nA:"}` + "\n",
		},
		"lm-eval counted": {
			"lm-eval", `{"doc_id":0,"arguments":{"gen_args_0":{"arg_0":"q","arg_1":{"max_gen_toks":8}}}}`,
			`{"id":"0","prompt":"q"}` + "\n",
		},
		"lm-eval chat": {
			"lm-eval", `{"doc_id":0,"arguments":{"gen_args_0":{"arg_0":["[{\"role\": \"user\", \"content\": \"q\"}]"],"arg_1":{}}}}` + "\n" +
				`{"doc_id":1,"arguments":[["[{\"role\":\"user\",\"content\":\"r\"}]",{}]]}`,
			`{"id":"0","messages":[{"content":"q","role":"user"}]}` + "\n" + `{"id":"1","messages":[{"content":"r","role":"user"}]}` + "\n",
		},
		"promptfoo configuration": {
			"promptfoo", `{"prompts":["To {{ language }}: {{text}}",{"raw":"{{text}}?","label":"short"}],"defaultTest":{"vars":{"language":"French"}},
				"tests":[{"vars":{"text":"hello"},"assert":[{"type":"contains","value":"x"}]},{"vars":{"text":"yes","language":"German"}}]}`,
			`{"id":"test-1-prompt-1","prompt":"To French: hello"}` + "\n" + `{"id":"test-1-prompt-2","prompt":"hello?"}` + "\n" +
				`{"id":"test-2-prompt-1","prompt":"To German: yes"}` + "\n" + `{"id":"test-2-prompt-2","prompt":"yes?"}` + "\n",
		},
		"promptfoo tests a line": {
			"promptfoo", `{"vars":{"question":"q1"},"assert":[]}` + "\n" + `{"vars":{"prompt":"q2","topic":"x"}}`,
			`{"id":"test-1","prompt":"q1"}` + "\n" + `{"id":"test-2","prompt":"q2"}` + "\n",
		},
		"promptfoo chat": {
			"promptfoo", `{"prompts":["[{\"role\":\"user\",\"content\":\"{{q}}\"}]"],"tests":[{"vars":{"q":"hi"}}]}`,
			`{"id":"test-1","messages":[{"content":"hi","role":"user"}]}` + "\n",
		},
	}
	for name, tc := range cases {
		got, err := project(t, tc.format, tc.file)
		if err != nil || got != tc.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, tc.want)
		}
	}
}

func TestEditsOfExpectationsLeaveTheProjectionAlone(t *testing.T) {
	a, err := project(t, "anvil", `{"id":"1","prompt":"q","expected":1}`)
	if err != nil {
		t.Fatal(err)
	}
	b, err := project(t, "anvil", `{ "expected": {"other": [2]}, "tags": ["t"], "prompt": "q", "id": "1" }`+"\n\n")
	if err != nil || a != b {
		t.Errorf("%q and %q (%v)", a, b, err)
	}
}

func TestFaultyRowsAreNamedByLine(t *testing.T) {
	good := `{"id":"1","prompt":"q"}` + "\n"
	for file, want := range map[string]string{
		"":                                   "no rows",
		good + "{":                           "line 2",
		good + "[1]":                         "line 2: want one JSON object",
		good + "\n" + `{"prompt":"q"}`:       `line 3: a row needs an "id"`,
		good + `{"id":"2"}`:                  `line 2: a row needs "messages"`,
		good + `{"id":"2","prompt":5}`:       `line 2: "prompt": want a text`,
		good + `{"id":2,"prompt":"q"}`:       `line 2: "id": want a text`,
		good + `{"id":"1","prompt":"q"}`:     `line 2: id "1" stands in line 1`,
		good + `{"id":"2","messages":[]}`:    "line 2",
		good + `{"id":"2","messages":["q"]}`: "line 2: messages[0]",
		good + `{"id":"2","prompt":"q","messages":[{"role":"user","content":"q"}]}`: "not both",
		good + `{"id":"2","id":"3","prompt":"q"}`:                                   "line 2",
		good + "{\"id\":\"2\",\"prompt\":\"\xff\"}":                                 "line 2",
		good + `{"id":"2","prompt":"q","tags":"t"}`:                                 `line 2: "tags": want a list`,
		good + `{"id":"2","prompt":"q","graders":[1]}`:                              `line 2: "graders": want`,
	} {
		if _, err := project(t, "anvil", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", file, err, want)
		}
	}
}

func TestWhatOtherHarnessesMeanAndCannotBeSentIsSaid(t *testing.T) {
	for _, tc := range []struct{ format, file, want string }{
		{"lm-eval", `{"doc_id":1,"arguments":[["q"," a"],["q"," b"]]}`, "line 1: 2 requests for one document"},
		{"lm-eval", `{"doc_id":1,"arguments":[["q"," a"]]}`, "likelihood"},
		{"lm-eval", `{"doc_id":1,"prompt":"q"}`, `a row needs "arguments"`},
		{"lm-eval", `{"doc_id":1,"arguments":[["q",{}]]}` + "\n" + `{"doc_id":1,"arguments":[["r",{}]]}`, `id "1" stands in line 1`},
		{"promptfoo", `{"prompts":"file://p.txt","tests":[{"vars":{"a":"b"}}]}`, "only inline prompts"},
		{"promptfoo", `{"prompts":["{{missing}}"],"tests":[{"vars":{"a":"b"}}]}`, `no variable "missing"; there are a`},
		{"promptfoo", `{"prompts":["{{ a | upper }}"],"tests":[{"vars":{"a":"b"}}]}`, "only {{ name }} is read"},
		{"promptfoo", `[{"vars":{"a":"b","c":"d"}}]`, "tests[0]: no prompt"},
		{"promptfoo", `{"tests":"file://tests.csv","prompts":["a"]}`, `promptfoo: "tests": want a list, got string`},
		{"promptfoo", "prompts: [a]", "YAML and CSV are not read"},
		{"promptfoo", "{", "promptfoo: line 1"},
		{"promptfoo", "", "empty"},
		{"anvil", `{"id":"1","messages":[{"Role":"user","content":"q"}]}`, `messages[0]: want an object with a "role"`},
		{"anvil", `{"id":"1","messages":[{"role":"user","content":7}],"images":["x"]}`, `messages[0]: "content": want a text or a list`},
		{"anvil", `{"id":"1","messages":[{"role":"user","content":["q"]}]}`, `messages[0]: "content": want a text or a list of parts, each an object`},
		{"openai-evals", `{"input":[{"role":"user","content":{"text":"q"}}]}`, `messages[0]: "content"`},
		{"lm-eval", `{"doc_id":0,"arguments":{"gen_args_0":{"arg_0":["[{\"role\": \"user\", \"content\": 1}]"],"arg_1":{}}}}`, `messages[0]: "content"`},
	} {
		if _, err := project(t, tc.format, tc.file); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %q: error %v, want %q", tc.format, tc.file, err, tc.want)
		}
	}
}

func TestDatasetOrderAndEpochs(t *testing.T) {
	var rows strings.Builder
	for i := range 20 {
		fmt.Fprintf(&rows, "{\"id\":\"%02d\",\"prompt\":\"q%d\"}\n", i, i)
	}
	ids := func(d Dataset) (out []string) {
		source, err := d.Source(strings.NewReader(rows.String()))
		if err != nil {
			t.Fatal(err)
		}
		for i := range source.Len() {
			out = append(out, source.At(i).Item)
		}
		return out
	}
	plain := ids(Dataset{Epochs: 2})
	if len(plain) != 40 || !slices.IsSorted(plain[:20]) || !slices.Equal(plain[:20], plain[20:]) {
		t.Errorf("file order %v", plain)
	}
	mixed := ids(Dataset{Epochs: 2, Order: shuffler(1)})
	if slices.IsSorted(mixed[:20]) || slices.Equal(mixed[:20], mixed[20:]) || !slices.Equal(mixed, ids(Dataset{Epochs: 2, Order: shuffler(1)})) {
		t.Errorf("shuffled order %v", mixed)
	}
	for _, epoch := range [][]string{mixed[:20], mixed[20:]} {
		if seen := maps.Collect(slices.All(slices.Sorted(slices.Values(epoch)))); len(seen) != 20 || seen[0] != "00" || seen[19] != "19" {
			t.Errorf("an epoch does not hold every row once: %v", epoch)
		}
	}
}

func TestRowsAreSentAsTheyStand(t *testing.T) {
	rows := `{"id":"a","messages":[{"content":[{"text":"look","type":"text"}],"role":"user"},{"content":"no","role":"assistant"}]}
{"id":"b","images":["data:1"],"prompt":"what is it?"}
{"id":"c","messages":[{"content":"sys","role":"system"},{"content":"q","name":"n","role":"user"}]}
{"id":"d","images":["data:2"],"messages":[{"Content":"not this","content":null,"role":"assistant","tool_calls":[]}]}
{"id":"e","messages":[{"role":"user"}]}
`
	source, err := Dataset{Checks: Checks{Canaries: true, Seed: 1}}.Source(strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{`{"content":[{"text":"look","type":"text"},{"text":"\n\nBegin the answer with ANVIL_REQ_1_00000 and write no other marker of this kind.","type":"text"}],"role":"user"}`, `{"content":"no","role":"assistant"}`},
		{`{"content":[{"text":"what is it?","type":"text"},{"text":"\n\nBegin the answer with ANVIL_REQ_1_00001 and write no other marker of this kind.","type":"text"},{"image_url":{"url":"data:1"},"type":"image_url"}],"role":"user"}`},
		{`{"content":"sys","role":"system"}`, `{"content":"q\n\nBegin the answer with ANVIL_REQ_1_00002 and write no other marker of this kind.","name":"n","role":"user"}`},
		{`{"Content":"not this","content":[{"text":"\n\nBegin the answer with ANVIL_REQ_1_00003 and write no other marker of this kind.","type":"text"},{"image_url":{"url":"data:2"},"type":"image_url"}],"role":"assistant","tool_calls":[]}`},
		{`{"content":"\n\nBegin the answer with ANVIL_REQ_1_00004 and write no other marker of this kind.","role":"user"}`},
	}
	for i, messages := range want {
		p := source.At(i)
		var got []string
		for _, m := range p.Messages {
			got = append(got, string(m.Raw))
		}
		if diff := cmp.Diff(messages, got); diff != "" {
			t.Errorf("row %d: %s", i, diff)
		}
		if p.Digest.IsZero() || p.Item != string(rune('a'+i)) {
			t.Errorf("row %d: item %q digest %s", i, p.Item, p.Digest)
		}
	}
}

func FuzzProject(f *testing.F) {
	f.Add("anvil", []byte(`{"id":"1","prompt":"q"}`))
	f.Add("anvil", []byte(`{"id":"1","messages":[{"role":"user","content":[{"type":"text","text":"q"}]}],"images":["x"]}`))
	f.Add("anvil", []byte(`{"id":"1","messages":[{"role":"user","content":7}],"images":["x"]}`))
	f.Add("anvil", []byte(`{"id":"1","messages":[{"role":"assistant"}],"images":["x"]}`))
	f.Add("sharegpt", []byte(`[{"conversations":[{"from":"human","value":"h"}]}]`))
	f.Add("openai-evals", []byte(`{"input":"x"}`))
	f.Add("lm-eval", []byte(`{"doc_id":0,"arguments":{"gen_args_0":{"arg_0":["[{\"role\": \"user\"}]"],"arg_1":{}}}}`))
	f.Add("promptfoo", []byte(`{"prompts":["{{ a }}"],"tests":[{"vars":{"a":1}}]}`))
	f.Fuzz(func(t *testing.T, format string, file []byte) {
		var first bytes.Buffer
		if Project(format, bytes.NewReader(file), &first) != nil {
			return
		}
		// A projection is a dataset of its own: it projects to itself and can be sent.
		var second bytes.Buffer
		if err := Project("anvil", bytes.NewReader(first.Bytes()), &second); err != nil || first.String() != second.String() {
			t.Fatalf("projected again: %v\n%s\n%s", err, first.Bytes(), second.Bytes())
		}
		for _, checks := range []Checks{{}, {Canaries: true, Seed: 1}} {
			if _, err := (Dataset{Checks: checks}).Source(bytes.NewReader(first.Bytes())); err != nil {
				t.Fatalf("sent: %v", err)
			}
		}
	})
}
