package rules

import (
	"slices"
	"testing"

	"github.com/duehook/duehook/store"
)

func TestSharesOfWorkers(t *testing.T) {
	weights := map[string]int{"heavy": 40, "light": 5}
	type has = map[string]int
	for _, c := range []struct {
		name  string
		free  int
		has   has
		topic string
		want  int
	}{
		{"alone, eight of nine", 9, nil, "t", 8},
		{"beside as many, eight of seventeen each", 9, has{"u": 8}, "t", 8},
		{"with its share", 10, has{"t": 80}, "t", 0},
		{"one without an attempt", 1, has{"u": 99}, "t", 1},
		{"none is free", 0, has{"u": 99}, "t", 0},
		{"a light topic alone", 9, nil, "light", 8},
		{"a light topic beside a usual one", 9, has{"t": 1}, "light", 7},
		{"a usual topic beside a heavy one", 90, has{"heavy": 1}, "t", 60},
		{"beside a heavy one that has none", 90, has{"heavy": 0}, "t", 80},
	} {
		s := SharesOf(&store.Workers{Free: c.free, Has: c.has}, func(topic string) int { return weights[topic] })
		if got := s.More(c.topic); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	full := SharesOf(&store.Workers{Free: 9, Has: has{"t": 72, "light": 40, "usual": 20, "none": 0}}, func(topic string) int { return weights[topic] })
	if got := full.Crowded(); !slices.Equal(got, []string{"light", "t"}) {
		t.Errorf("crowded: %v", got)
	}
	if got := SharesOf(&store.Workers{Free: 9}, func(string) int { return 0 }).Crowded(); got == nil || len(got) > 0 {
		t.Errorf("crowded without a topic: %#v", got)
	}
	w := &store.Workers{Free: 18, Has: has{"t": 1}}
	s := SharesOf(w, func(string) int { return 0 })
	s.Took("t", 9)
	if got := s.More("t"); got != 6 || w.Has["t"] != 1 {
		t.Errorf("after a take: %d more, and the caller has %v", got, w.Has)
	}
}
