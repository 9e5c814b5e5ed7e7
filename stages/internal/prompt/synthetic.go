package prompt

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"anvil/pipeline/digest"
)

// DefaultBytesPerToken is assumed of text where nothing was learned about the
// engine's tokenizer.
const DefaultBytesPerToken = 4.0

// Synthetic declares made-up prompts.
type Synthetic struct {
	Seed          int64
	Stream        string // prompts of different streams share nothing
	Size          Size
	SharedTokens  int     // size of a prefix that all prompts have in common
	BytesPerToken float64 // 0: DefaultBytesPerToken
	Checks        Checks
}

type synthetic struct {
	Synthetic
	shared string
}

// Source returns the prompts.
func (s Synthetic) Source() Source {
	if s.BytesPerToken <= 0 {
		s.BytesPerToken = DefaultBytesPerToken
	}
	out := synthetic{Synthetic: s}
	if s.SharedTokens > 0 {
		r, name := s.draws("shared", 0)
		out.shared = fill("Notes "+name+":", s.bytes(s.SharedTokens), r)
	}
	return out
}

func (s synthetic) Len() int { return -1 }

// At makes the prompt: what is shared by all, then the part that no other
// prompt has, then words up to the size, then what is asked for.
func (s synthetic) At(i int) Prompt {
	sizes, _ := s.draws("size", i)
	tokens := s.Size.Draw(sizes)
	words, name := s.draws("words", i)
	ask := s.Checks.ask(i)
	if ask == "" {
		ask = "\n\nWrite a long story that uses these words."
	}
	head := name + " "
	if s.shared != "" {
		head = s.shared + "\n\n" + head
	}
	text := fill(head, s.bytes(tokens)-len(ask), words) + ask
	p := Prompt{Text: text, Planned: tokens, Digest: digest.FromBytes([]byte(text))}
	s.Checks.put(&p, i)
	return p
}

func (s Synthetic) bytes(tokens int) int { return int(math.Round(float64(tokens) * s.BytesPerToken)) }

// draws returns the random stream of one purpose and index, and 16 hex digits
// that name it.
func (s Synthetic) draws(purpose string, i int) (*rand.Rand, string) {
	sum := sha256.Sum256(fmt.Appendf(nil, "anvil.prompt/v1\n%s\n%d\n%s\n%d\n", s.Stream, s.Seed, purpose, i))
	return rand.New(rand.NewChaCha8(sum)), hex.EncodeToString(binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(sum[:])))
}

// fill appends words to head until it is about size bytes long.
func fill(head string, size int, r *rand.Rand) string {
	var b strings.Builder
	b.Grow(max(size, len(head)) + 16)
	b.WriteString(head)
	for {
		w := vocabulary[r.IntN(len(vocabulary))]
		if b.Len()+len(w)+1 > size {
			return b.String()
		}
		b.WriteByte(' ')
		b.WriteString(w)
	}
}

// Sample is a text of the kind that prompts are made of, for asking a tokenizer
// how long its tokens are.
func Sample() string {
	return Synthetic{Stream: "sample", Size: Size{Fixed: 512}}.Source().At(0).Text
}

// A Size is a number of tokens or the distribution that it is drawn from; its
// JSON is that of the plan key context_tokens.
type Size struct {
	Fixed   int
	Uniform []int     // [a, b]
	Normal  []float64 // [mean, sd, min, max]
	tokens  []int     // of choices, ascending
	total   []float64 // their weights, summed up
}

// UnmarshalJSON reads the four forms.
func (s *Size) UnmarshalJSON(b []byte) error {
	*s = Size{}
	if json.Unmarshal(b, &s.Fixed) == nil {
		return nil
	}
	var form struct {
		Uniform []int
		Normal  []float64
		Choices map[string]float64
	}
	if err := json.Unmarshal(b, &form); err != nil {
		return fmt.Errorf("context_tokens: %w", err)
	}
	s.Uniform, s.Normal = form.Uniform, form.Normal
	weights := map[int]float64{}
	for text, w := range form.Choices {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("context_tokens: choices: %w", err)
		}
		weights[n] = w
	}
	sum := 0.0
	for _, n := range slices.Sorted(maps.Keys(weights)) {
		sum += weights[n]
		s.tokens, s.total = append(s.tokens, n), append(s.total, sum)
	}
	return nil
}

// Check says what is wrong with a distribution, "" for nothing.
func (s Size) Check() string {
	switch {
	case len(s.Uniform) == 2 && s.Uniform[0] > s.Uniform[1]:
		return fmt.Sprintf("uniform: %d is above %d", s.Uniform[0], s.Uniform[1])
	case len(s.Normal) == 4 && (s.Normal[2] > s.Normal[3] || s.Normal[3] < 1):
		return "normal: want [mean, standard deviation, minimum, maximum] with minimum <= maximum and maximum >= 1"
	case len(s.Normal) == 4 && (s.Normal[0] < s.Normal[2] || s.Normal[0] > s.Normal[3]):
		return fmt.Sprintf("normal: the mean %v is outside %v to %v", s.Normal[0], s.Normal[2], s.Normal[3])
	}
	return ""
}

// Draw returns a size of at least 1.
func (s Size) Draw(r *rand.Rand) int {
	switch {
	case len(s.Uniform) == 2:
		return s.Uniform[0] + r.IntN(s.Uniform[1]-s.Uniform[0]+1)
	case len(s.Normal) == 4:
		return s.normal(r)
	case len(s.tokens) > 0:
		i, _ := slices.BinarySearch(s.total, r.Float64()*s.total[len(s.total)-1])
		return s.tokens[min(i, len(s.tokens)-1)]
	}
	return s.Fixed
}

// normal draws again what falls outside; the mean lies inside, so that at least
// a third of the draws does not, or all draws are the mean.
func (s Size) normal(r *rand.Rand) int {
	mean, sd, low, high := s.Normal[0], s.Normal[1], max(s.Normal[2], 1), s.Normal[3]
	for range 1000 {
		if n := math.Round(mean + sd*r.NormFloat64()); n >= low && n <= high {
			return int(n)
		}
	}
	return int(math.Round(min(max(mean, low), high)))
}
