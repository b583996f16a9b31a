package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// passOptions are the options of one pass.
type passOptions struct {
	store.RestoreOptions
	requested bool // by a client
	urgent    bool // without pauses
}

// pass compares the ledger and the store once, and repairs the differences.
type pass struct {
	s      *Store
	o      passOptions
	began  time.Time
	cancel context.CancelFunc
	done   chan struct{}

	// Once done.
	ended time.Time
	err   error

	// Of the goroutine.
	worked time.Time // when work began after the last pause

	// moving are jobs that could not be repaired yet, because they changed.
	moving atomic.Int64
	mu     sync.Mutex
	sum    store.RestoreReport // so far
	bad    map[int64]*entry    // that cannot be read, by seq
}

// startPass begins a pass. The caller waits for done, and may cancel.
func (s *Store) startPass(ctx context.Context, o passOptions) *pass {
	ctx, cancel := context.WithCancel(ctx)
	p := &pass{s: s, o: o, began: s.o.Clock.Now(), cancel: cancel, done: make(chan struct{}), bad: map[int64]*entry{}}
	go func() {
		defer close(p.done)
		defer cancel()
		p.err = p.compareAll(ctx)
		p.ended = s.o.Clock.Now()
	}()
	return p
}

// whole reports whether the pass compares all jobs.
func (p *pass) whole() bool { return p.o.Topic == "" && !p.o.NotOverdue }

// compareAll compares both ways.
func (p *pass) compareAll(ctx context.Context) error {
	p.worked = p.began
	if p.o.urgent && p.s.o.BeforeRestore != nil {
		if err := p.s.o.BeforeRestore(ctx); err != nil {
			return fmt.Errorf("prepare to restore jobs: %w", err)
		}
	}
	w := walkers{
		compare: p.s.comparer, topic: p.o.Topic, settle: p.settle, pause: p.pause,
		dead:    p.o.urgent, // otherwise they do not change
		checked: func(jobs int) { p.add(store.RestoreReport{Checked: int64(jobs)}) },
	}
	if err := w.ledger(ctx); err != nil {
		return err
	}
	return w.store(ctx)
}

// wanted leaves out what cannot be read, and overdue jobs if the request does.
func (p *pass) wanted(found []finding) []finding {
	now := job.InstantOf(p.s.o.Clock.Now())
	return slices.DeleteFunc(found, func(f finding) bool {
		if f.difference == UnreadableInLedger {
			p.addBad(f.entry)
			return true
		}
		overdue := p.o.NotOverdue && f.difference == MissingInStore && !f.entry.state.Final() && f.entry.wakeAt <= now
		if overdue {
			p.add(store.RestoreReport{Skipped: 1})
		}
		return overdue
	})
}

// settle waits, checks the differences again, and repairs the remaining ones.
func (p *pass) settle(ctx context.Context, found []finding) error {
	if found = p.wanted(found); len(found) == 0 {
		return nil
	}
	if err := job.Sleep(ctx, p.s.o.Clock, p.s.o.Pace.SecondLook); err != nil {
		return err
	}
	p.worked = p.s.o.Clock.Now()
	return p.repairAll(ctx, found)
}

// pause rests after a page. It does not if jobs were lost, or if the pass takes so long
// that the store cannot forget ended jobs.
func (p *pass) pause(ctx context.Context) error {
	now := p.s.o.Clock.Now()
	work := now.Sub(p.worked)
	if !p.o.urgent && now.Sub(p.began) < p.s.o.StoreRetention/4 {
		if err := job.Sleep(ctx, p.s.o.Clock, restShare*work); err != nil {
			return err
		}
	}
	p.worked = p.s.o.Clock.Now()
	return ctx.Err()
}

// run returns the report of the pass. started is when it began; zero: when this node
// began it.
func (p *pass) run(started job.Instant) store.RestoreRun {
	r := store.RestoreRun{State: store.RestoreRunning, Options: p.o.RestoreOptions, StartedAt: started, RestoreReport: p.report()}
	if started == 0 {
		r.StartedAt = job.InstantOf(p.began)
	}
	select {
	case <-p.done:
	default:
		return r
	}
	r.State, r.EndedAt = store.RestoreDone, job.InstantOf(p.ended)
	if p.err != nil {
		r.State = store.RestoreFailed
	}
	return r
}

// log reports to the operator.
func (p *pass) log() {
	took, r := p.ended.Sub(p.began), p.report()
	if p.whole() {
		p.s.metrics.lastPass.Set(float64(p.ended.UnixMilli()) / 1000)
		p.s.metrics.passSeconds.Set(took.Seconds())
		p.s.metrics.unreadable.Set(float64(r.Unreadable))
		p.s.metrics.noRoom.Set(float64(r.NoRoom))
	}
	p.s.reportUnreadable(p.unreadable())
	level, text := p.s.o.Logger.Debug, "reconciled the ledger and the store"
	if r.Restored+r.Conflicts > 0 || p.o.requested {
		level = p.s.o.Logger.Info
	}
	if r.Restored > 0 {
		text = "jobs that the store lacked were restored from the ledger"
	}
	level(text, "checked", r.Checked, "restored", r.Restored, "skipped", r.Skipped,
		"no_room", r.NoRoom, "conflicts", r.Conflicts, "repaired", r.Repaired, "took", took)
}

// add counts what a step did.
func (p *pass) add(r store.RestoreReport) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum.Checked += r.Checked
	p.sum.Restored += r.Restored
	p.sum.Skipped += r.Skipped
	p.sum.NoRoom += r.NoRoom
	p.sum.Conflicts += r.Conflicts
	p.sum.Repaired += r.Repaired
	p.s.metrics.add(r)
}

// addBad adds messages that cannot be read.
func (p *pass) addBad(list ...*entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range list {
		p.bad[e.seq] = e
	}
}

// unreadable returns the messages that cannot be read, in the order of their registration.
func (p *pass) unreadable() []*entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := slices.Collect(maps.Values(p.bad))
	sort.Slice(list, func(i, j int) bool { return list[i].seq < list[j].seq })
	return list
}

func (p *pass) report() store.RestoreReport {
	bad := p.unreadable()
	p.mu.Lock()
	r := p.sum
	p.mu.Unlock()
	r.Unreadable = int64(len(bad))
	for _, e := range bad[:min(len(bad), store.MaxUnreadableNamed)] {
		r.UnreadableJobs = append(r.UnreadableJobs, e.key.String())
	}
	return r
}
