package schedules

import (
	"context"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/signal"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Ends notes the schedules whose jobs end in this process. A queued occurrence waits for
// such an end. Calls never block.
type Ends struct {
	mu    sync.Mutex
	names map[string]bool
	some  signal.Signal
}

// NewEnds returns an Ends that has noted nothing.
func NewEnds() *Ends { return &Ends{names: map[string]bool{}, some: signal.New()} }

// Subscriber hears of the ends of jobs.
func (e *Ends) Subscriber() feed.Subscriber {
	return feed.Subscriber{
		Updated: func(j *job.Job, _ job.State, _ job.Instant) {
			if j.Spec.Occurrence != nil && j.State.Final() {
				e.note(j.ID)
			}
		},
		Settled: func(outcomes iter.Seq2[*job.Settlement, *store.Settled]) {
			for s, r := range outcomes {
				if s.Keep && r.To.Final() {
					e.note(s.Key.ID)
				}
			}
		},
	}
}

// maxEnds bounds the names that wait to be passed on. Schedules beyond it are looked at
// later.
const maxEnds = MaxSchedules

func (e *Ends) note(id string) {
	at := strings.LastIndexByte(id, '@')
	if at < 0 {
		return
	}
	e.mu.Lock()
	if len(e.names) < maxEnds {
		e.names[id[:at]] = true
	}
	e.mu.Unlock()
	e.some.Set()
}

func (e *Ends) take() (names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name := range e.names {
		names = append(names, name)
	}
	clear(e.names)
	return names
}

const (
	// endMark begins a message with names of schedules whose jobs ended; endMark is
	// between them, too. Names cannot contain it.
	endMark = "\n"
	// gatherEnds is how long ends are gathered for a message.
	gatherEnds = 100 * time.Millisecond
	// endsPerMessage bounds a message.
	endsPerMessage = 500
	// queuedPerSecond bounds the queued occurrences that are looked at although no end was
	// heard of: messages may get lost.
	queuedPerSecond = 200
)

// passEnds reports ends to the elected node until ctx ends.
func (m *Manager) passEnds(ctx context.Context) {
	for m.o.Ends != nil {
		select {
		case <-ctx.Done():
			return
		case <-m.o.Ends.some:
		}
		names := m.o.Ends.take()
		if m.engine.leads.Load() {
			m.engine.heardEnds(names)
			continue
		}
		for ; len(names) > 0; names = names[min(len(names), endsPerMessage):] {
			some := names[:min(len(names), endsPerMessage)]
			if err := m.o.Store.Publish(ctx, channel, []byte(endMark+strings.Join(some, endMark))); err != nil {
				m.log.DebugContext(ctx, "queued occurrences cannot be registered; retrying", "error", err)
			}
		}
		_ = job.Sleep(ctx, m.clock, gatherEnds)
	}
}

// heardMessage takes a message of another node.
func (e *engine) heardMessage(message string) {
	if rest, ends := strings.CutPrefix(message, endMark); ends {
		e.heardEnds(strings.Split(rest, endMark))
		return
	}
	e.heard(message)
}

// heardEnds notes that jobs of schedules ended.
func (e *engine) heardEnds(names []string) {
	e.mu.Lock()
	waiting := false
	for _, name := range names {
		if e.queued[name] {
			e.ended[name], waiting = true, true
		}
	}
	e.mu.Unlock()
	if waiting {
		e.kick.Set()
	}
}

// setQueued records whether a schedule has a queued occurrence.
func (e *engine) setQueued(name string, queued bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if queued {
		e.queued[name] = true
	} else {
		delete(e.queued, name)
	}
}

// takeEnded plans a look at the schedules whose jobs ended.
func (e *engine) takeEnded(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name := range e.ended {
		if n := e.entries[name]; n != nil && n.doc.Value.Queued != nil {
			n.at = earlier(n.at, now)
		}
	}
	clear(e.ended)
}

// queuedPause is how long a queued occurrence waits for the next look without a message.
func (e *engine) queuedPause() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return retryPause * time.Duration(1+len(e.queued)/queuedPerSecond)
}
