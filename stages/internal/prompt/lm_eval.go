package prompt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// lmEval reads the samples that EleutherAI's lm-evaluation-harness logs with
// --log_samples: the document's number and the arguments of its request. Only
// generations can be sent. The harness writes a document once for each filter
// over its answers; it is asked once.
func lmEval(file io.Reader, row func(int, Row) error) error {
	asked := map[string]string{}
	return perLine(func(line int, raw []byte) (Row, error) {
		r, text, err := lmEvalRow(line, raw)
		if err != nil {
			return r, err
		}
		if before, ok := asked[r.ID]; ok && before == text {
			return r, errNothingAsked
		}
		asked[r.ID] = text
		return r, nil
	})(file, row)
}

func lmEvalRow(line int, raw []byte) (r Row, text string, err error) {
	var in struct {
		ID        any             `json:"doc_id"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return r, "", err
	}
	args, err := lmEvalArguments(in.Arguments)
	if err != nil {
		return r, "", err
	}
	var one []string // a conversation as the harness logs it for chat APIs
	if json.Unmarshal(args[0], &one) == nil && len(one) == 1 {
		text = one[0]
	} else if err := json.Unmarshal(args[0], &text); err != nil {
		return r, "", errors.New(`"arguments": the first one of a request is its prompt, a text`)
	}
	r.ID = name(in.ID, line)
	if r.Messages = lmEvalChat(text); r.Messages == nil {
		r.Prompt = &text
	}
	return r, text, nil
}

// lmEvalArguments returns the arguments of the one request of a row, in either
// form: lists, or objects that count them (gen_args_0, arg_0).
func lmEvalArguments(raw json.RawMessage) ([]json.RawMessage, error) {
	var lists [][]json.RawMessage
	if json.Unmarshal(raw, &lists) != nil {
		var objects map[string]map[string]json.RawMessage
		if json.Unmarshal(raw, &objects) != nil {
			return nil, errors.New(`a row needs "arguments": are these the samples that --log_samples writes?`)
		}
		for _, request := range slices.Sorted(maps.Keys(objects)) {
			o := objects[request]
			lists = append(lists, []json.RawMessage{o["arg_0"], o["arg_1"]})
		}
	}
	if len(lists) != 1 {
		return nil, fmt.Errorf("%d requests for one document: only generations can be sent, not the likelihood of choices", len(lists))
	}
	args := lists[0]
	var continuation string
	if len(args) > 1 && json.Unmarshal(args[1], &continuation) == nil && string(args[1]) != "null" {
		return nil, errors.New("a request for the likelihood of a continuation: only generations can be sent")
	}
	if len(args) == 0 || args[0] == nil {
		return nil, errors.New(`"arguments": no prompt in them`)
	}
	return args, nil
}

// lmEvalChat returns the messages of a prompt that is a conversation as JSON,
// as the harness has it for chat APIs; nil for a plain text.
func lmEvalChat(text string) []json.RawMessage {
	var one []string
	if json.Unmarshal([]byte(text), &one) == nil && len(one) == 1 {
		text = one[0]
	}
	var messages []json.RawMessage
	if json.Unmarshal([]byte(text), &messages) != nil || len(messages) == 0 {
		return nil
	}
	for _, raw := range messages {
		if m, _ := readMessage(raw); m.role == "" {
			return nil
		}
	}
	return messages
}
