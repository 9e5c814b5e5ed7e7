package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// errHTTP is wrapped when what came is no HTTP/1 response.
var errHTTP = errors.New("not an HTTP response")

// maxHead bounds a header block; readBuffer holds one whole.
const maxHead = readBuffer - 4096

// readHead returns the header block of the final response, valid until the
// next fill. Informational ones before it are passed over.
func (w *wire) readHead(limit int64) ([]byte, error) {
	for range 64 {
		head, err := w.readBlock(limit)
		if err != nil {
			return nil, err
		}
		status, err := statusOf(head)
		if err != nil {
			return nil, err
		}
		if status >= 200 {
			return head, nil
		}
		if status == http.StatusSwitchingProtocols {
			return nil, fmt.Errorf("%w: status 101 though no other protocol was offered", errHTTP)
		}
	}
	return nil, fmt.Errorf("%w: more than 64 informational responses", errHTTP)
}

// readBlock reads up to and with the first empty line. The end of the block is
// looked for in the new bytes alone.
func (w *wire) readBlock(limit int64) ([]byte, error) {
	seen := 0
	for {
		b := w.unread()
		if err := plausible(b); err != nil { // however the bytes are divided
			return nil, err
		}
		if n := blockEnd(b, seen); n > 0 {
			w.from += n
			return b[:n], nil
		}
		if len(b) > maxHead {
			return nil, fmt.Errorf("%w: headers over %d bytes", errHTTP, maxHead)
		}
		seen = max(len(b)-3, 0)
		if err := w.fill(limit); err != nil {
			if len(b) > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

func blockEnd(b []byte, from int) int {
	for i := from; i < len(b); i++ {
		if b[i] != '\n' {
			continue
		}
		rest := b[i+1:]
		switch {
		case len(rest) >= 1 && rest[0] == '\n':
			return i + 2
		case len(rest) >= 2 && rest[0] == '\r' && rest[1] == '\n':
			return i + 3
		}
	}
	return 0
}

// plausible refuses at its first bytes what cannot become a response, so that a
// server of another protocol is named at once and not by a limit.
func plausible(b []byte) error {
	const want = "HTTP/1."
	n := min(len(b), len(want))
	if string(b[:n]) != want[:n] {
		return fmt.Errorf("%w: it begins with %s", errHTTP, quote(b))
	}
	return nil
}

// quote is the printable beginning of what a server sent, for the end of a
// message. It is cut without a mark and nothing stands behind it, so that what
// hides secrets in a message finds one that was cut off, too.
func quote(b []byte) string {
	n := 0
	for n < min(len(b), maxQuote) && ' ' <= b[n] && b[n] <= '~' {
		n++
	}
	switch {
	case len(b) == 0:
		return "nothing"
	case n == 0:
		return fmt.Sprintf("byte %#02x", b[0])
	}
	return string(b[:n])
}

const maxQuote = 64

func statusOf(head []byte) (int, error) {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	_, rest, ok := strings.Cut(strings.TrimRight(string(line), "\r"), " ")
	code, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	status, err := strconv.Atoi(code)
	if !ok || err != nil || len(code) != 3 || status < 100 {
		return 0, fmt.Errorf("%w: status line %s", errHTTP, quote(line))
	}
	return status, nil
}

// ParseHead gives the status and the headers of a header block that was
// received. Lines that are none are left out: what a strange server sends is
// evidence, not a fault of ours.
func ParseHead(head []byte) (status int, header http.Header) {
	status, _ = statusOf(head)
	header = http.Header{}
	_, lines, _ := bytes.Cut(head, []byte("\n"))
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(lines)))
	for {
		line, err := r.ReadContinuedLine()
		if err != nil || line == "" {
			return status, header
		}
		if name, value, ok := strings.Cut(line, ":"); ok {
			header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
}

// A framing is how the end of a body is known.
type framing struct {
	status  int
	chunked bool
	length  int64 // -1 where the close of the connection ends the body
	close   bool  // the connection cannot be used again
	version uint32
	retry   int64 // seconds that retry-after asks for; 0 for none, or a date
}

// frame reads the few headers that decide about a body, without allocating.
func frameOf(head []byte) (f framing, err error) {
	f.length, f.version = -1, versionOf(1, 1)
	if f.status, err = statusOf(head); err != nil {
		return f, err
	}
	if bytes.HasPrefix(head, []byte("HTTP/1.0")) {
		f.close, f.version = true, versionOf(1, 0)
	}
	_, lines, _ := bytes.Cut(head, []byte("\n"))
	for len(lines) > 0 {
		var line []byte
		line, lines, _ = bytes.Cut(lines, []byte("\n"))
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		if err := f.header(name, bytes.TrimSpace(value)); err != nil {
			return f, err
		}
	}
	if f.chunked {
		f.length = -1 // RFC 9112 6.3: the transfer coding overrides a length
	}
	if f.status == http.StatusNoContent || f.status == http.StatusNotModified {
		f.chunked, f.length = false, 0
	}
	if !f.chunked && f.length < 0 {
		f.close = true
	}
	return f, nil
}

func (f *framing) header(name, value []byte) error {
	switch {
	case fold(name, "transfer-encoding"):
		f.chunked = fold(value, "chunked")
		if !f.chunked && !fold(value, "identity") {
			return fmt.Errorf("%w: unknown transfer coding %s", errHTTP, quote(value))
		}
	case fold(name, "content-length"):
		n, err := strconv.ParseUint(string(value), 10, 63)
		if err != nil {
			return fmt.Errorf("%w: content-length %s", errHTTP, quote(value))
		}
		if f.length >= 0 && f.length != int64(n) {
			return fmt.Errorf("%w: content-lengths %d and %d", errHTTP, f.length, n)
		}
		f.length = int64(n)
	case fold(name, "retry-after"):
		f.retry = retryAfter(value)
	case fold(name, "connection"):
		for part := range bytes.SplitSeq(value, []byte(",")) {
			if part = bytes.TrimSpace(part); fold(part, "close") {
				f.close = true
			} else if fold(part, "keep-alive") {
				f.close = false
			}
		}
	}
	return nil
}

// retryAfter is the seconds that a server asks for; 0 for none, or a date.
func retryAfter(value []byte) int64 {
	n, err := strconv.ParseInt(string(value), 10, 32)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

func fold(b []byte, s string) bool { return len(b) == len(s) && strings.EqualFold(string(b), s) }
