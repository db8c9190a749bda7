package config

import "strings"

// Nearest returns the word of known that is most like name, or "" if none is close: within one edit (a letter added, left out, changed, or two
// swapped) for each three letters of the longer word. Of equals the first wins. Case does not count.
func Nearest(name string, known []string) string {
	best, least := "", 0
	for _, k := range known {
		limit := max(len(name), len(k), 3) / 3
		if abs(len(name)-len(k)) > limit {
			continue
		}
		d := distance(strings.ToLower(name), strings.ToLower(k))
		if d <= limit && (best == "" || d < least) {
			best, least = k, d
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// distance counts the edits between a and b: Damerau and Levenshtein's, each letter swapped at most once.
func distance(a, b string) int {
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := prev[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, prev[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}
