package plan

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Limits on a plan file. They bound time and memory before the YAML library
// sees a byte: it takes about 300 bytes for a node, however small.
const (
	maxBytes = 4 << 20
	maxMarks = 200_000 // commas, line ends and brackets: no two entries stand without one between them
	maxDepth = 100
)

// checkText reports what no plan may hold as bytes. It returns false when the
// file cannot be read further.
func (r *reader) checkText(src []byte) bool {
	if len(src) > maxBytes {
		r.at(1, 1, "", fmt.Sprintf("the plan has %d bytes, more than the %d that a plan may have", len(src), maxBytes),
			"move data into files that the plan names")
		return false
	}
	src = bytes.TrimPrefix(src, []byte("\uFEFF"))
	before := len(r.ps.list)
	line, column, marks := 1, 1, 0
	for i := 0; i < len(src); {
		c, size := rune(src[i]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRune(src[i:])
		}
		switch {
		case c == utf8.RuneError && size == 1:
			r.at(line, column, "", fmt.Sprintf("byte 0x%02x is not UTF-8", src[i]), "save the file as UTF-8")
		case c == '\r' && (i+1 == len(src) || src[i+1] != '\n'):
			r.at(line, column, "", "carriage return without a line feed", "end lines with LF or CRLF")
		case c < ' ' && c != '\t' && c != '\n' && c != '\r', c == 0x7f, 0x80 <= c && c <= 0x9f, c == 0x2028, c == 0x2029,
			c == 0xFEFF, c == 0xFFFE, c == 0xFFFF:
			r.at(line, column, "", fmt.Sprintf("character U+%04X is not allowed", c), fmt.Sprintf(`write it as "\u%04x" in double quotes, or leave it out`, c))
		case c == ',' || c == '[' || c == '{' || c == '\n' || c == '?' || c == '-' && i+1 < len(src) && src[i+1] == ' ':
			marks++
		}
		if len(r.ps.list) >= before+maxTextProblems {
			return false
		}
		if c == '\n' {
			line, column = line+1, 1
		} else {
			column++
		}
		i += size
	}
	if marks > maxMarks {
		r.at(1, 1, "", fmt.Sprintf("the plan has more than %d entries", maxMarks), "use a matrix, or move data into files that the plan names")
	}
	return len(r.ps.list) == before
}

const maxTextProblems = 50
