package record

import "anvil/schemas"

// MeasurementSchema is the id of measurement.json.
const MeasurementSchema schemas.ID = "anvil.measurement/v1"

// A Measurement says how the phase went: the instrument's evidence about itself.
// The executor adds the limitations.
type Measurement struct {
	Schema       schemas.ID        `json:"schema"`
	Phase        Phase             `json:"phase"`
	Tool         any               `json:"tool"` // stage.Tool of the client that measured
	Client       MeasurementClient `json:"client"`
	Connections  Connections       `json:"connections"`
	ServedWindow *int              `json:"served_window"` // tokens, from the endpoint; null when it does not say
	Counters     CounterPair       `json:"counters"`
	Cache        CacheFacts        `json:"cache"`
	Sequence     string            `json:"sequence"` // cold, after_scout, repeat
	Simulated    bool              `json:"simulated"`
	Accounting   Accounting        `json:"accounting"`
	Tokens       TokenCounts       `json:"tokens"`
	// Unpublished says why a record that fits the load was not written.
	Unpublished map[string]string `json:"unpublished,omitempty"`
}

// Phase is the measured interval; its wall-clock stamps are labels.
type Phase struct {
	Status           string  `json:"status"`             // completed or aborted
	EndedBy          string  `json:"ended_by,omitempty"` // requests, duration, dataset or interrupt
	WallClockMS      float64 `json:"wall_clock_ms"`
	StartedAt        string  `json:"started_at"`
	FinishedAt       string  `json:"finished_at"`
	StartedAtUnixNS  int64   `json:"started_at_unix_ns"`
	FinishedAtUnixNS int64   `json:"finished_at_unix_ns"`
}

// MeasurementClient is evidence about the client itself; its members are
// objects with names of their own, null where nothing was observed.
type MeasurementClient struct {
	GC             any      `json:"gc"`
	Scheduler      any      `json:"scheduler"`
	CPU            any      `json:"cpu"`
	SendLag        any      `json:"send_lag"`
	StampShares    any      `json:"stamp_shares"`
	CoalescedShare *float64 `json:"coalesced_share"` // null without events
	Limits         any      `json:"limits"`
	Verdict        string   `json:"verdict"` // ok, marginal, bound
}

// Connections counts what the transport did.
type Connections struct {
	Opened   int     `json:"opened"`
	Reused   int     `json:"reused"`
	Replaced int     `json:"replaced"`
	Protocol string  `json:"protocol"`
	TLS      *string `json:"tls"`

	Compression Compression `json:"compression"`
	LocalPorts  *LocalPorts `json:"local_ports"` // null where the system does not say
}

// Compression tells whether answers were asked for compressed, and how many came so.
type Compression struct {
	Asked   bool `json:"asked"`
	Answers int  `json:"answers"`
}

// LocalPorts is the room for connections: each that is open, or was closed a
// minute ago, holds one of the range's ports.
type LocalPorts struct {
	Range    int `json:"range"`
	Opened   int `json:"opened"`
	Headroom int `json:"headroom"`
}

// TokenCounts are the stored texts counted again by the engine's own tokenizer,
// beside the output that its usage tells of the same answers, reasoning apart.
type TokenCounts struct {
	Counted    int     `json:"counted"`  // answers
	Compared   int     `json:"compared"` // of them, those whose usage speaks of the text alone
	Differing  int     `json:"differing"`
	Usage      int64   `json:"usage"`
	Engine     int64   `json:"engine"`
	Difference int64   `json:"difference"` // engine less usage
	Reason     *string `json:"reason"`     // why not every text was counted
}

// CounterPair holds the server's own counters around the phase; null where it has none.
type CounterPair struct {
	Before any `json:"before"`
	After  any `json:"after"`
}

// CacheFacts is the declared state of the prefix cache and what reset was done.
type CacheFacts struct {
	State string `json:"state"`
	Reset string `json:"reset"` // off, done, not_offered, failed
}

// Accounting adds up to the plan: the outcomes sum to Planned.
type Accounting struct {
	Planned  int             `json:"planned"`
	Outcomes map[Outcome]int `json:"outcomes"`
}
