// Package digest holds the SHA-256 that names every object, artifact and key.
//
// The text form is 64 lower-case hexadecimal digits, as sha256sum prints it;
// parsing is strict, so one digest has one spelling.
package digest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// A Digest is a SHA-256. The zero value is no digest; see IsZero.
type Digest [sha256.Size]byte

// FromBytes returns the digest of b.
func FromBytes(b []byte) Digest { return sha256.Sum256(b) }

// FromReader reads r to its end and returns the digest and the count of bytes.
func FromReader(r io.Reader) (Digest, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		return Digest{}, n, err
	}
	return Digest(h.Sum(nil)), n, nil
}

// Parse reads the text form. Anything but 64 lower-case hexadecimal digits is
// an error that quotes at most the first 80 bytes of s.
func Parse(s string) (Digest, error) {
	var d Digest
	if len(s) != hex.EncodedLen(len(d)) {
		return d, fmt.Errorf("digest %q: want 64 lower-case hex digits, got %d bytes", clip(s), len(s))
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return d, fmt.Errorf("digest %q: byte %d is not a lower-case hex digit", clip(s), i)
		}
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return d, fmt.Errorf("digest %q: %w", clip(s), err)
	}
	return d, nil
}

// MustParse is Parse for constants in the source; it panics on a bad text.
func MustParse(s string) Digest {
	d, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return d
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80]
	}
	return s
}

// IsZero tells whether d is the zero value, which no content has in practice.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns the text form.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Short returns the first 12 digits, for people; never use it as a name.
func (d Digest) Short() string { return d.String()[:12] }

// MarshalText gives the text form, so that JSON holds a string.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is Parse.
func (d *Digest) UnmarshalText(text []byte) error {
	p, err := Parse(string(text))
	if err != nil {
		return err
	}
	*d = p
	return nil
}
