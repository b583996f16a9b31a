// Package nearest finds the name that was meant by a misspelt one.
package nearest

import (
	"slices"
	"strings"
)

// Hint is what to add to a message about an unknown name: "; did you mean", with
// the nearest of the known names behind prefix. It is empty when none is near.
func Hint(name string, known []string, prefix string) string {
	best := Name(name, known)
	if best == "" {
		return ""
	}
	return "; did you mean " + prefix + best + "?"
}

// maxLength bounds the names that are compared, in bytes. None that is known is
// so long.
const maxLength = 100

// Name is the known name nearest to an unknown one, of several the first by the
// alphabet, or empty when none is near. Case does not count, nor does - for _.
func Name(name string, known []string) string {
	if len(name) > maxLength {
		return ""
	}
	best, least := "", len(name)/3+1
	for _, k := range slices.Sorted(slices.Values(known)) {
		if max(len(k)-len(name), len(name)-len(k)) > least {
			continue // as many letters are missing at least
		}
		if d := distance(fold(name), fold(k)); d <= least {
			best, least = k, d-1
		}
	}
	return best
}

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// distance counts the letters to insert, delete or change to get from a to b
// (Levenshtein's distance, one row of the table at a time).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
