package load

import (
	"compress/gzip"
	"io"
)

// A pull reads a body as an io.Reader, for a decompressor.
type pull struct {
	body  *body
	rest  []byte
	limit int64
	err   error // as the body gave it: a decompressor may dress it
}

func (r *pull) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.rest, r.err = r.body.next(r.limit); r.err != nil {
			if r.err == errClosed {
				return 0, io.EOF
			}
			return 0, r.err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// An unzip decodes a gzipped body. Its bytes take the stamp of the last read
// before they came out.
type unzip struct {
	pull pull
	gz   *gzip.Reader
	buf  []byte
}

func (z *unzip) reset(b *body) content {
	z.pull = pull{body: b}
	z.gz = nil // the header has not come yet
	if z.buf == nil {
		z.buf = make([]byte, 32<<10)
	}
	return z
}

func (z *unzip) next(limit int64) ([]byte, error) {
	z.pull.limit = limit
	if z.gz == nil {
		gz, err := gzip.NewReader(&z.pull)
		if err != nil {
			return nil, z.cause(err)
		}
		z.gz = gz
	}
	n, err := z.gz.Read(z.buf)
	return z.buf[:n], z.cause(err)
}

// cause prefers what happened on the connection to what the decompressor makes of it.
func (z *unzip) cause(err error) error {
	if err != nil && z.pull.err != nil {
		return z.pull.err
	}
	return err
}
