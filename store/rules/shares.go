package rules

import (
	"maps"
	"slices"

	"github.com/duehook/duehook/store"
)

// Shares divides a caller's workers among topics. A topic may have PerFree workers for each one
// that stays free, or less in proportion if a topic with a higher weight is here. So no topic
// has all workers, however slow its receivers are.
type Shares struct {
	free     int
	has      map[string]int
	weight   func(topic string) int
	heaviest int // of the topics that are here
}

// SharesOf are the shares in workers. The weight of a topic is store.Limits.Weight; zero is the
// default.
func SharesOf(w *store.Workers, weight func(topic string) int) *Shares {
	s := &Shares{free: w.Free, has: maps.Clone(w.Has), weight: func(topic string) int {
		return weightOf(&store.Limits{Weight: weight(topic)})
	}}
	if s.has == nil {
		s.has = map[string]int{}
	}
	for topic, n := range s.has {
		if n > 0 {
			s.meet(topic)
		}
	}
	return s
}

// MoreWorkers is how many more of the free workers a topic of a weight may have beside those that it has, if the
// heaviest topic has another weight.
func MoreWorkers(weight, heaviest, has, free int) int {
	return More(PerFree*float64(weight)/float64(max(heaviest, weight, 1)), has, free)
}

// meet notes that a topic is here.
func (s *Shares) meet(topic string) { s.heaviest = max(s.heaviest, s.weight(topic)) }

// More is how many more workers a topic may have.
func (s *Shares) More(topic string) int {
	return MoreWorkers(s.weight(topic), s.heaviest, s.has[topic], s.free)
}

// Crowded are the topics that have workers and get no more. Other weights of topics give none of them more than equal weights.
func (s *Shares) Crowded() []string {
	all := []string{}
	for topic, n := range s.has {
		if n > 0 && s.More(topic) == 0 {
			all = append(all, topic)
		}
	}
	slices.Sort(all)
	return all
}

// Took notes that a topic got n workers.
func (s *Shares) Took(topic string, n int) {
	s.free -= n
	s.has[topic] += n
}
