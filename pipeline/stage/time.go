package stage

import "time"

// A Time is a moment as our own files have it: RFC 3339, UTC, always with nine
// digits of nanoseconds, so that stamps of one width sort as text. (time.Time
// drops the zeros at the end.)
type Time struct{ time.Time }

// MarshalJSON writes it; what time.Time reads is read.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(make([]byte, 0, 32), `"2006-01-02T15:04:05.000000000Z"`), nil
}
