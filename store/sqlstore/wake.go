package sqlstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// pollWait is how long a take that finds nothing waits at most: messages between nodes may be lost, and the database
// calls nobody.
const (
	pollWait   = time.Second
	pollSpread = pollWait / 4 // more or less
	pollMost   = pollWait + pollSpread
)

// pollTime is about pollWait. Nodes do not ask at the same time.
func pollTime() time.Duration {
	return pollWait - pollSpread + rand.N(2*pollSpread) //nolint:gosec // it only spreads calls
}

const (
	// emptyPause is the least time between two takes of a call that find nothing.
	emptyPause = time.Millisecond
	// crowdedPause is how long a call waits while jobs wait for workers: the caller asks again with those that it has then.
	crowdedPause = 5 * time.Millisecond
)

// Take claims due jobs.
func (s *Store) Take(ctx context.Context, _ int, o store.TakeOptions) (store.Taken, error) {
	end := job.SystemClock().Now().Add(o.Wait)
	for {
		if taken, over, err := s.takeOrWait(ctx, &o, end); over || err != nil {
			return taken, err
		}
	}
}

// takeOrWait takes what is due, or waits until there may be more. It reports whether the call is over.
func (s *Store) takeOrWait(ctx context.Context, o *store.TakeOptions, end time.Time) (taken store.Taken, over bool, err error) {
	rung := s.alarm.heard()
	defer s.alarm.leave(rung)
	if rest := min(s.alarm.rest(), end.Sub(job.SystemClock().Now())); o.Pull == nil && rest > 0 {
		s.listen()
		s.await(ctx, rung, rest)
	}
	taken, shared, err := s.takeAlone(ctx, o)
	left := end.Sub(job.SystemClock().Now())
	if err != nil || len(taken.Claims) > 0 || left <= 0 {
		return taken, true, err
	}
	s.listen()
	wait, planned := min(left, pollTime()), false
	if taken.Wait >= 0 && taken.Wait < wait {
		wait, planned = min(wait, max(taken.Wait, emptyPause)), true
	}
	if shared {
		wait = min(wait, crowdedPause)
	}
	for s.await(ctx, rung, min(wait, end.Sub(job.SystemClock().Now()))) && o.Pull == nil && !shared && !planned && s.isQuiet(ctx) {
		wait = pollTime()
	}
	if shared {
		return store.Taken{}, true, ctx.Err()
	}
	return store.Taken{}, false, nil
}

// await waits, and reports whether the time has passed.
func (s *Store) await(ctx context.Context, rung <-chan struct{}, d time.Duration) bool {
	timer := job.SystemClock().NewTimer(d)
	defer timer.Stop()
	select {
	case <-rung:
	case <-ctx.Done():
	case <-s.done.Done():
	case <-timer.C():
		return d > 0
	}
	return false
}

// isQuiet reports whether a take would find nothing. It costs less than a take.
func (s *Store) isQuiet(ctx context.Context) (quiet bool) {
	from, sweeps := s.folds.peek(job.SystemClock().Now())
	if sweeps {
		return false
	}
	_, err := s.ask(ctx, func(b *pgx.Batch) {
		b.Queue(s.sql(`SELECT NOT EXISTS (SELECT FROM duehook.delta WHERE seq > $1 ORDER BY seq LIMIT 1)
			AND coalesce(`+nextLook+` > `+clock+`, true)`), from).
			QueryRow(func(row pgx.Row) error { return row.Scan(&quiet) })
	})
	return err == nil && quiet
}

// takeAlone takes what is due. The takes of a process go one after another: they would only wait for the lock.
func (s *Store) takeAlone(ctx context.Context, o *store.TakeOptions) (taken store.Taken, shared bool, err error) {
	select {
	case s.taking <- struct{}{}:
		defer func() { <-s.taking }()
	case <-ctx.Done():
	case <-s.done.Done():
		return taken, false, errClosed
	}
	if err := ctx.Err(); err != nil {
		return taken, false, err
	}
	return s.takeOnce(ctx, o)
}

// alarm wakes the takes of this process that wait.
type alarm struct {
	mu    sync.Mutex
	rung  chan struct{} // closed by the next ring; nil: nobody waits
	hears int           // calls that take or wait
	rings int           // so far
	quiet struct {      // what the last take knew
		rings int // before it
		until time.Time
	}
	full atomic.Int64 // until when jobs may wait for a place
}

// heard is closed by the next ring.
func (a *alarm) heard() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hears++; a.rung == nil {
		a.rung = make(chan struct{})
	}
	return a.rung
}

// ring reports whether somebody hears it.
func (a *alarm) ring() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rings++
	heard := a.rung != nil
	if heard {
		close(a.rung)
		a.rung = nil
	}
	return heard
}

// now is how often it has rung.
func (a *alarm) now() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rings
}

// expect notes that a take found nothing to come before a time. rings is what now was before it.
func (a *alarm) expect(rings int, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.quiet.rings, a.quiet.until = rings, until
}

// rest is how long a take would find nothing: it has not rung since the last one, which knew that.
func (a *alarm) rest() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.quiet.rings != a.rings {
		return 0
	}
	return a.quiet.until.Sub(job.SystemClock().Now())
}

// leave ends to hear the next ring, if nobody else does.
func (a *alarm) leave(rung <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hears--; a.hears == 0 && a.rung == rung {
		a.rung = nil
	}
}

// wake wakes takes for what the transaction has written, those of other nodes if none of this process waits, and consumers.
func (t *txn) wake() {
	calls, soon := t.calls, t.now.Add(pollMost+job.SystemClock().Now().Sub(t.began)) // what is due later is found by polling
	mayFree := int64(t.now) < t.s.alarm.full.Load()
	for l, d := range t.deltas.lanes {
		freed := d.states[job.Running] < 0 && mayFree
		calls = calls || freed || d.lease != 0 && d.lease <= soon
		switch {
		case !l.Pulled():
			calls = calls || d.wake != 0 && d.wake <= soon
		case freed:
			t.tell(l.Topic, t.now)
		case d.wake != 0:
			t.tell(l.Topic, d.wake)
		}
	}
	elsewhere := calls && !t.s.alarm.ring()
	if elsewhere || len(t.pulls) > 0 {
		t.s.hint(elsewhere, t.pulls)
	}
}

// tell tells the consumers of a topic that a job may be due at a time.
func (t *txn) tell(topic string, at job.Instant) {
	if t.pulls == nil {
		t.pulls = map[string]job.Instant{}
	}
	if before, known := t.pulls[topic]; !known || at < before {
		t.pulls[topic] = at
	}
}

// clockSlack is how far the clock may go back without a correction. Jobs are late by at most that much.
const clockSlack = time.Second
