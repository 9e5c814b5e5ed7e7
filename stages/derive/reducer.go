package derive

import (
	"fmt"

	"anvil/stages/internal/stat"
	"anvil/stages/record"
)

// reduce makes one value of several attempts at one item; by none, each attempt
// stands for itself. It gives each item a value from 0 to 1 and returns their mean; nil
// without a reducer. An attempt without a pass is none, whatever the cause.
func reduce(reducer string, k *int, rows []record.Grade) *record.Reduced {
	if reducer == "" || reducer == "none" {
		return nil
	}
	byItem := map[string][]record.Grade{}
	for _, g := range rows {
		item := fmt.Sprintf("#%d", g.Index) // a request without an item stands alone
		if g.Item != nil {
			item = "=" + *g.Item
		}
		byItem[item] = append(byItem[item], g)
	}
	out := &record.Reduced{Reducer: reducer, K: k, Items: len(byItem)}
	values := make([]float64, 0, len(byItem))
	for _, item := range sortedKeys(byItem) {
		values = append(values, reduceItem(reducer, k, byItem[item]))
	}
	if len(values) > 0 {
		out.Value = new(stat.Mean(values))
	}
	return out
}

func reduceItem(reducer string, k *int, rows []record.Grade) float64 {
	passed := 0
	scores := make([]float64, len(rows))
	for i, g := range rows {
		if g.Verdict == record.Pass {
			passed++
		}
		if g.Score != nil {
			scores[i] = *g.Score
		}
	}
	n := len(rows)
	switch reducer {
	case "mean":
		return stat.Mean(scores)
	case "majority":
		return truth(2*passed > n)
	case "all":
		return truth(passed == n)
	}
	return passAtK(n, passed, min(*k, n))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// passAtK is the chance that k of the n attempts, drawn without putting back,
// hold a pass: 1 − C(n−c, k)/C(n, k).
func passAtK(n, c, k int) float64 {
	if n-c < k {
		return 1
	}
	none := 1.0
	for i := range k {
		none *= float64(n-c-i) / float64(n-i)
	}
	return 1 - none
}
