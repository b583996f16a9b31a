package stats

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedianAndRange(t *testing.T) {
	for _, c := range []struct {
		of             Sample
		median, lo, hi float64
	}{
		{Sample{3}, 3, 3, 3},
		{Sample{9, 1, 5}, 5, 1, 9},
		{Sample{4, 1, 3, 2}, 2.5, 1, 4},
	} {
		lo, hi := c.of.Range()
		if got := c.of.Median(); got != c.median || lo != c.lo || hi != c.hi {
			t.Errorf("%v: median %v, range %v–%v; want %v, %v–%v", []float64(c.of), got, lo, hi, c.median, c.lo, c.hi)
		}
	}
	if !math.IsNaN(Sample{}.Median()) {
		t.Error("nothing has a median")
	}
}

func TestMedianLeavesTheOrderAlone(t *testing.T) {
	s := Sample{3, 1, 2}
	s.Median()
	if diff := cmp.Diff(Sample{3, 1, 2}, s); diff != "" {
		t.Error(diff) // the pairs of Over would be others
	}
}

func TestOverPairsRounds(t *testing.T) {
	got := Sample{10, 30, 7}.Over(Sample{5, 10})
	if diff := cmp.Diff(Sample{2, 3}, got); diff != "" {
		t.Error(diff)
	}
}

func TestString(t *testing.T) {
	for want, s := range map[string]Sample{
		"–":                      nil,
		"0.07":                   {0.07},
		"2.50 (1.00–4.00)":       {1, 4},
		"12.3":                   {12.34},
		"100":                    {99.97},
		"15,900 (15,001–17,000)": {15000.6, 17000, 15900},
		"1,234,567":              {1234567},
		"-1,000":                 {-1000},
		"-3.25":                  {-3.25},
	} {
		if got := s.String(); got != want {
			t.Errorf("%v is written %q, want %q", []float64(s), got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 20: "20", -1234: "-1,234", 10_000_000: "10,000,000"} {
		if got := Count(n); got != want {
			t.Errorf("%d is written %q, want %q", n, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := Quantile(hundred, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(Quantile(nil, 0.5)) {
		t.Error("nothing has a quantile")
	}
}
