// Package stats summarizes measurements.
package stats

import (
	"fmt"
	"math"
	"slices"
)

// Sample is what several rounds measured, in their order.
type Sample []float64

// Median is the middle value, or the mean of the two in the middle. Of nothing
// it is NaN.
func (s Sample) Median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Range is the smallest and the largest value. Of nothing both are NaN.
func (s Sample) Range() (low, high float64) {
	if len(s) == 0 {
		return math.NaN(), math.NaN()
	}
	return slices.Min(s), slices.Max(s)
}

// Over is the ratio of each pair: what s measured in a round, divided by what
// other did in the same. Rounds alternate, so what slows the machine down for a
// while touches both of a pair.
func (s Sample) Over(other Sample) Sample {
	n := min(len(s), len(other))
	ratios := make(Sample, n)
	for i := range n {
		ratios[i] = s[i] / other[i]
	}
	return ratios
}

// String is the median with the range, if there is one.
func (s Sample) String() string {
	if len(s) == 0 {
		return "–"
	}
	low, high := s.Range()
	if low == high {
		return Number(low)
	}
	return fmt.Sprintf("%s (%s–%s)", Number(s.Median()), Number(low), Number(high))
}

// Number writes v with three digits, or all before the point, with a comma at
// the thousands.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 99.95:
		return grouped(int64(math.Round(v)))
	case a >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Count writes a whole number.
func Count(n int) string { return grouped(int64(n)) }

func grouped(n int64) string {
	if n < 0 {
		return "-" + grouped(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// Quantile is the value below which the share q of sorted lies, by nearest
// rank; of nothing it is NaN.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}
