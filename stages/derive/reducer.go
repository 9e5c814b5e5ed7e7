package derive

import (
	"errors"
	"fmt"

	"anvil/stages/internal/stat"
	"anvil/stages/record"
)

// settleReducer gives a plan that could not know whether items repeat the
// reducer none, as long as they do not: a default would decide a result.
func (c *GradeConfig) settleReducer(rows []record.Grade) error {
	if c.Reducer == "pass_at_k" && (c.K == nil || *c.K < 1) {
		return errors.New("pass_at_k needs k, a count of attempts")
	}
	if c.Reducer != "" {
		return nil
	}
	seen := map[string]int{}
	for _, g := range rows {
		if g.Item == nil {
			continue
		}
		if before, ok := seen[*g.Item]; ok {
			return fmt.Errorf("requests %d and %d both ask item %s, and the plan does not say what becomes of items that repeat: "+
				"set `reducer` of the grade stage to one of none, mean, majority, pass_at_k, all", before, g.Index, quoted(*g.Item))
		}
		seen[*g.Item] = g.Index
	}
	c.Reducer = "none"
	return nil
}

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
	if out.Reason = tooFew(reducer, k, byItem); out.Reason != "" {
		return out
	}
	values := make([]float64, 0, len(byItem))
	for _, item := range sortedKeys(byItem) {
		values = append(values, reduceItem(reducer, k, byItem[item]))
	}
	out.Value = new(stat.Mean(values))
	return out
}

// tooFew tells why there is no value: nothing was asked, or pass@k of some item
// cannot be told from fewer than k attempts. A mean over the other items would
// have the name of one over all.
func tooFew(reducer string, k *int, byItem map[string][]record.Grade) string {
	if len(byItem) == 0 {
		return "no request was planned"
	}
	if reducer != "pass_at_k" {
		return ""
	}
	short, least := 0, *k
	for _, rows := range byItem {
		if len(rows) < *k {
			short, least = short+1, min(least, len(rows))
		}
	}
	if short == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d items have fewer than %d attempts, down to %d", short, len(byItem), *k, least)
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
	return passAtK(n, passed, *k)
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
