package dispatcher

import (
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// maxAside bounds the hints that are set aside. A topic may have one for each further one that has
// room. Others are dropped: their jobs are due again when their visibility deadlines pass. With the
// default of --ready-cap no store makes so many jobs ready.
const maxAside = 10_000

// shares divides the workers of a pipeline among topics. A topic may run rules.PerFree attempts
// for each free worker, or less in proportion if a topic with a higher weight is here. So no topic
// has all workers, however slow its receivers are. Hints of jobs that may not run yet are set
// aside: they cost neither a claim nor an attempt, and are not on the ready list before those of
// others. Claims are counted until their jobs have ended.
type shares struct {
	workers int
	weight  func(topic string) int
	jobs    chan<- *claim // for workers; a running job has a place in it

	mu       sync.Mutex
	topics   map[string]*portion
	queues   []*portion // with claims that wait, in the order of their turns
	asides   []*portion // with hints, in the order of their turns
	aside    map[job.Key]struct{}
	running  int
	queued   int
	heaviest int
}

// portion is what one topic has.
type portion struct {
	topic   string
	weight  int
	claimed int          // also ahead
	running int          // workers have them
	queue   []*claim     // claimed ahead
	hints   []store.Hint // set aside
}

func newShares(workers int, weight func(string) int, jobs chan<- *claim) *shares {
	return &shares{workers: workers, weight: weight, jobs: jobs, topics: map[string]*portion{}, aside: map[job.Key]struct{}{}}
}

// of returns the portion of a topic. s.mu is held.
func (s *shares) of(topic string) *portion {
	t := s.topics[topic]
	if t == nil {
		t = &portion{topic: topic, weight: s.weight(topic)}
		s.topics[topic] = t
		s.heaviest = max(s.heaviest, t.weight)
	}
	return t
}

// forget forgets a topic that has nothing. s.mu is held.
func (s *shares) forget(t *portion) {
	if t.claimed == 0 && len(t.hints) == 0 {
		delete(s.topics, t.topic)
	}
}

// more is how many more of some free workers the topic may have beside n. s.mu is held.
func (s *shares) more(t *portion, n, free int) int {
	return rules.More(rules.PerFree*float64(t.weight)/float64(max(s.heaviest, 1)), n, free)
}

// weigh reads the weights, which may have changed.
func (s *shares) weigh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heaviest = 0
	for _, t := range s.topics {
		t.weight = s.weight(t.topic)
		s.heaviest = max(s.heaviest, t.weight)
	}
}

// again returns up to most hints that were set aside and may be claimed now, of the topics in
// turn. free are the workers that may get jobs.
func (s *shares) again(most, free int) []store.Hint {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hints []store.Hint
	for refused := 0; len(hints) < most && refused < len(s.asides); {
		t := s.asides[0]
		s.asides = s.asides[1:]
		if s.more(t, t.claimed, free-len(hints)) == 0 {
			s.asides = append(s.asides, t)
			refused++
			continue
		}
		refused = 0
		h := t.hints[0]
		t.hints = t.hints[1:]
		delete(s.aside, h.Key())
		t.claimed++
		hints = append(hints, h)
		if len(t.hints) > 0 {
			s.asides = append(s.asides, t)
		}
	}
	return hints
}

// admit returns the hints of jobs that may be claimed now, and sets the others aside. free are the
// workers that may get jobs.
func (s *shares) admit(hints []store.Hint, free int) []store.Hint {
	s.mu.Lock()
	defer s.mu.Unlock()
	admitted := hints[:0]
	for _, h := range hints {
		if _, again := s.aside[h.Key()]; again {
			continue // the visibility deadline of the first one has passed
		}
		t := s.of(h.Lane.Topic)
		switch {
		case len(t.hints) == 0 && s.more(t, t.claimed, free-len(admitted)) > 0:
			t.claimed++
			admitted = append(admitted, h)
		case rules.More(1, len(t.hints), maxAside-len(s.aside)) > 0:
			if len(t.hints) == 0 {
				s.asides = append(s.asides, t)
			}
			t.hints = append(t.hints, h)
			s.aside[h.Key()] = struct{}{}
		default:
			s.forget(t)
		}
	}
	return admitted
}

// waits reports whether hints are set aside.
func (s *shares) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.aside) > 0
}

// claimed gives workers the jobs that admitted hints brought. Those that no worker may run yet
// wait in queues.
func (s *shares) claimed(admitted []store.Hint, claims []*claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		t := s.of(c.Job.Topic)
		t.claimed++
		if len(t.queue) == 0 {
			s.queues = append(s.queues, t)
		}
		t.queue = append(t.queue, c)
		s.queued++
	}
	for _, h := range admitted {
		t := s.topics[h.Lane.Topic]
		t.claimed--
		s.forget(t)
	}
	s.start()
}

// start gives workers the jobs that may run now, of the topics in turn. s.mu is held.
func (s *shares) start() {
	for refused := 0; refused < len(s.queues); {
		t := s.queues[0]
		s.queues = s.queues[1:]
		if s.more(t, t.running, s.workers-s.running) == 0 {
			s.queues = append(s.queues, t)
			refused++
			continue
		}
		refused = 0
		s.jobs <- t.queue[0]
		t.queue = t.queue[1:]
		t.running++
		s.running++
		s.queued--
		if len(t.queue) > 0 {
			s.queues = append(s.queues, t)
		}
	}
}

// ended notes that a worker has ended a job of a topic.
func (s *shares) ended(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[topic]
	t.running--
	t.claimed--
	s.running--
	s.forget(t)
	s.start()
}

// waiting reports whether claimed jobs wait for a worker.
func (s *shares) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queued > 0
}

// untaken takes out the jobs that were claimed before a time and still wait for a worker.
func (s *shares) untaken(before time.Time) []*claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*claim
	queues := s.queues[:0]
	for _, t := range s.queues {
		n := 0
		for n < len(t.queue) && !t.queue[n].got.After(before) {
			n++
		}
		all = append(all, t.queue[:n]...)
		t.queue = t.queue[n:]
		t.claimed -= n
		s.queued -= n
		if len(t.queue) > 0 {
			queues = append(queues, t)
		}
		s.forget(t)
	}
	s.queues = queues
	return all
}

// takeAside takes out all hints that are set aside, as claimed.
func (s *shares) takeAside() []store.Hint {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []store.Hint
	for _, t := range s.asides {
		all = append(all, t.hints...)
		t.claimed += len(t.hints)
		t.hints = nil
	}
	s.asides = nil
	clear(s.aside)
	return all
}
