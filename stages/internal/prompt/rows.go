package prompt

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gowebpki/jcs"

	"anvil/schemas"
	"anvil/stages/internal/rows"
	"anvil/stages/record"
)

// RowSchema is the id of one row of a dataset, and of the projection of one: the
// same rows with nothing but what is sent.
const RowSchema schemas.ID = "anvil.dataset/v1"

// maxRow bounds what is read as one document.
const maxRow = record.MaxLine

// A Row is what of a dataset's row is sent.
type Row struct {
	ID       string            `json:"id"`
	Messages []json.RawMessage `json:"messages,omitempty"`
	Prompt   *string           `json:"prompt,omitempty"`
	Images   []string          `json:"images,omitempty"`
}

// Project writes, for each row of a dataset, one line of JCS with its id,
// messages or prompt, and images: what of the file is sent. Errors name the line.
func Project(format string, file io.Reader, w io.Writer) error {
	read, ok := formats[format]
	if !ok {
		return fmt.Errorf("dataset format %q is not built", format)
	}
	out := bufio.NewWriter(w)
	seen := map[string]int{}
	err := read(file, func(line int, r Row) error {
		if err := r.check(); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if before, ok := seen[r.ID]; ok {
			return fmt.Errorf("line %d: id %q stands in line %d already; every row needs its own", line, r.ID, before)
		}
		seen[r.ID] = line
		raw, err := json.Marshal(r)
		if err == nil {
			raw, err = jcs.Transform(raw)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		_, err = out.Write(append(raw, '\n'))
		return err
	})
	if err != nil {
		return err
	}
	if len(seen) == 0 {
		return errors.New("the dataset has no rows")
	}
	return out.Flush()
}

func (r Row) check() error {
	switch {
	case r.ID == "":
		return errors.New(`a row needs an "id", a text`)
	case len(r.Messages) == 0 && r.Prompt == nil:
		return errors.New(`a row needs "messages", a list that is not empty, or "prompt", a text`)
	case len(r.Messages) > 0 && r.Prompt != nil:
		return errors.New(`a row has "messages" or "prompt", not both`)
	}
	for i, raw := range r.Messages {
		if _, err := readMessage(raw); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	return nil
}

// formats is the table of the shapes that rows are read from.
var formats = map[string]func(file io.Reader, row func(line int, r Row) error) error{
	"anvil":        perLine(anvilRow),
	"openai-evals": perLine(evalsRow),
	"sharegpt":     shareGPT,
	"lm-eval":      lmEval,
	"promptfoo":    promptfoo,
}

// KnownFormat tells whether a format is built.
func KnownFormat(name string) bool { _, ok := formats[name]; return ok }

// perLine reads JSON Lines; blank lines are skipped.
func perLine(parse func(line int, raw []byte) (Row, error)) func(io.Reader, func(int, Row) error) error {
	return func(file io.Reader, row func(int, Row) error) error {
		return eachLine(file, func(n int, raw []byte) error {
			if err := strict(raw); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			r, err := parse(n, raw)
			if errors.Is(err, errNothingAsked) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			return row(n, r)
		})
	}
}

// eachLine, strict and readable are those by which grade reads datasets too.
func eachLine(file io.Reader, do func(n int, raw []byte) error) error { return rows.Each(file, do) }
func strict(raw []byte) error                                         { return rows.Strict(raw) }
func readable(err error) error                                        { return rows.Readable(err) }

// anvilRow also reads what is not sent: a row that cannot be graded is found
// before anything is asked.
func anvilRow(_ int, raw []byte) (r Row, err error) {
	if _, err := rows.ReadHead(raw); err != nil {
		return r, err
	}
	err = readable(json.Unmarshal(raw, &r))
	return r, err
}

// evalsRow reads a row of openai/evals: "input" holds the messages, or the text.
func evalsRow(line int, raw []byte) (Row, error) {
	var in struct {
		ID    any             `json:"id"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return Row{}, err
	}
	r := Row{ID: name(in.ID, line)}
	var text string
	if json.Unmarshal(in.Input, &text) == nil {
		r.Prompt = &text
		return r, nil
	}
	if err := json.Unmarshal(in.Input, &r.Messages); err != nil {
		return Row{}, errors.New(`"input": want a list of messages or a text`)
	}
	return r, nil
}

// name gives rows without an id the number of their line.
func name(id any, line int) string {
	switch v := id.(type) {
	case string:
		return v
	case float64:
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("line-%d", line)
}

// shareGPT reads conversations, a JSON array or an object a line; what is sent
// of each is the first turn of the human, after the system's if there is one.
func shareGPT(file io.Reader, row func(int, Row) error) error {
	in := bufio.NewReader(file)
	first, err := firstByte(in)
	if err != nil {
		return err
	}
	if first == '{' {
		return perLine(conversation)(in, row)
	}
	dec := json.NewDecoder(in)
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("want a JSON array: %w", err)
	}
	for n := 1; dec.More(); n++ {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return fmt.Errorf("conversation %d: %w", n, err)
		}
		r, err := conversation(n, raw)
		if errors.Is(err, errNothingAsked) {
			continue
		}
		if err != nil {
			return fmt.Errorf("conversation %d: %w", n, err)
		}
		if err := row(n, r); err != nil {
			return err
		}
	}
	return nil
}

func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, fmt.Errorf("the dataset is empty: %w", err)
		}
		if !bytes.ContainsRune([]byte(" \t\r\n\xef\xbb\xbf"), rune(b)) {
			return b, in.UnreadByte()
		}
	}
}

// errNothingAsked: a conversation without a turn of the human is passed over.
var errNothingAsked = errors.New("nobody asks anything")

func conversation(n int, raw []byte) (Row, error) {
	var in struct {
		ID            any `json:"id"`
		Conversations []struct {
			From  string `json:"from"`
			Value string `json:"value"`
		} `json:"conversations"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return Row{}, err
	}
	r := Row{ID: name(in.ID, n)}
	for _, turn := range in.Conversations {
		role := map[string]string{"system": "system", "human": "user", "user": "user"}[turn.From]
		if role == "" {
			continue
		}
		m, err := json.Marshal(map[string]string{"role": role, "content": turn.Value})
		if err != nil {
			return Row{}, err
		}
		r.Messages = append(r.Messages, m)
		if role == "user" {
			return r, nil
		}
	}
	return Row{}, errNothingAsked
}
