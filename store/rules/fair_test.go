package rules

import "testing"

// How many places a topic takes at once, and how many it has when it is allowed no more.
func TestMore(t *testing.T) {
	for _, tc := range []struct {
		name            string
		perFree         float64
		has, free, more int
	}{
		{"alone among 512 workers", PerFree, 0, 512, 455},
		{"alone, one by one", PerFree, 454, 58, 1},
		{"and no more", PerFree, 455, 57, 0},
		{"a second topic finds workers", PerFree, 0, 57, 50},
		{"two have eight of seventeen", PerFree, 240, 31, 0},
		{"eight of nine", PerFree, 0, 9, 8},
		{"one of eight stays free", PerFree, 0, 8, 7},
		{"one of four stays free", PerFree, 0, 4, 3},
		{"one of two stays free", PerFree, 1, 1, 0},
		{"a single one is taken", PerFree, 0, 1, 1},
		{"the last one, by a topic without any", PerFree, 0, 1, 1},
		{"none is free", PerFree, 0, 0, 0},
		{"below zero", PerFree, 0, -3, 0},
		{"far above its share", PerFree, 5000, 12, 0},
		{"half", 1, 0, 2000, 1000},
		{"a tenth of the weight", 0.1, 0, 2000, 181},
		{"ten times the weight", 10, 0, 2000, 1818},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := More(tc.perFree, tc.has, tc.free); got != tc.more {
				t.Errorf("with %d and %d free: %d more, want %d", tc.has, tc.free, got, tc.more)
			}
		})
	}
}

// However topics come and go, each one finds a place, and none has more than its factor of what
// stays free.
func TestMoreLeavesPlaces(t *testing.T) {
	for _, places := range []int{9, 16, 64, 512, 5000} {
		has, free := make([]int, 40), places
		for range 3 {
			for n := range has {
				for range places {
					if More(PerFree, has[n], free) == 0 {
						break
					}
					has[n]++
					free--
					if has[n] > 1 && has[n] > PerFree*free {
						t.Fatalf("of %d places, one topic has %d while %d are free", places, has[n], free)
					}
				}
			}
		}
		if want := (places + 8) / 9; places-free > places || has[0] > places-want {
			t.Errorf("of %d places the first topic has %d", places, has[0])
		}
	}
}
