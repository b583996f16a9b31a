package storetest

import (
	"errors"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// observed is everything that can be seen of a store.
type observed struct {
	Jobs         []job.Job
	Logs         map[job.Key][]job.Attempt
	Topics       map[string]map[job.State]int64
	ReadyList    int64
	OpenCircuits int64
}

func (f *fixture) observe() observed {
	f.Helper()
	d := f.depth()
	o := observed{
		Jobs: f.list(store.Query{Limit: 1_000}), Logs: map[job.Key][]job.Attempt{},
		Topics: map[string]map[job.State]int64{}, ReadyList: d.ReadyList, OpenCircuits: d.OpenCircuits,
	}
	for _, j := range o.Jobs {
		o.Logs[j.Key] = f.attempts(j.Key)
	}
	for _, t := range f.topics() {
		o.Topics[t.Topic] = nonZero(t.States)
	}
	return o
}

// twiceRow is a call that is made twice in a situation. What it returns must
// be the same both times.
type twiceRow struct {
	name    string
	prepare func(f *fixture) (call func() any)
}

// twiceRows: after the second run of a call the store is as after the first.
// The times in it are far from now, so a second run cannot hide behind them.
var twiceRows = []twiceRow{
	{"register a new job", func(f *fixture) func() any { return f.registering(reg("t", "a", delay(long))) }},
	{"register over another job", func(f *fixture) func() any {
		f.add(reg("t", "a", biz("b")))
		f.ready(job.Waiting)
		return f.registering(reg("t", "a", delay(long), onConflict(job.ConflictReplace)))
	}},
	{"register what is refused", func(f *fixture) func() any {
		f.add(reg("t", "a", biz("b")))
		return f.registering(reg("t", "a", delay(long)))
	}},
	{"register over a dead letter", func(f *fixture) func() any {
		f.end(reg("t", "a", biz("b")), job.Dead)
		return f.registering(reg("t", "a", delay(long)))
	}},
	{"settle to delivered", func(f *fixture) func() any { return f.settling(delivered) }},
	{"settle to dead", func(f *fixture) func() any {
		return f.settling(func(c store.Claimed) job.Settlement { return failed(c, never) })
	}},
	{"settle to retrying", func(f *fixture) func() any {
		return f.settling(func(c store.Claimed) job.Settlement { return failed(c, after(long)) })
	}},
	{"settle by release", func(f *fixture) func() any {
		return f.settling(func(c store.Claimed) job.Settlement { return released(c, long) })
	}},
	{"settle a job whose cancel was noted", func(f *fixture) func() any {
		return f.settling(func(c store.Claimed) job.Settlement {
			f.update(c.Job.Key, cancel)
			return failed(c, always)
		})
	}},
	{"cancel", func(f *fixture) func() any {
		return f.updating(f.add(reg("t", "a", delay(long))).Key, cancel, job.ErrFinished)
	}},
	{"cancel a job in flight", func(f *fixture) func() any {
		f.add(reg("t", "a"))
		return f.updating(f.takeOne().Job.Key, cancel, nil)
	}},
	{"reschedule", func(f *fixture) func() any {
		at := f.now().Add(long)
		return f.updating(f.add(reg("t", "a")).Key, func(j *job.Job, now job.Instant) error {
			return j.Reschedule(job.When{At: at}, now)
		}, nil)
	}},
	{"move to another lane", func(f *fixture) func() any {
		change := respecify(func(s *job.Spec) { s.Destination, s.BizKey = urlB, "b" })
		return f.updating(f.add(reg("t", "a")).Key, change, nil)
	}},
	{"replay", func(f *fixture) func() any {
		return f.updating(f.end(reg("t", "a"), job.Dead).Key, replay, job.ErrNotEnded)
	}},
	{"discard", func(f *fixture) func() any {
		return f.updating(f.end(reg("t", "a"), job.Dead).Key, discard, job.ErrNotDead)
	}},
	{"count with a key", func(f *fixture) func() any {
		r := reg("t", "a", delay(long), counting(2, job.DeadlineFires))
		f.add(r)
		return func() any {
			c := f.count(r.Key, 2, "k")
			return []any{c.Tally.Count, c.Tally.Fired, c.Job.UID}
		}
	}},
	{"hold", func(f *fixture) func() any {
		f.add(reg("t", "a"))
		return func() any { return f.SetCircuit(f.ctx, laneOf("t", urlA).Endpoint, store.CircuitOpen, long) }
	}},
	{"unhold", func(f *fixture) func() any {
		f.add(reg("t", "a"))
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("t", urlA).Endpoint, store.CircuitOpen, long))
		return func() any { return f.SetCircuit(f.ctx, laneOf("t", urlA).Endpoint, store.CircuitClosed, 0) }
	}},
}

// twiceListRows are those of stores with a ready list.
var twiceListRows = []twiceRow{
	{"carry", func(f *fixture) func() any {
		f.register(store.Created, many("t", 3)...)
		return func() any {
			f.carryOnce(carryOptions)
			return nil
		}
	}},
	{"claim", func(f *fixture) func() any {
		f.register(store.Created, many("t", 3)...)
		f.carry(carryOptions)
		hints, o := f.pop(), terms()
		return func() any { return jobsOf(f.claim(hints, o)) }
	}},
	{"claim after a lease expired", func(f *fixture) func() any {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		hints, o := f.pop(), terms()
		f.expireLeases(hints)
		return func() any { return jobsOf(f.claim(hints, o)) }
	}},
}

// registering registers r; the jobs that it returns must be the same.
func (f *fixture) registering(r store.Registration) func() any {
	return func() any {
		results, err := f.Register(f.ctx, []store.Registration{r})
		f.noError("Register", err)
		return f.whole(results[0])
	}
}

// settling settles a claimed job; but for Repeated and Now, the answers must
// be the same.
func (f *fixture) settling(settlement func(store.Claimed) job.Settlement) func() any {
	f.add(reg("t", "a", biz("b")))
	s := settlement(f.takeOne())
	return func() any {
		done := f.settle(store.Applied, s)
		done.Repeated, done.Now = false, 0
		return done
	}
}

// updating changes a job. The second change may be refused with again: then
// the first was made.
func (f *fixture) updating(key job.Key, change func(*job.Job, job.Instant) error, again error) func() any {
	return func() any {
		j, err := f.Update(f.ctx, key, change)
		if err != nil && (again == nil || !errors.Is(err, again)) {
			f.Fatalf("Update: %v", err)
		}
		j.Version, j.UpdatedAt = 0, 0
		return j
	}
}

// withoutVersions: a second update that changes nothing may count as one.
func (o observed) withoutVersions() observed {
	for i := range o.Jobs {
		o.Jobs[i].Version, o.Jobs[i].UpdatedAt = 0, 0
	}
	return o
}

func twiceEach(rows []twiceRow) []testCase {
	cases := make([]testCase, len(rows))
	for i, row := range rows {
		cases[i] = row.testCase()
	}
	return cases
}

var twiceCases, twiceListCases = twiceEach(twiceRows), twiceEach(twiceListRows)

func (row twiceRow) testCase() testCase {
	return testCase{name: "twice/" + row.name, options: Options{Retention: long}, run: func(f *fixture) {
		call := row.prepare(f)
		first := call()
		before := f.observe()
		f.waitPast(f.now()) // a second run that stores its time would be seen
		second := call()
		equal(f, "answer", second, first)
		equal(f, "store", f.observe().withoutVersions(), before.withoutVersions())
	}}
}
