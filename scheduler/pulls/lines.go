package pulls

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/kit/signal"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// maxLines bounds the topics of which a node remembers when a job is due.
	maxLines = 10_000
	// deaf is the interval of looks while no messages arrive.
	deaf = time.Second
	// unheard is after how long a waiting consumer looks without a message: one may have been lost.
	unheard = time.Minute
	// wakesMore is how many consumers are woken when one found more than it took.
	wakesMore = 2
)

// lines are the consumers that wait, by topic.
type lines struct {
	clock   job.Clock
	changed signal.Signal // the first time may be earlier

	mu      sync.Mutex
	of      map[string]*line
	hears   bool          // messages about jobs arrive
	ahead   time.Duration // of the store's clock
	waiting int
}

// line is the consumers of one topic, and when a look at it may find a job.
type line struct {
	next    time.Time
	waiters []*waiter
}

// waiter is a waiting call.
type waiter struct {
	topics []string
	woken  signal.Signal
}

func newLines(clock job.Clock) *lines {
	return &lines{clock: clock, changed: signal.New(), of: map[string]*line{}}
}

// lineOf returns the line of a topic. A new one has to be looked at.
func (l *lines) lineOf(topic string, now time.Time) *line {
	of := l.of[topic]
	if of == nil {
		if len(l.of) >= maxLines {
			l.forget()
		}
		of = &line{next: now}
		l.of[topic] = of
	}
	return of
}

// forget forgets lines in which nobody waits.
func (l *lines) forget() {
	for topic, of := range l.of {
		if len(of.waiters) == 0 {
			delete(l.of, topic)
		}
	}
}

// enter adds a waiting call. It returns true if something may be due.
func (l *lines) enter(w *waiter) (look bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting >= maxWaiting {
		return false, fmt.Errorf("%w: %d calls wait for jobs at this server; try another one, or again later", store.ErrUnavailable, maxWaiting)
	}
	now := l.clock.Now()
	look = !l.hears
	for _, topic := range w.topics {
		of := l.lineOf(topic, now)
		of.waiters = append(of.waiters, w)
		look = look || !of.next.After(now)
	}
	l.waiting++
	l.changed.Set()
	return look, nil
}

// count is the number of waiting calls.
func (l *lines) count() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(l.waiting)
}

// now is the store's time, as far as it is known.
func (l *lines) now() job.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return job.InstantOf(l.clock.Now().Add(l.ahead))
}

// leave removes a waiting call. If it was woken and did not look, another one is.
func (l *lines) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	woken := false
	select {
	case <-w.woken:
		woken = true
	default:
	}
	for _, topic := range w.topics {
		of := l.of[topic]
		of.waiters = slices.DeleteFunc(of.waiters, func(o *waiter) bool { return o == w })
		if woken {
			of.wake()
		}
	}
	l.waiting--
}

// wake wakes the consumer that has waited longest of those that are not woken.
func (of *line) wake() {
	if len(of.waiters) == 0 {
		return
	}
	w := of.waiters[0]
	copy(of.waiters, of.waiters[1:])
	of.waiters[len(of.waiters)-1] = w
	w.woken.Set()
}

// looks notes that a look at topics begins: what is heard from now on is newer.
func (l *lines) looks(topics []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	for _, topic := range topics {
		l.lineOf(topic, now).next = now.Add(l.patience())
	}
}

// patience is how long a line is left alone.
func (l *lines) patience() time.Duration {
	if l.hears {
		return unheard
	}
	return deaf
}

// looked notes the end of a look: there may be more after a wait; negative: nothing waits. If more
// is due now and the look found some, others look at once.
func (l *lines) looked(topics []string, wait time.Duration, found bool) {
	if wait < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait == 0 && !found {
		wait = time.Millisecond // others take it at the moment
	}
	at := l.clock.Now().Add(wait)
	for _, topic := range topics {
		of := l.lineOf(topic, at)
		of.next = earlier(of.next, at)
		if wait == 0 {
			for range wakesMore {
				of.wake()
			}
		}
	}
	l.changed.Set()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// hear notes a message: a job of the topic may be due at a time of the store.
func (l *lines) hear(topic string, due job.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of[topic]
	if of == nil {
		return
	}
	at := due.Time().Add(-l.ahead)
	if at.Before(of.next) {
		of.next = at
		l.changed.Set()
	}
}

// listens notes whether messages arrive. Some may have been lost before.
func (l *lines) listens(hears bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hears = hears
	now := l.clock.Now()
	for _, of := range l.of {
		of.next = earlier(of.next, now)
	}
	l.changed.Set()
}

// tells notes the time of the store.
func (l *lines) tells(now job.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead = now.Time().Sub(l.clock.Now())
}

// due wakes a consumer of each topic that may have a job, and returns how long none will.
func (l *lines) due() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	rest := unheard
	for _, of := range l.of {
		if len(of.waiters) == 0 {
			continue
		}
		if !of.next.After(now) {
			of.next = now.Add(l.patience()) // until it has looked
			of.wake()
		}
		rest = min(rest, of.next.Sub(now))
	}
	return rest
}
