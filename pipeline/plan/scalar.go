package plan

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

var (
	integerText  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	fractionText = regexp.MustCompile(`^-?(0|[1-9][0-9]*)\.[0-9]+$`)

	// What one YAML reader or another takes for a number, a date or a boolean.
	otherInteger = regexp.MustCompile(`^[-+]?(0[0-9_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+|[0-9][0-9_]*)$`)
	otherNumber  = regexp.MustCompile(`^[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$`)
	sexagesimal  = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`)
	notFinite    = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
	dateText     = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?$`)
	booleanText  = regexp.MustCompile(`^(yes|Yes|YES|no|No|NO|on|On|ON|Off|OFF|True|TRUE|False|FALSE)$`)
)

// scalar returns the value of a scalar node, or what is wrong with it. Only
// null, true, false, decimal integers and decimal fractions are anything but
// text; what other YAML readers take for something else must be quoted. The one
// word that stays text is off, which several keys of a plan take.
func scalar(n *yaml.Node) (v any, wrong, hint string) {
	s := n.Value
	quoted := "write " + strconv.Quote(s) + " for the text"
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return nil, "tag " + n.Tag + " is not allowed", "leave the tag out; quotes make text"
	case n.Style != 0: // quoted or a block
		return s, "", ""
	case s == "" || s == "~" || s == "null" || s == "Null" || s == "NULL":
		return nil, "", ""
	case s == "true" || s == "false":
		return s == "true", "", ""
	case plainWord(s):
		return s, "", ""
	case s == "-0":
		return nil, "the sign of -0 says nothing", "write 0"
	case integerText.MatchString(s):
		if !exactInteger(s) {
			return nil, s + " is beyond ±(2^53-1)", quoted
		}
		return json.Number(s), "", ""
	case fractionText.MatchString(s):
		if f, err := strconv.ParseFloat(s, 64); err != nil || f-f != 0 {
			return nil, "the number is not finite", quoted
		}
		return json.Number(s), "", ""
	case s == "<<":
		return nil, "<< is no value", quoted
	case booleanText.MatchString(s):
		return nil, s + " is a boolean to some YAML readers and text to others", quoted + ", or " + strconv.FormatBool(isTrue(s))
	case notFinite.MatchString(s):
		return nil, s + " is not a finite number", quoted
	case dateText.MatchString(s):
		return nil, s + " is a date to some YAML readers and text to others", quoted
	case sexagesimal.MatchString(s):
		return nil, s + " is a number of base 60 to some YAML readers and text to others", quoted
	case otherInteger.MatchString(s), otherNumber.MatchString(s):
		if d := decimal(s); d != "" {
			quoted += ", or " + d + " for the number"
		}
		return nil, s + " is not a plain decimal number", quoted
	}
	return s, "", ""
}

// plainWord tells of the usual text, which begins with a letter and is no
// boolean to any reader, without the patterns below it.
func plainWord(s string) bool {
	c := s[0] | 0x20
	return 'a' <= c && c <= 'z' && (len(s) > 5 || !booleanText.MatchString(s))
}

func isTrue(s string) bool {
	switch strings.ToLower(s) {
	case "yes", "on", "true":
		return true
	}
	return false
}

var maxExact = big.NewInt(1<<53 - 1)

// exactInteger tells whether every reader of JSON gives the same integer.
func exactInteger(s string) bool {
	if len(s) > 17 {
		return false
	}
	n, ok := new(big.Int).SetString(s, 10)
	return ok && n.CmpAbs(maxExact) <= 0
}

// decimal returns the plain form of a number that was written in another, ""
// when the form does not say which number it is.
func decimal(s string) string {
	t := strings.TrimPrefix(strings.ReplaceAll(s, "_", ""), "+")
	if len(t) > 40 {
		return ""
	}
	if strings.ContainsAny(t, ".eE") && !strings.HasPrefix(strings.TrimPrefix(t, "-"), "0x") {
		f, err := strconv.ParseFloat(t, 64)
		if err != nil || f-f != 0 || f > 1e15 || f < -1e15 {
			return ""
		}
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	digits := strings.TrimPrefix(t, "-")
	if len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		return "" // eight or ten? nobody knows
	}
	n, ok := new(big.Int).SetString(t, 0)
	if !ok || n.CmpAbs(maxExact) > 0 {
		return ""
	}
	return n.String()
}
