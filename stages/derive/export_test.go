package derive

import "encoding/json"

// GraderTypes names the members of the table.
func GraderTypes() []string { return mapOf(graders(), func(t graderType) string { return t.name }) }

// FillGrader is a grader with the defaults of the table.
func FillGrader(raw []byte) ([]byte, error) {
	v, err := decodeNumbers(raw)
	if err != nil {
		return nil, err
	}
	if err := fillDeep(v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// WilsonInterval bounds n of total.
var WilsonInterval = wilsonInterval
