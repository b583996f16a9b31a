// Package nearest finds the name that was meant by a misspelt one.
package nearest

import (
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// Hint is the end of a message about an unknown name: "; did you mean" with the nearest
// known name after prefix. It is empty if none is near.
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
	letters, folded := utf8.RuneCountInString(name), fold(name)
	best, least := "", letters/3+1
	for _, k := range known {
		if max(len(k)-letters, letters-len(k)) > least {
			continue // as many letters are missing at least
		}
		d := levenshtein.ComputeDistance(folded, fold(k))
		if d < least || d == least && (best == "" || k < best) {
			best, least = k, d
		}
	}
	return best
}

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
