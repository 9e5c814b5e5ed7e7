package schemas

import "strings"

// Closest returns the known word that a misspelt one was probably meant as: one
// edit away, else the first that goes on where the word stops, else the one
// with the fewest edits if these are few for a word of that length.
func Closest(word string, known []string) (string, bool) {
	if len(word) > 64 {
		return "", false
	}
	best, found, longer := 1+max(1, len(word)/3), "", ""
	for _, k := range known {
		if len(k) > 64 {
			continue
		}
		if d := edits(strings.ToLower(word), strings.ToLower(k)); d < best {
			best, found = d, k
		}
		if longer == "" && len(word) > 2 && strings.HasPrefix(k, word) {
			longer = k
		}
	}
	if longer != "" && best > 1 {
		found = longer
	}
	return found, found != ""
}

// edits counts insertions, deletions, replacements and swaps of neighbours.
func edits(a, b string) int {
	var two []int
	one := make([]int, len(b)+1)
	for j := range one {
		one[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(one[j]+1, row[j-1]+1, one[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], two[j-2]+1)
			}
		}
		two, one = one, row
	}
	return one[len(b)]
}
