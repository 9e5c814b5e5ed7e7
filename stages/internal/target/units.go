package target

import (
	"encoding/json"
	"fmt"
	"time"

	"anvil/schemas"
)

// A Duration is a Go duration string in JSON.
type Duration time.Duration

// UnmarshalJSON reads "30s".
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	v, err := time.ParseDuration(s)
	*d = Duration(v)
	return err
}

// MarshalJSON writes it as UnmarshalJSON reads it.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// A Size is a number of bytes: in JSON an integer or "64KiB".
type Size int64

// UnmarshalJSON reads both forms.
func (s *Size) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, (*int64)(s)) == nil {
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("size: %w", err)
	}
	n, err := schemas.ParseSize(text)
	*s = Size(n)
	return err
}

// Limits are the plan's limits on a request.
type Limits struct {
	Connect     Duration `json:"connect"`
	FirstOutput Duration `json:"first_output"`
	Gap         Duration `json:"gap"`
	Total       Duration `json:"total"`
	MaxEvent    Size     `json:"max_event"`
	MaxBody     Size     `json:"max_body"`
	MaxError    Size     `json:"max_error"`
}

// DefaultLimits are those of plan-keys.md, for a kind that has no limits of its own.
func DefaultLimits() Limits {
	return Limits{
		Connect: Duration(10 * time.Second), FirstOutput: Duration(10 * time.Minute), Gap: Duration(2 * time.Minute),
		Total: Duration(30 * time.Minute), MaxEvent: 16 << 20, MaxBody: 256 << 20, MaxError: 64 << 10,
	}
}

// Std returns it as package time has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }
