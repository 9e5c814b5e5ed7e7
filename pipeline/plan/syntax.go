package plan

import (
	"bytes"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

var (
	lineOf   = regexp.MustCompile(`^(?:yaml: )?(?:line ([0-9]+): )?(.*)$`)
	anchorOf = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntax reports what the library says of the text. It knows the line at best,
// so the column is found in the text.
func (r *reader) syntax(src []byte, err error) {
	m := lineOf.FindStringSubmatch(strings.SplitN(err.Error(), "\n", 2)[0])
	line, _ := strconv.Atoi(m[1])
	line = max(line, 1)
	message, hint := m[2], ""
	if m[1] != "" && parserSays.MatchString(message) {
		line++ // the library counts these from 0
	}
	text := strings.Split(string(bytes.TrimPrefix(src, []byte("\uFEFF"))), "\n")
	line = min(line, len(text))
	if l := firstWrong(text, message); l > 0 {
		line, hint = l, "look at the indentation, and for a quote or a colon that is missing"
	}
	column := firstColumn(text[line-1])
	if a := anchorOf.FindStringSubmatch(message); a != nil {
		message, hint = fmt.Sprintf("alias *%s has no anchor &%s before it", a[1], a[1]), ""
		line, column = findAlias(text, a[1])
	} else if l, c, ok := tabNear(text, line); ok {
		line, column, message, hint = l, c, "tab in the indentation", "indent with spaces"
	} else if strings.Contains(message, "cannot start any token") {
		column = reservedColumn(text[line-1], column)
		hint = "put the text in quotes"
	} else if strings.Contains(message, "mapping values are not allowed") {
		column = colonColumn(text[line-1], column)
		hint = "look at the indentation, or put the text in quotes"
	} else if strings.Contains(message, "',' or") {
		column = lastColumn(text[line-1], "[{", column)
		hint = "close the bracket, or put a comma between its items"
	} else if strings.Contains(message, "unexpected end of stream") {
		column = lastColumn(text[line-1], "\"'", column)
		hint = "close the quote"
	}
	r.at(line, column, "", "YAML: "+message, hint)
}

// parserSays matches what the library's parser says; the rest is its scanner's.
var parserSays = regexp.MustCompile(`^did not find expected (<|node content|'|key$)`)

// longestSearch bounds the text in which a line is searched for by reading
// beginnings of it.
const longestSearch = 64 << 10

// firstWrong finds the line with which a block stops being YAML: the library
// names the line where the block began. 0 when that is no use.
func firstWrong(text []string, message string) int {
	if message != "did not find expected key" && message != "did not find expected '-' indicator" && message != "did not find expected <document start>" {
		return 0
	}
	size := 0
	for _, l := range text {
		size += len(l) + 1
	}
	if size > longestSearch {
		return 0
	}
	return 1 + sort.Search(len(text)-1, func(i int) bool {
		_, err := decode(yaml.NewDecoder(strings.NewReader(strings.Join(text[:i+1], "\n") + "\n")))
		return err != nil && strings.HasSuffix(err.Error(), message)
	})
}

func lastColumn(line, chars string, otherwise int) int {
	i := strings.LastIndexAny(line, chars)
	if i < 0 {
		return otherwise
	}
	return utf8.RuneCountInString(line[:i]) + 1
}

func firstColumn(line string) int {
	trimmed := strings.TrimLeft(line, " \t")
	if strings.TrimRight(trimmed, "\r") == "" {
		return 1
	}
	return len(line) - len(trimmed) + 1
}

// tabNear finds a tab in the indentation of the line or of its neighbours.
func tabNear(text []string, line int) (l, column int, ok bool) {
	for _, l := range []int{line, line + 1, line - 1} {
		if l < 1 || l > len(text) {
			continue
		}
		s := text[l-1]
		indent := s[:len(s)-len(strings.TrimLeft(s, " \t"))]
		if i := strings.IndexByte(indent, '\t'); i >= 0 && strings.TrimSpace(s) != "" {
			return l, i + 1, true
		}
	}
	return 0, 0, false
}

// reservedColumn finds the character that begins no value: @ ` or %.
func reservedColumn(line string, otherwise int) int {
	for i, c := range line {
		if strings.ContainsRune("@`%", c) && (i == 0 || strings.ContainsRune(" ,[{:-", rune(line[i-1]))) {
			return utf8.RuneCountInString(line[:i]) + 1
		}
	}
	return otherwise
}

// colonColumn finds the second ": " of the line.
func colonColumn(line string, otherwise int) int {
	first := strings.Index(line, ": ")
	if first < 0 {
		return otherwise
	}
	second := strings.Index(line[first+2:], ":")
	if second < 0 {
		return otherwise
	}
	return utf8.RuneCountInString(line[:first+2+second]) + 1
}

func findAlias(text []string, name string) (line, column int) {
	for l, s := range text {
		for from := 0; ; {
			i := strings.Index(s[from:], "*"+name)
			if i < 0 {
				break
			}
			i += from
			from = i + 1
			if i > 0 && !strings.ContainsRune(" ,[{:-", rune(s[i-1])) {
				continue
			}
			if rest := s[i+1+len(name):]; rest == "" || strings.ContainsRune(" ,]}\r", rune(rest[0])) {
				return l + 1, utf8.RuneCountInString(s[:i]) + 1
			}
		}
	}
	return 1, 1
}
