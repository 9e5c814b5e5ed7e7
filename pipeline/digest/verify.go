package digest

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
)

// A MismatchError says that content is not what its name says.
type MismatchError struct {
	Want, Got         Digest
	WantSize, GotSize int64 // bytes; WantSize is -1 where no size was promised
}

// Error names both digests, or both sizes where these already differ.
func (e *MismatchError) Error() string {
	if e.WantSize >= 0 && e.WantSize != e.GotSize {
		return fmt.Sprintf("content of %s has %d bytes, want %d", e.Want, e.GotSize, e.WantSize)
	}
	return fmt.Sprintf("content has digest %s, want %s", e.Got, e.Want)
}

// Verify returns a reader of r that fails with a *MismatchError in place of
// io.EOF when what was read is not the content of that digest and size. A size
// of -1 promises none. More bytes than promised fail at once, so that a reader
// never takes in more than size bytes plus one read. Close closes r.
func Verify(r io.ReadCloser, want Digest, size int64) io.ReadCloser {
	return &verifier{r: r, h: sha256.New(), want: want, size: size}
}

type verifier struct {
	r    io.ReadCloser
	h    hash.Hash
	want Digest
	size int64
	n    int64
	err  error
}

func (v *verifier) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.r.Read(p)
	v.n += int64(n)
	v.h.Write(p[:n])
	if v.size >= 0 && v.n > v.size || err == io.EOF && !v.matches() {
		v.err = &MismatchError{Want: v.want, Got: Digest(v.h.Sum(nil)), WantSize: v.size, GotSize: v.n}
		return 0, v.err
	}
	v.err = err
	return n, err
}

func (v *verifier) matches() bool {
	return (v.size < 0 || v.n == v.size) && Digest(v.h.Sum(nil)) == v.want
}

func (v *verifier) Close() error { return v.r.Close() }
