package pulls

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/internal/kit/storetime"
	"github.com/duehook/duehook/store"
)

const (
	// maxTopics bounds the topics for which calls wait, or of which a node remembers when a job is due.
	maxTopics = 100_000
	// deaf is the interval of looks while no messages arrive.
	deaf = time.Second
	// unheard is after how long a waiting consumer looks without a message: one may have been lost.
	unheard = time.Minute
	// longestRest is how long a node does not compare times: a timer does not run while a machine sleeps.
	longestRest = time.Second
	// wakesMore is how many consumers are woken when one found more than it took.
	wakesMore = 2
)

// waiters are the consumers that wait, by topic.
type waiters struct {
	clock   job.Clock
	stored  *storetime.Clock
	changed loops.Signal // the first time may be earlier

	mu        sync.Mutex
	of        map[string]*topicWaiters
	waiting   int  // calls
	listening bool // messages about jobs arrive
}

// topicWaiters are the consumers that wait for one topic, and when a look at it may find a job.
type topicWaiters struct {
	next    time.Time // a wait, added to the node's monotonic time: never a time of the store
	waiters []*waiter
}

// waiter is a waiting call.
type waiter struct {
	topics []string
	woken  loops.Signal
}

// BusyError is the error of a call that would wait for more topics than a node can. It wraps store.ErrUnavailable.
type BusyError struct{ Topics int }

func (e *BusyError) Error() string {
	return fmt.Sprintf("calls wait for jobs of %d topics at this server, and may for %d", e.Topics, maxTopics)
}

func (*BusyError) Unwrap() error { return store.ErrUnavailable }

func newWaiters(clock job.Clock, stored *storetime.Clock) *waiters {
	return &waiters{clock: clock, stored: stored, changed: loops.NewSignal(), of: map[string]*topicWaiters{}}
}

// ofTopic returns the waiters of a topic. A new topic has to be looked at, and is not kept if there are too many.
func (ws *waiters) ofTopic(topic string, now time.Time) *topicWaiters {
	of := ws.of[topic]
	if of == nil {
		of = &topicWaiters{next: now}
		if len(ws.of) < maxTopics {
			ws.of[topic] = of
		}
	}
	return of
}

// fit makes room for topics. It returns false if there is none.
func (ws *waiters) fit(topics []string) bool {
	if len(ws.of)+len(topics) > maxTopics {
		maps.DeleteFunc(ws.of, func(_ string, of *topicWaiters) bool { return len(of.waiters) == 0 })
	}
	missing := 0
	for _, topic := range topics {
		if ws.of[topic] == nil {
			missing++
		}
	}
	return len(ws.of)+missing <= maxTopics
}

// enter adds a waiting call. It returns true if something may be due.
func (ws *waiters) enter(w *waiter) (look bool, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if !ws.fit(w.topics) {
		return false, &BusyError{Topics: len(ws.of)}
	}
	ws.waiting++
	now := ws.clock.Now()
	look = !ws.listening
	for _, topic := range w.topics {
		of := ws.ofTopic(topic, now)
		of.waiters = append(of.waiters, w)
		look = look || of.rest(now) <= 0
	}
	ws.changed.Set()
	return look, nil
}

// count is the number of waiting calls.
func (ws *waiters) count() float64 {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return float64(ws.waiting)
}

// rest is how long a look at the topic will find nothing. No wait is longer than unheard: one that is shows
// that the node's clock went back.
func (of *topicWaiters) rest(now time.Time) time.Duration {
	if rest := of.next.Sub(now); rest <= unheard {
		return rest
	}
	return 0
}

// leave removes a waiting call. If it was woken and did not look, another one is.
func (ws *waiters) leave(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	woken := false
	select {
	case <-w.woken:
		woken = true
	default:
	}
	for _, topic := range w.topics {
		of := ws.of[topic]
		of.waiters = slices.DeleteFunc(of.waiters, func(o *waiter) bool { return o == w })
		if woken {
			of.wake()
		}
	}
	ws.waiting--
}

// wake wakes the consumer that has waited longest of those that are not woken.
func (of *topicWaiters) wake() {
	if len(of.waiters) == 0 {
		return
	}
	w := of.waiters[0]
	copy(of.waiters, of.waiters[1:])
	of.waiters[len(of.waiters)-1] = w
	w.woken.Set()
}

// beginLook notes that a look at topics begins: what is heard from now on is newer.
func (ws *waiters) beginLook(topics []string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	now := ws.clock.Now()
	for _, topic := range topics {
		ws.ofTopic(topic, now).next = now.Add(ws.patience())
	}
}

// patience is how long nobody looks at a topic without a message.
func (ws *waiters) patience() time.Duration {
	if ws.listening {
		return unheard
	}
	return deaf
}

// endLook notes the end of a look: there may be more after a wait; negative: nothing waits. If more
// is due now and the look found some, others look at once.
func (ws *waiters) endLook(topics []string, wait time.Duration, found bool) {
	if wait < 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if wait == 0 && !found {
		wait = time.Millisecond // others take it at the moment
	}
	at := ws.clock.Now().Add(min(wait, unheard))
	for _, topic := range topics {
		of := ws.ofTopic(topic, at)
		of.next = earlier(of.next, at)
		if wait == 0 {
			for range wakesMore {
				of.wake()
			}
		}
	}
	ws.changed.Set()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// noteDue notes a message: a job of the topic may be due at a time of the store.
func (ws *waiters) noteDue(topic string, due job.Instant) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	of := ws.of[topic]
	if of == nil {
		return
	}
	at := ws.clock.Now().Add(min(due.Sub(ws.stored.Instant()), unheard))
	if at.Before(of.next) {
		of.next = at
		ws.changed.Set()
	}
}

// setListening notes whether messages arrive. Some may have been lost before.
func (ws *waiters) setListening(listening bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.listening = listening
	ws.lookNow()
}

// stepped notes that the store's clock was set: waits for due times are too long or too short.
func (ws *waiters) stepped() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.lookNow()
}

// lookNow has the consumers of all topics look.
func (ws *waiters) lookNow() {
	now := ws.clock.Now()
	for _, of := range ws.of {
		of.next = now
	}
	ws.changed.Set()
}

// due wakes a consumer of each topic that may have a job, and returns how long none will, up to longestRest.
func (ws *waiters) due() time.Duration {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	now := ws.clock.Now()
	rest := longestRest
	for _, of := range ws.of {
		if len(of.waiters) == 0 {
			continue
		}
		ws.stored.Instant() // so that it goes on to notice steps
		if of.rest(now) <= 0 {
			of.next = now.Add(ws.patience()) // until it has looked
			of.wake()
		}
		rest = min(rest, of.next.Sub(now))
	}
	return rest
}
