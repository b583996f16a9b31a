package config

import "strings"

// didYouMean is a hint at the known name nearest to an unknown one, or empty
// when none is near.
func didYouMean(name string, known []string, prefix string) string {
	best, least := "", len(name)/3+1
	for _, k := range known {
		if d := editDistance(fold(name), fold(k)); d <= least {
			best, least = k, d-1
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + prefix + best + "?"
}

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// editDistance counts the letters to insert, delete or change to get from a
// to b (Levenshtein's distance, one row of the table at a time).
func editDistance(a, b string) int {
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
