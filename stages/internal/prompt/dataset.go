package prompt

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"anvil/pipeline/digest"
	"anvil/stages/internal/engine"
)

// Dataset declares how the rows of a projection are sent.
type Dataset struct {
	Order  *rand.Rand // shuffles each epoch; nil: as the file stands
	Epochs int
	Checks Checks

	BytesPerToken float64 // by which sizes are estimated; 0: DefaultBytesPerToken
}

type dataset struct {
	rows   []Row
	order  []int // of all epochs
	checks Checks
	ratio  float64
}

// Source reads a projection, as Project writes it.
func (d Dataset) Source(projection io.Reader) (Source, error) {
	s := dataset{checks: d.Checks, ratio: cmp.Or(d.BytesPerToken, DefaultBytesPerToken)}
	err := eachLine(projection, func(n int, raw []byte) error {
		var r Row
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		s.rows = append(s.rows, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for range max(d.Epochs, 1) {
		from := len(s.order)
		for i := range s.rows {
			s.order = append(s.order, i)
		}
		if epoch := s.order[from:]; d.Order != nil {
			d.Order.Shuffle(len(epoch), func(i, j int) { epoch[i], epoch[j] = epoch[j], epoch[i] })
		}
	}
	// What cannot be sent shows before anything is.
	for i := range s.rows {
		if _, err := s.build(i, i); err != nil {
			return nil, fmt.Errorf("item %q: %w", s.rows[i].ID, err)
		}
	}
	return s, nil
}

func (s dataset) Len() int { return len(s.order) }

func (s dataset) At(i int) Prompt {
	p, _ := s.build(i, s.order[i]) // every row was built once before
	return p
}

func (s dataset) build(i, row int) (Prompt, error) {
	r := s.rows[row]
	p := Prompt{Item: r.ID}
	s.checks.put(&p, i)
	ask := s.checks.ask(i)
	if r.Prompt != nil && len(r.Images) == 0 {
		p.Text = *r.Prompt + ask
		p.Digest = digest.FromBytes([]byte(p.Text))
		p.Planned = s.estimate(len(p.Text))
		return p, nil
	}
	ms, err := r.conversation(ask)
	if err != nil {
		return p, err
	}
	p.Messages = ms
	n := 0
	for _, m := range ms {
		n += len(m.Text)
	}
	p.Planned = s.estimate(n)
	p.Digest, err = digestMessages(ms)
	return p, err
}

// estimate is the size of a text of n bytes in tokens: nobody planned that of a
// row, and records of other kinds have no null for it.
func (s dataset) estimate(n int) int { return max(int(math.Round(float64(n)/s.ratio)), 1) }

// conversation returns the messages with ask and the images in the last one of
// the user.
func (r Row) conversation(ask string) ([]engine.Message, error) {
	raws := r.Messages
	if r.Prompt != nil {
		m, err := json.Marshal(map[string]string{"role": "user", "content": *r.Prompt})
		if err != nil {
			return nil, err
		}
		raws = []json.RawMessage{m}
	}
	out := make([]engine.Message, len(raws))
	for i, raw := range raws {
		m, err := readMessage(raw)
		if err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		out[i] = engine.Message{Role: m.role, Text: m.text(), Raw: raw}
	}
	if ask == "" && len(r.Images) == 0 {
		return out, nil
	}
	last := len(out) - 1
	for i := last; i >= 0; i-- {
		if out[i].Role == "user" {
			last = i
			break
		}
	}
	return out, extend(&out[last], ask, r.Images)
}

// extend adds a paragraph and images to a message, whose other members stay.
func extend(out *engine.Message, ask string, images []string) error {
	m, err := readMessage(out.Raw)
	if err != nil {
		return err
	}
	out.Text += ask
	var content any = out.Text
	if m.parts != nil || len(images) > 0 {
		parts := make([]any, 0, len(m.parts)+len(images)+1)
		for _, p := range m.parts {
			parts = append(parts, p)
		}
		if m.plain != "" {
			parts = append(parts, part("text", "text", m.plain))
		}
		if ask != "" {
			parts = append(parts, part("text", "text", ask))
		}
		for _, url := range images {
			parts = append(parts, part("image_url", "image_url", map[string]string{"url": url}))
		}
		content = parts
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	m.fields["content"] = raw
	out.Raw, err = json.Marshal(m.fields)
	return err
}

func part(kind, key string, value any) any { return map[string]any{"type": kind, key: value} }
