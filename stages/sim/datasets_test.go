package sim

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files under testdata anew")

const datasetsDir = "../../testdata/datasets"

// A datasetRow is one line of anvil.dataset/v1.
type datasetRow struct {
	ID       string           `json:"id"`
	Messages []datasetMessage `json:"messages"`
	Expected struct {
		Fields map[string]any `json:"fields"`
	} `json:"expected"`
	Tags []string `json:"tags"`
}

type datasetMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func TestDatasetFilesAreWhatTheGeneratorMakes(t *testing.T) {
	for name, got := range map[string][]byte{
		"evidence-4k.jsonl": evidence4k(),
		"quick.jsonl":       quick(),
	} {
		path := filepath.Join(datasetsDir, name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what its generator makes; run go test ./stages/sim -update", name)
		}
	}
}

func readDataset(t *testing.T, name string) (rows []datasetRow) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(datasetsDir, name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(src) {
		var row datasetRow
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func TestEvidenceCasesAreIndependentAndOfTheDeclaredSize(t *testing.T) {
	rows := readDataset(t, "evidence-4k.jsonl")
	if len(rows) != 8 {
		t.Fatalf("got %d cases, want 8", len(rows))
	}
	beginnings := map[string]string{}
	for _, row := range rows {
		text := row.Messages[0].Content
		if n := CountTokens(text); n < 3900 || n > 4200 {
			t.Errorf("%s has %d tokens, want about 4,000", row.ID, n)
		}
		if other, taken := beginnings[text[:16]]; taken {
			t.Errorf("%s and %s begin alike: one would warm the other's prefix", row.ID, other)
		}
		beginnings[text[:16]] = row.ID
		if n := len(row.Expected.Fields); n < 4 || n > 6 {
			t.Errorf("%s has %d fields, want 4 to 6", row.ID, n)
		}
	}
}

// A key that the document stated twice, or never, would make the expectation
// a matter of taste.
func TestEachFieldIsStatedExactlyOnce(t *testing.T) {
	for _, name := range []string{"evidence-4k.jsonl", "quick.jsonl"} {
		for _, row := range readDataset(t, name) {
			text := strings.ToLower(strings.Join(strings.Fields(row.Messages[0].Content), " "))
			for key := range row.Expected.Fields {
				subject := "the " + strings.ReplaceAll(key, "_", " ") + " "
				if n := strings.Count(text, subject+"is ") + strings.Count(text, subject+"was "); n != 1 {
					t.Errorf("%s states %s %d times, want once", row.ID, key, n)
				}
			}
		}
	}
}

func evidence4k() []byte {
	var out bytes.Buffer
	for i, s := range subjects() {
		writeRow(&out, s.row(rand.New(rand.NewPCG(20260920, uint64(i)))))
	}
	return out.Bytes()
}

func writeRow(out *bytes.Buffer, row datasetRow) {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(row); err != nil {
		panic(err)
	}
}

// A subject is what one document is about.
type subject struct {
	id, title, body string
	people          []string
	places          []string
	things          []string
	own             []string // sentences of this document alone
	facts           []statement
}

// A statement is a sentence that states the value of a key.
type statement struct {
	key, lead, value string
	expected         any
}

func (s statement) sentence() string {
	verb := " is "
	if strings.HasPrefix(s.value, "=") {
		verb = " was "
	}
	lead := "The "
	if s.lead != "" {
		lead = s.lead + ", the "
	}
	return lead + strings.ReplaceAll(s.key, "_", " ") + verb + strings.TrimPrefix(s.value, "=") + "."
}

func newRow(id, text string, facts []statement, tags ...string) datasetRow {
	keys := make([]string, len(facts))
	row := datasetRow{ID: id, Tags: tags}
	row.Expected.Fields = map[string]any{}
	for i, f := range facts {
		keys[i] = f.key
		row.Expected.Fields[f.key] = f.expected
	}
	slices.Sort(keys)
	text += "\n\nAnswer from the text above with one JSON object with exactly these keys: " + strings.Join(keys, ", ") +
		"\nGive numbers as JSON numbers without separators or units, and everything else as a string in the words of the text. Write nothing but the object.\n"
	row.Messages = []datasetMessage{{Role: "user", Content: text}}
	return row
}

// row writes the document: paragraphs of prose up to about 4,000 tokens, with
// the statements spread over them.
func (s subject) row(r *rand.Rand) datasetRow {
	const target = 3960
	prose := s.prose(r)
	facts := slices.Clone(s.facts)
	r.Shuffle(len(facts), func(a, b int) { facts[a], facts[b] = facts[b], facts[a] })
	question := CountTokens(newRow(s.id, "", s.facts).Messages[0].Content)
	var text strings.Builder
	text.WriteString("# " + s.title + "\n\n")
	tokens := CountTokens(s.title) + question
	next := 0
	for paragraph := 0; tokens < target; paragraph++ {
		sentences := 4 + r.IntN(4)
		for i := range sentences {
			sentence := prose()
			due := (next*2 + 1) * (target - question) / (2 * len(facts))
			if next < len(facts) && tokens-question > due && i > 0 {
				sentence = facts[next].sentence()
				next++
			}
			tokens += CountTokens(" " + sentence)
			text.WriteString(sentence + map[bool]string{true: "\n\n", false: " "}[i == sentences-1])
		}
	}
	for ; next < len(facts); next++ {
		text.WriteString(facts[next].sentence() + " ")
	}
	return newRow(s.id, strings.TrimSpace(text.String()), s.facts, "evidence", "4k", s.id[strings.IndexByte(s.id, '-')+1:])
}

// prose returns one sentence after the other; none comes again before all others came.
func (s subject) prose(r *rand.Rand) func() string {
	templates := append(slices.Clone(s.own), chronicle()...)
	var deck []string
	return func() string {
		if len(deck) == 0 {
			deck = slices.Clone(templates)
			r.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
		}
		template := deck[0]
		deck = deck[1:]
		return s.fill(r, template)
	}
}

func (s subject) fill(r *rand.Rand, template string) string {
	pick := func(from []string) []string {
		p := r.Perm(len(from))
		return []string{from[p[0]], from[p[1]]}
	}
	people, places, things := pick(s.people), pick(s.places), pick(s.things)
	months := pick(strings.Fields("January February March April May June July August September October November December"))
	days := pick(strings.Fields("Monday Tuesday Wednesday Thursday Friday Saturday"))
	numbers := pick(strings.Fields("three four five seven eight nine eleven twelve fourteen fifteen eighteen twenty"))
	return strings.NewReplacer(
		"{o}", s.body, "{p}", people[0], "{q}", people[1], "{l}", places[0], "{k}", places[1],
		"{t}", things[0], "{u}", things[1], "{m}", months[0], "{n}", months[1], "{d}", days[0],
		"{x}", numbers[0], "{z}", numbers[1], "{y}", fmt.Sprint(1950+r.IntN(70)),
	).Replace(template)
}
