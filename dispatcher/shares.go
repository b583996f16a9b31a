package dispatcher

import (
	"sync"
	"time"

	"github.com/duehook/duehook/store/rules"
)

// shares divides the workers of a pipeline among topics. A topic may run rules.PerFree attempts
// for each free worker, or less in proportion if a topic with a higher weight is here. So no topic
// has all workers, however slow its receivers are. The store is asked for jobs by the same rule. Claims
// are counted until their jobs have ended.
type shares struct {
	workers int
	weight  func(topic string) int
	jobs    chan<- *claim // for workers; a running job has a place in it

	mu       sync.Mutex
	topics   map[string]*portion
	queues   []*portion // with claims that wait, in the order of their turns
	running  int
	queued   int
	heaviest int
}

// portion is what one topic has.
type portion struct {
	topic   string
	weight  int
	claimed int      // also ahead
	running int      // workers have them
	queue   []*claim // claimed ahead
}

func newShares(workers int, weight func(string) int, jobs chan<- *claim) *shares {
	return &shares{workers: workers, weight: weight, jobs: jobs, topics: map[string]*portion{}}
}

// of returns the portion of a topic. s.mu is held.
func (s *shares) of(topic string) *portion {
	t := s.topics[topic]
	if t == nil {
		t = &portion{topic: topic}
		s.topics[topic] = t
	}
	return t
}

// forget forgets a topic that has nothing. s.mu is held.
func (s *shares) forget(t *portion) {
	if t.claimed == 0 {
		delete(s.topics, t.topic)
	}
}

// mayRun reports whether the topic may run one more job. s.mu is held.
func (s *shares) mayRun(t *portion) bool {
	return rules.MoreWorkers(t.weight, s.heaviest, t.running, s.workers-s.running) > 0
}

// claimed returns the claimed jobs of topics that have some.
func (s *shares) claimed() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := make(map[string]int, len(s.topics))
	for topic, t := range s.topics {
		has[topic] = t.claimed
	}
	return has
}

// add gives workers claimed jobs. Those that no worker may run yet wait in queues.
func (s *shares) add(claims []*claim) {
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
	s.heaviest = 0 // weights may have changed
	for _, t := range s.topics {
		t.weight = s.weight(t.topic)
		s.heaviest = max(s.heaviest, t.weight)
	}
	s.start()
}

// start gives workers the jobs that may run now, of the topics in turn. s.mu is held.
func (s *shares) start() {
	for refused := 0; refused < len(s.queues); {
		t := s.queues[0]
		s.queues = s.queues[1:]
		if !s.mayRun(t) {
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
