package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/internal/services/access"
)

const (
	shortPause = 200 * time.Millisecond // after the last row; it doubles up to Options.Poll
	countEvery = 15 * time.Second       // how often failed rows are counted
	// registerWait bounds a call of the store.
	registerWait = 10 * time.Second
)

// unknown is a count that no node has made.
const unknown = -1

// Why a node that works does not read an inbox.
var (
	errLost = errors.New("another node reads the inbox")
	// A row that is read is gone from its database, but the store may be given up for another copy.
	errHeld = errors.New("rows stay while deliveries are held, until duehook resume")
)

// reader reads one inbox while its node leads. Only run changes what has no lock.
type reader struct {
	m      *Manager
	in     Inbox
	t      *table
	task   string
	log    *slog.Logger
	outage *loops.Outage
	wake   loops.Signal // there may be rows

	leading atomic.Bool
	holds   holds
	counted time.Time // when failed rows were counted; zero: not yet

	failed atomic.Int64 // rows, as counted last; unknown: this node has not led long enough

	mu   sync.Mutex
	away error // why this node does not read the inbox; nil: it does, or has not tried
}

func newReader(m *Manager, in Inbox, t *table) *reader {
	r := &reader{m: m, in: in, t: t, task: "inbox:" + in.Name, wake: loops.NewSignal(), log: m.o.Logger.With("inbox", in.Name)}
	r.failed.Store(unknown)
	r.outage = loops.NewOutage("the inbox "+in.Name, job.SystemClock(), r.log, rand.Float64)
	for _, outcome := range []string{outcomeRegistered, outcomeRepeated, outcomeFailed, outcomeWaits} {
		m.metrics.rows.WithLabelValues(in.Name, outcome)
	}
	m.metrics.reading.WithLabelValues(in.Name)
	return r
}

// run reads until ctx ends. Pauses are by the machine's clock: the database has no other one.
func (r *reader) run(ctx context.Context) error {
	var listener sync.WaitGroup
	listener.Go(func() { r.listen(ctx) })
	for pause := r.m.o.pause; ctx.Err() == nil; {
		busy, err := r.round(ctx)
		r.note(ctx, err)
		switch {
		case err != nil && !errors.Is(err, errLost) && !errors.Is(err, errHeld):
			r.outage.Rest(ctx, err)
		case busy:
			pause = r.m.o.pause
		default:
			r.wake.Wait(ctx, job.SystemClock(), min(pause, r.m.o.Poll))
			pause = min(2*pause, r.m.o.Poll)
		}
	}
	listener.Wait()
	r.m.o.Leader.Resign(ctx, r.task)
	return r.t.db.Close()
}

// note keeps whether this node reads the inbox, and for operators why it cannot.
func (r *reader) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	gauge := r.m.metrics.reading.WithLabelValues(r.in.Name)
	gauge.Set(0)
	if err == nil {
		gauge.Set(1)
		r.outage.Worked()
	}
	r.mu.Lock()
	r.away = err
	r.mu.Unlock()
}

// step is where tests stop the reader.
func (r *reader) step(name string) error {
	if r.m.o.step == nil {
		return nil
	}
	return r.m.o.step(r.in.Name, name)
}

// round handles the first rows, and those of one name whose wait is over. It reports whether there were any.
func (r *reader) round(ctx context.Context) (busy bool, err error) {
	if err := r.lead(ctx); err != nil {
		return false, err
	}
	name := r.holds.over(job.SystemClock().Now())
	if name != "" {
		n, err := r.pass(ctx, name)
		if err != nil {
			return false, err
		}
		if n == 0 {
			delete(r.holds, name)
		}
	}
	n, err := r.pass(ctx, "")
	if err != nil {
		return false, err
	}
	return name != "" || n > 0, r.count(ctx)
}

// pass handles the first rows that wait for a name, or are fresh if it is empty, and returns how many there were.
func (r *reader) pass(ctx context.Context, waitsFor string) (int, error) {
	rows, err := r.t.read(ctx, waitsFor)
	if err != nil {
		return 0, fmt.Errorf("read duehook_inbox: %w", err)
	}
	todo := make([]work, len(rows))
	for i := range rows {
		todo[i].row = rows[i]
	}
	for len(todo) > 0 {
		n, err := r.prepareNext(ctx, todo)
		if err == nil {
			err = r.handle(ctx, todo[:n])
		}
		if err != nil {
			return 0, err
		}
		todo = todo[n:]
	}
	return len(rows), nil
}

// lead returns nil if this node leads and rows may be read; otherwise errLost, errHeld, or the error of an outage. A new leader
// asks the table what rows wait for.
func (r *reader) lead(ctx context.Context) error {
	leads, err := false, errHeld
	if !r.held() {
		if leads, err = r.m.o.Leader.Lead(ctx, r.task); !leads {
			err = cmp.Or(err, errLost)
		}
	}
	if !leads {
		if r.leading.Swap(false) {
			r.m.metrics.failed.DeleteLabelValues(r.in.Name)
			r.failed.Store(unknown)
		}
		return err
	}
	if !r.leading.Load() {
		names, err := r.t.held(ctx)
		if err != nil {
			return fmt.Errorf("read duehook_inbox: %w", err)
		}
		r.holds = newHolds(names, job.SystemClock().Now())
		r.counted = time.Time{}
		r.leading.Store(true)
	}
	return nil
}

// held reports whether rows must stay.
func (r *reader) held() bool {
	if r.m.o.Free == nil {
		return false
	}
	select {
	case <-r.m.o.Free():
		return false
	default:
		return true
	}
}

// handle registers the jobs of rows, deletes the rows, and sets the others aside.
func (r *reader) handle(ctx context.Context, batch []work) error {
	pending := make([]*work, 0, len(batch))
	now := job.SystemClock().Now()
	for i := range batch {
		w := &batch[i]
		if w.failure == "" {
			w.waitsFor = r.holds.of(w, now)
		}
		if w.failure == "" && w.waitsFor == "" {
			pending = append(pending, w)
		}
	}
	if err := r.step("register"); err != nil {
		return err
	}
	// A node that stood still since it read the rows has lost the lead: what they ask for may have happened, and ended.
	if err := r.lead(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, registerWait)
	defer cancel()
	if err := r.register(limited, pending); err != nil {
		return fmt.Errorf("register jobs: %w", err)
	}
	if err := r.step("delete"); err != nil {
		return err
	}
	return r.settle(ctx, batch)
}

// settle writes down what became of rows.
func (r *reader) settle(ctx context.Context, batch []work) error {
	var done []int64
	waiting, refused, failed, repeated := map[string][]int64{}, map[string]bool{}, 0, 0
	for i := range batch {
		switch w := &batch[i]; {
		case w.failure != "":
			failed++
		case w.waitsFor != "":
			ids := waiting[w.waitsFor]
			if w.waitsFor != w.waited {
				ids = append(ids, w.id)
			}
			waiting[w.waitsFor] = ids
			refused[w.waitsFor] = refused[w.waitsFor] || w.refused
		default:
			done = append(done, w.id)
			r.holds.took(w.waited)
			if w.repeated {
				repeated++
			}
		}
	}
	if len(done) > 0 {
		if err := r.t.delete(ctx, done); err != nil {
			return fmt.Errorf("delete rows of duehook_inbox: %w", err)
		}
		r.outcome(outcomeRegistered, len(done)-repeated)
		r.outcome(outcomeRepeated, repeated)
		r.audit(ctx, len(done), "ok")
	}
	if err := r.step("set aside"); err != nil {
		return err
	}
	if err := r.setAside(ctx, waiting, refused); err != nil || failed == 0 {
		return err
	}
	return r.fail(ctx, batch, failed)
}

// setAside has rows wait, by the names for which they did not wait yet. refused are those for which the store refused a row just now.
func (r *reader) setAside(ctx context.Context, waiting map[string][]int64, refused map[string]bool) error {
	for name, ids := range waiting {
		if refused[name] {
			if err := r.holds.refuse(name, job.SystemClock().Now()); err != nil {
				return err
			}
		}
		if len(ids) == 0 {
			continue
		}
		if err := r.t.hold(ctx, ids, name); err != nil {
			return fmt.Errorf("set rows of duehook_inbox aside: %w", err)
		}
		r.outcome(outcomeWaits, len(ids))
	}
	return nil
}

// fail writes the errors of rows into them.
func (r *reader) fail(ctx context.Context, batch []work, failed int) error {
	for i := range batch {
		if w := &batch[i]; w.failure != "" {
			if err := r.t.fail(ctx, w.id, w.failure); err != nil {
				return fmt.Errorf("write the error of a row into duehook_inbox: %w", err)
			}
		}
	}
	r.outcome(outcomeFailed, failed)
	r.audit(ctx, failed, "refused")
	r.counted = time.Time{}
	return nil
}

func (r *reader) outcome(outcome string, n int) {
	r.m.metrics.rows.WithLabelValues(r.in.Name, outcome).Add(float64(n))
}

func (r *reader) audit(ctx context.Context, rows int, result string) {
	(&access.Change{
		Who:  access.Principal{KeyID: r.task, KeyName: r.task},
		What: "inbox", Target: strconv.Itoa(rows) + " rows", Result: result,
	}).Log(ctx, r.m.o.Logger)
}

// count counts failed rows now and then.
func (r *reader) count(ctx context.Context) error {
	now := job.SystemClock().Now()
	if !r.counted.IsZero() && now.Sub(r.counted) < countEvery {
		return nil
	}
	n, err := r.t.count(ctx, isFailed)
	if err != nil {
		return fmt.Errorf("count failed rows of duehook_inbox: %w", err)
	}
	r.counted = now
	r.m.metrics.failed.WithLabelValues(r.in.Name).Set(float64(n))
	r.failed.Store(n)
	return nil
}
