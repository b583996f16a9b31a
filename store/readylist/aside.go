package readylist

import (
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// maxAside bounds the hints that are set aside. A topic may have one for each further one that has
// room. Others are dropped: their jobs are due again when their visibility deadlines pass. With the
// default of --ready-cap no store makes so many jobs ready.
const maxAside = 10_000

// aside has the hints of jobs that may not run yet, because their topics have too many workers. They
// cost neither a claim nor an attempt, and are not on the ready list before those of others.
type aside struct {
	hints  map[string][]store.Hint // by topic
	topics []string                // with hints, in the order of their turns
	keys   map[job.Key]struct{}
}

func newAside() aside { return aside{hints: map[string][]store.Hint{}, keys: map[job.Key]struct{}{}} }

func (a *aside) any() bool { return len(a.keys) > 0 }

// sharing divides the workers of one call. Nil: they are not shared.
type sharing struct{ *rules.Shares }

func sharingOf(w *store.Workers) sharing {
	if w == nil {
		return sharing{}
	}
	weight := w.Weight
	if weight == nil {
		weight = func(string) int { return 0 }
	}
	return sharing{rules.SharesOf(w, weight)}
}

// take reports whether one more job of a topic may run, and counts it.
func (s sharing) take(topic string) bool {
	if s.Shares == nil {
		return true
	}
	if s.More(topic) == 0 {
		return false
	}
	s.Took(topic, 1)
	return true
}

// again returns up to most hints that were set aside and may be claimed now, of the topics in
// turn.
func (a *aside) again(most int, s sharing) []store.Hint {
	var hints []store.Hint
	for refused := 0; len(hints) < most && refused < len(a.topics); {
		topic := a.topics[0]
		a.topics = a.topics[1:]
		if !s.take(topic) {
			a.topics = append(a.topics, topic)
			refused++
			continue
		}
		refused = 0
		h := a.hints[topic][0]
		hints = append(hints, h)
		delete(a.keys, h.Key())
		if a.hints[topic] = a.hints[topic][1:]; len(a.hints[topic]) > 0 {
			a.topics = append(a.topics, topic)
		} else {
			delete(a.hints, topic)
		}
	}
	return hints
}

// admit returns the hints of jobs that may be claimed now, and sets the others aside.
func (a *aside) admit(hints []store.Hint, s sharing) []store.Hint {
	admitted := hints[:0]
	for _, h := range hints {
		if _, again := a.keys[h.Key()]; again {
			continue // the visibility deadline of the first one has passed
		}
		topic := h.Lane.Topic
		has := len(a.hints[topic])
		switch {
		case has == 0 && s.take(topic):
			admitted = append(admitted, h)
		case rules.More(1, has, maxAside-len(a.keys)) > 0:
			if has == 0 {
				a.topics = append(a.topics, topic)
			}
			a.hints[topic] = append(a.hints[topic], h)
			a.keys[h.Key()] = struct{}{}
		}
	}
	return admitted
}

// empty takes out all hints.
func (a *aside) empty() []store.Hint {
	var all []store.Hint
	for _, topic := range a.topics {
		all = append(all, a.hints[topic]...)
	}
	*a = newAside()
	return all
}
