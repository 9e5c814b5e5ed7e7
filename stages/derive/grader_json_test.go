package derive_test

import (
	"testing"

	"anvil/stages/record"
)

func TestJSONKeepsUnlikeValuesApart(t *testing.T) {
	grader := func(want string) string { return `{"type":"json","pointers":{"/v":` + want + `}}` }
	for _, tt := range []struct {
		want, got string
		verdict   record.Verdict
	}{
		{`"1.10"`, `"1.1"`, "fail"},
		{`"007"`, `"7"`, "fail"},
		{`[1]`, `["1"]`, "fail"},
		{`{"a":true}`, `{"a":"true"}`, "fail"},
		{`{"a":1}`, `{"a":1,"b":2}`, "fail"},
		{`null`, `"null"`, "fail"},
		{`1.10`, `1.1`, "pass"},
		{`[1,{"a":true}]`, `[1.0, {"a": true}]`, "pass"},
	} {
		answer := `{"v":` + tt.got + `}`
		judgeAll(t, []verdictCase{{grader(tt.want), `0`, answer, tt.verdict, answer}})
	}
}

func TestJSONWithAKeyTwiceIsNoJSON(t *testing.T) {
	judgeAll(t, []verdictCase{
		{`{"type":"json"}`, `0`, `{"a":1,"a":2}`, "fail", ""},
		{`{"type":"json","pointers":{"/a":2}}`, `0`, `{"a":1,"a":2}`, "fail", ""},
		{`{"type":"equals","value":"2","extract":{"json_pointer":"/a"}}`, `0`, `{"a":1,"a":2}`, "fail", ""},
		{`{"type":"evidence_fields"}`, `{"fields":{"a":2}}`, `{"a":1,"a":2}`, "fail", ""},
	})
}
