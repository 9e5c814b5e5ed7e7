package record

import (
	"fmt"
	"strings"

	"anvil/pipeline/digest"
	"anvil/schemas"
)

// AttemptsSchema is the id of the attempts of a measurement.
const AttemptsSchema schemas.ID = "anvil.attempts/v1"

// An AttemptsHeader is the first line of attempts.jsonl.zst.
type AttemptsHeader struct {
	Schema   schemas.ID       `json:"schema"`
	Client   string           `json:"client"`
	Cell     map[string]any   `json:"cell"`
	Endpoint AttemptsEndpoint `json:"endpoint"`
	Load     any              `json:"load"` // as resolved
	Planned  *int             `json:"planned"`
	Stamps   string           `json:"stamps"` // "kernel", "kernel_tls" or "user"
	Clock    AttemptsClock    `json:"clock"`
	Seed     int64            `json:"seed"` // of the workload
	// Request is what every request of the phase had in common; a record needs
	// it and the contract leaves room for it.
	Request AttemptsRequest `json:"request"`
}

// AttemptsEndpoint says where the requests went; credentials are removed from the URL.
type AttemptsEndpoint struct {
	API     string  `json:"api"`
	Model   string  `json:"model"`
	BaseURL *string `json:"base_url"` // null: the embedded engine
}

// AttemptsClock is the wall clock at the phase's start; labels only.
type AttemptsClock struct {
	WallStartAt     string `json:"wall_start_at"`
	WallStartUnixNS int64  `json:"wall_start_unix_ns"`
}

// AttemptsRequest is the declared workload as it was resolved: measure's
// protocol, max_tokens, workload and sampling.
type AttemptsRequest struct {
	Protocol  string `json:"protocol"`
	MaxTokens int    `json:"max_tokens"`
	Workload  any    `json:"workload"`
	Sampling  any    `json:"sampling"`
	ExtraBody any    `json:"extra_body,omitempty"` // of the endpoint, merged last
}

// An AttemptsFooter is the last line; a file without one is incomplete.
type AttemptsFooter struct {
	Footer   bool   `json:"footer"`
	Lines    int    `json:"lines"` // between header and footer
	Complete bool   `json:"complete"`
	Status   string `json:"status"` // "completed" or "aborted"
}

// An Attempt is one planned request, whatever became of it. Times are
// nanoseconds from the phase's start on one monotonic clock.
type Attempt struct {
	Index              int            `json:"index"`
	Client             string         `json:"client"`
	Item               *string        `json:"item"`    // dataset row's id, null for a synthetic prompt
	Session            *string        `json:"session"` // null outside sessions
	Turn               int            `json:"turn"`
	PromptSHA256       digest.Digest  `json:"prompt_sha256"`
	RequestSHA256      *digest.Digest `json:"request_sha256"` // of the body as sent; null when none was built
	PlannedInputTokens *int           `json:"planned_input_tokens"`
	MaxOutputTokens    int            `json:"max_output_tokens"`
	T                  Stamps         `json:"t"`

	Arrivals     []int64  `json:"arrivals"`      // the first an offset, the others differences; one an output event
	ArrivalKinds string   `json:"arrival_kinds"` // r reasoning, c content, t tool call, f refusal
	Coalesced    string   `json:"coalesced"`     // 1 where the event shares its arrival with another
	SeenEmpty    []*int64 `json:"seen_empty"`    // lower bound of a coalesced arrival
	ClientDelay  []int64  `json:"client_delay"`  // user-space return minus arrival; null with user stamps

	Outcome       Outcome       `json:"outcome"`
	Notes         []string      `json:"notes"`
	Error         *AttemptError `json:"error"`
	HTTPStatus    *int          `json:"http_status"`
	FinishReasons []string      `json:"finish_reasons"`
	DoneMarker    bool          `json:"done_marker"`
	Model         *string       `json:"model"` // as the answer names it
	Usage         Usage         `json:"usage"`
	EngineTokens  *int          `json:"engine_tokens"` // the text counted by the engine's own /tokenize

	Text          *string       `json:"text"`
	Reasoning     *string       `json:"reasoning"`
	ToolCalls     []ToolCall    `json:"tool_calls"`
	TextSHA256    digest.Digest `json:"text_sha256"` // of the whole text, also when it is cut or not stored
	TextTruncated bool          `json:"text_truncated"`

	Choices          int               `json:"choices"`
	Canary           *Canary           `json:"canary"`
	ControlledOutput *ControlledOutput `json:"controlled_output"`
	Tries            []Try             `json:"tries"`
}

// Stamps are the moments of one request; null where a moment did not happen.
type Stamps struct {
	Due          *int64 `json:"due"`           // when the schedule wanted it
	Start        *int64 `json:"start"`         // a slot is taken; before connect
	Connected    *int64 `json:"connected"`     // null on a reused connection
	Sent         *int64 `json:"sent"`          // just before the first request byte
	Written      *int64 `json:"written"`       // last request byte with the kernel
	Headers      *int64 `json:"headers"`       //
	FirstByte    *int64 `json:"first_byte"`    // of the body
	FirstOutput  *int64 `json:"first_output"`  // reasoning, content, tool call or refusal
	FirstContent *int64 `json:"first_content"` // visible content
	LastOutput   *int64 `json:"last_output"`   //
	End          *int64 `json:"end"`           // the end mark or the end of the body
}

// An Outcome is what became of a planned request (streams.md 5).
type Outcome string

// The outcomes. Successes are OK and Truncated.
const (
	OutcomeOK             Outcome = "ok"
	OutcomeTruncated      Outcome = "truncated"
	OutcomeEmpty          Outcome = "empty"
	OutcomeRefusedLoad    Outcome = "refused_load"
	OutcomeHTTPError      Outcome = "http_error"
	OutcomeInBandError    Outcome = "in_band_error"
	OutcomeMalformed      Outcome = "malformed"
	OutcomeCut            Outcome = "cut"
	OutcomeStalledFirst   Outcome = "stalled_first"
	OutcomeStalledMid     Outcome = "stalled_mid"
	OutcomeTotalTimeout   Outcome = "total_timeout"
	OutcomeTransport      Outcome = "transport"
	OutcomeCanaryFailed   Outcome = "canary_failed"
	OutcomeLengthMismatch Outcome = "length_mismatch"
	OutcomeClientShed     Outcome = "client_shed"
	OutcomeClientAbort    Outcome = "client_abort"
	OutcomeNotStarted     Outcome = "not_started"
)

// Outcomes lists all of them in the order in which tables show them.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeOK, OutcomeTruncated, OutcomeEmpty, OutcomeRefusedLoad, OutcomeHTTPError, OutcomeInBandError,
		OutcomeMalformed, OutcomeCut, OutcomeStalledFirst, OutcomeStalledMid, OutcomeTotalTimeout, OutcomeTransport,
		OutcomeCanaryFailed, OutcomeLengthMismatch, OutcomeClientShed, OutcomeClientAbort, OutcomeNotStarted,
	}
}

// Success tells whether the outcome is one: ok or truncated.
func (o Outcome) Success() bool { return o == OutcomeOK || o == OutcomeTruncated }

// Failures lists the outcomes of failed requests with their counts, for a
// sentence: "empty 2, cut 1".
func Failures(outcomes map[Outcome]int) string {
	var parts []string
	for _, o := range Outcomes() {
		if n := outcomes[o]; n > 0 && !o.Success() {
			parts = append(parts, fmt.Sprintf("%s %d", o, n))
		}
	}
	return strings.Join(parts, ", ")
}

// An AttemptError is why an attempt failed.
type AttemptError struct {
	Class       string   `json:"class"`
	Message     string   `json:"message"` // at most 2,048 characters, secrets removed
	RetryAfterS *float64 `json:"retry_after_s"`
}

// Usage is the server's own count of tokens; null where it is unknown, with the reason.
type Usage struct {
	Input     *int64  `json:"input"`
	Output    *int64  `json:"output"` // reasoning included
	Reasoning *int64  `json:"reasoning"`
	Cached    *int64  `json:"cached"`
	Source    string  `json:"source"` // final, finish, continuous, body, none
	Reason    *string `json:"reason"`
}

// A ToolCall is one call with its arguments as the model wrote them.
type ToolCall struct {
	Index     int    `json:"index"`
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// A Canary is the check of the marker that an answer must begin with (records.md 2.3).
type Canary struct {
	Marker              string `json:"marker"`
	MarkerAtStart       bool   `json:"marker_at_start"`
	ObservedMarkerCount int    `json:"observed_marker_count"`
	ForeignMarkerCount  int    `json:"foreign_marker_count"`
	CaptureComplete     bool   `json:"capture_complete"`
	Passed              bool   `json:"passed"`
}

// ControlledOutput is the check of the code words of an answer (records.md 2.3).
type ControlledOutput struct {
	Policy             string `json:"policy"`
	RequestedWords     int    `json:"requested_words"`
	ObservedCodeWords  int    `json:"observed_code_words"`
	ObservedExtraWords int    `json:"observed_extra_words"`
	CaptureComplete    bool   `json:"capture_complete"`
	ExactAdherence     *bool  `json:"exact_adherence"` // null when the capture is incomplete
	Passed             bool   `json:"passed"`
}

// A Try is one of several sends of one attempt; the last one is the attempt's own.
type Try struct {
	T       Stamps        `json:"t"`
	Outcome Outcome       `json:"outcome"`
	Error   *AttemptError `json:"error"`
}
