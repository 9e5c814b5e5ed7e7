package derive

import "fmt"

// defaultFrom is where a grader looks in the dataset's row.
const defaultFrom = "/expected"

// settleFrom sets `from` where neither it nor what may stand instead of it says
// what is expected.
func settleFrom(t graderType, m map[string]any) {
	if t.instead != "" && m[t.instead] == nil && m["from"] == nil {
		m["from"] = defaultFrom
	}
}

// checkFrom refuses a grader that says twice what is expected.
func checkFrom(t graderType, m map[string]any) error {
	if t.instead == "" || m[t.instead] == nil || m["from"] == nil {
		return nil
	}
	return &keyError{
		"from", fmt.Sprintf("`%s` and `from` exclude each other", t.instead),
		fmt.Sprintf("leave one out: `%s` says what is expected of every row, `from` where each row says it", t.instead),
	}
}
