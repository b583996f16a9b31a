package simulation

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/carrier"
	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// link is a process's way to the store. Calls take time on it, get lost on
// their way there or back, and end with the process.
type link struct{ life func() *life }

var (
	_ carrier.Store    = (*link)(nil)
	_ dispatcher.Store = (*link)(nil)
	_ app.Store        = (*link)(nil)
)

// Errors of calls that met trouble.
var (
	errGone    = fmt.Errorf("%w: the process is dead", store.ErrUnavailable)
	errRefused = fmt.Errorf("%w: refused", store.ErrUnavailable)
	errLost    = fmt.Errorf("%w: the answer was lost", store.ErrUnavailable)
	errCut     = fmt.Errorf("%w: cut off", store.ErrUnavailable)
)

// hangTime is how long a call waits for a store that does not answer.
const hangTime = 3 * time.Second

// fate is the planned outcome of one call.
type fate struct {
	there, back                    time.Duration // time on the way
	refused, lost, dieHere, dieNow bool          // the last two: before and after it took effect
}

func (l *life) fate(purpose string) fate {
	r, w := l.draw(purpose), l.n.w
	if w.direct {
		return fate{}
	}
	f := fate{there: between(r, 10*time.Microsecond, time.Millisecond), back: between(r, 10*time.Microsecond, time.Millisecond)}
	chance := func(thousandths int) bool { return r.IntN(1000) < thousandths }
	refused, lost, slow, dies := chance(w.refused), chance(w.lost), chance(w.slow), chance(w.plan.crash)
	late, after := between(r, 10*time.Millisecond, oneOf(r, time.Second, time.Second, 40*time.Second)), r.IntN(2) == 0
	if w.isCalm.Load() {
		return f
	}
	switch {
	case dies:
		f.dieHere, f.dieNow = !after, after
	case slow && after:
		f.back += late
	case slow:
		f.there += late
	default:
		f.refused, f.lost = refused, lost
	}
	return f
}

// writesSchedule begins the purposes of calls that write schedules.
const writesSchedule = "PutDocuments schedule "

// call makes one call over the link. What reaches the store takes effect there
// whatever becomes of the caller.
func call[T any](ctx context.Context, k *link, purpose string, do func(context.Context, *recorder) (T, error)) (T, error) {
	var none T
	l := k.life()
	f, began := l.fate(purpose), l.n.w.now()
	// A call that just fails is no excuse: it is to be repeated.
	failed := func(err error) (T, error) {
		l.n.w.history.count("calls that failed or were lost")
		if strings.HasPrefix(purpose, "Register ") || strings.HasPrefix(purpose, writesSchedule) {
			l.n.w.history.count("decisions without an answer")
		}
		l.n.w.note("%s %s: %v", l.name, purpose, err)
		return none, err
	}
	if max(f.there, f.back) > time.Second {
		l.n.w.history.count("slow calls")
		defer func() { l.fault(began, l.n.w.now()) }() // a stall can make it longer still
	}
	if err := l.travel(ctx, f.there); err != nil {
		return failed(err)
	}
	if f.dieHere && !l.n.w.isCalm.Load() {
		l.crashSoon(l.draw("crash"))
		return none, errGone
	}
	if f.refused {
		return failed(errRefused)
	}
	v, err := do(context.WithoutCancel(ctx), &recorder{life: l, Store: l.store})
	if f.dieNow && !l.n.w.isCalm.Load() {
		l.crashSoon(l.draw("crash"))
		return none, errGone
	}
	if err := l.travel(ctx, f.back); err != nil {
		return failed(err)
	}
	if f.lost {
		return failed(errLost)
	}
	if err == nil && strings.HasPrefix(purpose, writesSchedule) {
		l.mu.Lock()
		l.wrote = append(l.wrote, span{began, l.n.w.now()})
		l.mu.Unlock()
	}
	return v, err
}

// travel takes the time of one way, and fails if the link is cut in that time.
func (l *life) travel(ctx context.Context, d time.Duration) error {
	if err := l.wait(ctx, d); err != nil {
		return err
	}
	t := l.n.inTrouble()
	switch t.kind {
	case eventCut:
		return errCut
	case eventHang:
		if err := l.wait(ctx, hangTime); err != nil {
			return err
		}
		return errCut
	case eventStall:
		select {
		case <-t.ended:
		case <-l.alive.Done():
			return errGone
		}
		return l.wait(ctx, d)
	}
	return nil
}

// wait waits, unless ctx or the process ends before.
func (l *life) wait(ctx context.Context, d time.Duration) error {
	t := clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.alive.Done():
	case <-ctx.Done():
	case <-t.C():
	}
	if l.alive.Err() != nil { // comes first: which of several cases a select takes is chance
		return errGone
	}
	return ctx.Err()
}

// Register and the others are calls of store.Store over the link.
func (k *link) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	return call(ctx, k, "Register "+regs[0].Key.String(), func(ctx context.Context, s *recorder) ([]store.Registered, error) {
		return s.Register(ctx, regs)
	})
}

func (k *link) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	var refused error
	j, err := call(ctx, k, "Update "+key.String(), func(ctx context.Context, s *recorder) (job.Job, error) {
		j, err := s.Update(ctx, key, change)
		refused = err
		return j, err
	})
	if err != nil && refused == nil {
		j = job.Job{}
	}
	return j, err
}

func (k *link) Count(ctx context.Context, c store.Count) (store.Counted, error) {
	return call(ctx, k, "Count "+c.Key.String(), func(ctx context.Context, s *recorder) (store.Counted, error) { return s.Count(ctx, c) })
}

func (k *link) Get(ctx context.Context, key job.Key) (job.Job, error) {
	return call(ctx, k, "Get "+key.String(), func(ctx context.Context, s *recorder) (job.Job, error) { return s.Get(ctx, key) })
}

func (k *link) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	return call(ctx, k, "Outlook "+key.String(), func(ctx context.Context, s *recorder) (store.Outlook, error) {
		return s.Outlook(ctx, key)
	})
}

func (k *link) Names(ctx context.Context, q store.NameQuery) ([]string, error) {
	return call(ctx, k, "Names", func(ctx context.Context, s *recorder) ([]string, error) { return s.Names(ctx, q) })
}

func (k *link) Entries(ctx context.Context, of store.Index, span store.Span) (entries []store.Entry, next *store.Position, err error) {
	entries, err = call(ctx, k, "Entries", func(ctx context.Context, s *recorder) (found []store.Entry, err error) {
		found, next, err = s.Entries(ctx, of, span)
		return found, err
	})
	return entries, next, err
}

func (k *link) Read(ctx context.Context, q store.ReadQuery) (store.Records, error) {
	return call(ctx, k, "Read", func(ctx context.Context, s *recorder) (store.Records, error) { return s.Read(ctx, q) })
}

func (k *link) Figures(ctx context.Context, q store.FigureQuery) (store.Figures, error) {
	return call(ctx, k, "Figures", func(ctx context.Context, s *recorder) (store.Figures, error) { return s.Figures(ctx, q) })
}

// Publish and Listen lose messages while there are faults. Listen ends when the node is cut off.
func (k *link) Publish(ctx context.Context, channel string, message []byte) error {
	_, err := call(ctx, k, "Publish "+channel, func(ctx context.Context, s *recorder) (bool, error) {
		return true, s.Publish(ctx, channel, message)
	})
	return err
}

func (k *link) Listen(ctx context.Context, channel string, receive func([]byte)) error {
	return k.life().listen(ctx, "Listen "+channel, func(ctx context.Context, pass func() bool) error {
		return k.life().store.Listen(ctx, channel, func(message []byte) {
			if message == nil || pass() { // nil: some may be lost
				receive(message)
			}
		})
	})
}

func (k *link) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	return call(ctx, k, "ListDocuments "+q.Kind+" "+q.Name, func(ctx context.Context, s *recorder) ([]store.Document, error) {
		return s.ListDocuments(ctx, q)
	})
}

func (k *link) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	return call(ctx, k, "PutDocuments "+docs[0].Kind+" "+docs[0].Name, func(ctx context.Context, s *recorder) ([]uint64, error) {
		return s.PutDocuments(ctx, docs)
	})
}

func (k *link) Shards() int { return k.life().store.Shards() }

func (k *link) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	return call(ctx, k, "Carry "+strconv.Itoa(shard), func(ctx context.Context, s *recorder) (store.CarryResult, error) {
		return s.Carry(ctx, shard, o)
	})
}

// listen receives messages of the store, of which pass chooses those that arrive.
func (l *life) listen(ctx context.Context, purpose string, receive func(ctx context.Context, pass func() bool) error) error {
	w := l.n.w
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := l.travel(ctx, l.fate(purpose).there); err != nil {
		return err
	}
	return receive(ctx, func() bool {
		lossy := w.lost > 0 && !w.isCalm.Load()
		switch {
		case l.alive.Err() != nil:
			return false
		case l.n.inTrouble().kind != "":
			cancel()
			return false
		}
		return !lossy || l.draw("message "+purpose).IntN(2) == 0
	})
}

func (k *link) Locker(shard int) store.Locker {
	return &lockLink{k, k.life().store.(readyList).Locker(shard), "Lock " + strconv.Itoa(shard)}
}

// lockLink is a lock at the other end of a link.
type lockLink struct {
	*link
	lock    store.Locker
	purpose string
}

func (k *lockLink) TryLock(ctx context.Context, ttl time.Duration) (bool, error) {
	return call(ctx, k.link, k.purpose, func(ctx context.Context, _ *recorder) (bool, error) { return k.lock.TryLock(ctx, ttl) })
}

func (k *lockLink) Extend(ctx context.Context) (bool, error) {
	return call(ctx, k.link, k.purpose, func(ctx context.Context, _ *recorder) (bool, error) { return k.lock.Extend(ctx) })
}

func (k *lockLink) Unlock(ctx context.Context) error {
	_, err := call(ctx, k.link, k.purpose, func(ctx context.Context, _ *recorder) (bool, error) { return true, k.lock.Unlock(ctx) })
	return err
}

// Take waits in the store itself, so it ends there when the process does. With a ready list, each of
// the calls that it makes goes over the link.
func (k *link) Take(ctx context.Context, shard int, o store.TakeOptions) (store.Taken, error) {
	l := k.life()
	if l.takers != nil {
		return l.takers[shard].Take(ctx, o)
	}
	var at *recorder
	taken, err := call(ctx, k, "Take "+strconv.Itoa(shard), func(_ context.Context, s *recorder) (store.Taken, error) {
		at = s
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.alive, cancel)()
		return s.Take(ctx, shard, o)
	})
	if err != nil && at != nil {
		for _, c := range at.took {
			c.lost = true
		}
	}
	if err == nil && len(at.took) > 0 {
		taken.Age = l.n.w.now() - at.took[0].at // as a client of a server measures it
	}
	return taken, err
}

func (k *link) Return(ctx context.Context, shard int, hints []store.Hint) error {
	_, err := call(ctx, k, "Return "+strconv.Itoa(shard), func(ctx context.Context, s *recorder) (bool, error) {
		return true, s.list().Return(ctx, shard, hints)
	})
	return err
}

// Pop blocks in the store itself, so it ends there when the process does.
func (k *link) Pop(ctx context.Context, shard, limit int, wait time.Duration) ([]store.Hint, error) {
	l := k.life()
	return call(ctx, k, "Pop "+strconv.Itoa(shard), func(_ context.Context, s *recorder) ([]store.Hint, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.alive, cancel)()
		return s.list().Pop(ctx, shard, limit, wait)
	})
}

func (k *link) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	return call(ctx, k, "Claim "+strconv.Itoa(shard), func(ctx context.Context, s *recorder) ([]store.Claimed, error) {
		return s.Claim(ctx, shard, hints, o)
	})
}

func (k *link) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	first := settlements[0].Key.String() // in some order: those of one moment may stand in any
	for i := range settlements {
		first = min(first, settlements[i].Key.String())
	}
	return call(ctx, k, "Settle "+first, func(ctx context.Context, s *recorder) ([]store.Settled, error) {
		return s.Settle(ctx, settlements)
	})
}

func (k *link) SetCircuit(ctx context.Context, endpoint string, to store.CircuitState, d time.Duration) error {
	_, err := call(ctx, k, "SetCircuit "+to.String(), func(ctx context.Context, s *recorder) (bool, error) {
		return true, s.SetCircuit(ctx, endpoint, to, d)
	})
	return err
}

func (k *link) Purge(ctx context.Context, limit int) (int, error) {
	return call(ctx, k, "Purge", func(ctx context.Context, s *recorder) (int, error) { return s.Purge(ctx, limit) })
}

func (k *link) Ping(ctx context.Context) error {
	_, err := call(ctx, k, "Ping", func(ctx context.Context, s *recorder) (bool, error) { return true, s.Ping(ctx) })
	return err
}
