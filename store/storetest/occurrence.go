package storetest

import (
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// occurrenceOf makes the job one of a schedule, due at an instant.
func occurrenceOf(at job.Instant) func(*store.Registration) {
	return func(r *store.Registration) {
		r.Spec.Occurrence = &job.Occurrence{Schedule: "nightly", Time: at, Kind: job.ByTimetable}
		r.Spec.When, r.OnConflict = job.When{At: at}, job.ConflictRenew
	}
}

var occurrenceCases = []testCase{
	{name: "occurrence/a late one keeps its due time and goes at once", options: Options{}, run: func(f *fixture) {
		late := f.now().Add(-time.Hour)
		r := reg("t", "a", occurrenceOf(late))
		f.add(r)
		before := f.now()
		for range 2 { // also when the record was written anew
			j := f.get(r.Key)
			equal(f, "due at", j.DueAt, late)
			equal(f, "occurrence", *j.Spec.Occurrence, *r.Spec.Occurrence)
			equal(f, "it waits", j.NextAt > before, false)
			f.update(r.Key, func(*job.Job, job.Instant) error { return nil })
		}
		equal(f, "due at of the claimed job", f.takeOne().Job.DueAt, late)
	}},
	{name: "occurrence/its TTL counts from when it is due", options: Options{}, run: func(f *fixture) {
		now := f.now()
		for id, due := range map[string]job.Instant{"ahead": now.Add(long), "late": now.Add(-time.Second), "over": now.Add(-time.Hour)} {
			r := reg("t", id, occurrenceOf(due), func(r *store.Registration) { r.Spec.TTL, r.Spec.Timeout = time.Minute, time.Second })
			before := f.now()
			f.add(r)
			for range 2 { // also when the record was written anew
				j := f.get(r.Key)
				equal(f, id+": TTL", j.Spec.TTL, time.Minute)
				equal(f, id+": timeout", j.Spec.Timeout, time.Second)
				if id == "over" {
					equal(f, id+": it is over at once", j.ExpiresAt >= before && j.ExpiresAt <= f.now(), true)
				} else {
					equal(f, id+": expires at", j.ExpiresAt, due.Add(time.Minute))
				}
				f.update(r.Key, func(*job.Job, job.Instant) error { return nil })
			}
		}
	}},
	{name: "occurrence/is kept for a while without a retention", options: Options{}, run: func(f *fixture) {
		for _, state := range finals {
			f.end(reg("t", "of-"+state.String(), occurrenceOf(f.now())), state)
		}
		f.waitPast(f.now().Add(short))
		for range 2 {
			_, err := f.Purge(f.ctx, 100) // what ended together with it
			f.noError("Purge", err)
		}
		equal(f, "jobs left", len(f.list(store.Query{Topic: "t", Limit: 10})), 4)
		equal(f, "of the schedule", len(f.list(store.Query{Schedule: "nightly", Limit: 10})), 4)
		equal(f, "of another one", len(f.list(store.Query{Schedule: "other", Limit: 10})), 0)
	}},
	{name: "occurrence/is registered once by its uid, whatever became of it", options: Options{Retention: long}, run: func(f *fixture) {
		waits := reg("t", "waits", occurrenceOf(f.now().Add(long)))
		f.add(waits)
		equal(f, "uid of the one that waits", f.register(store.Same, waits)[0].UID, waits.UID)
		for _, state := range finals {
			r := reg("t", state.String(), occurrenceOf(f.now()))
			f.end(r, state)
			equal(f, "uid", f.register(store.Same, r)[0].UID, r.UID)
			other := r
			other.UID = uidFor(r.Key.Topic, r.Key.ID)
			equal(f, "uid for another form of the schedule", f.register(store.Exists, other)[0].UID, r.UID)
			equal(f, "state", f.get(r.Key).State, state)
		}
	}},
	{name: "conflict/renew replaces any ended job and no other", options: Options{Retention: long}, run: func(f *fixture) {
		for _, state := range finals {
			r := reg("t", state.String())
			f.end(r, state)
			again := reg("t", state.String(), onConflict(job.ConflictRenew), delay(long))
			equal(f, "uid", f.register(store.Created, again)[0].UID, again.UID)
			other := reg("t", state.String(), onConflict(job.ConflictRenew), body("other"))
			equal(f, "the unfinished job", f.register(store.Exists, other)[0].UID, again.UID)
		}
	}},
	{name: "conflict/once keeps any job", options: Options{Retention: long}, run: func(f *fixture) {
		for _, state := range finals {
			old := f.end(reg("t", state.String()), state)
			for _, content := range []string{string(old.Spec.Body), "other"} {
				again := reg("t", state.String(), body(content), onConflict(job.ConflictOnce))
				equal(f, "the ended job", f.register(store.Kept, again)[0], old)
			}
			equal(f, "the stored job", f.get(old.Key), old)
		}
		f.add(reg("t", "a", delay(long)))
		waiting := f.get(job.Key{Topic: "t", ID: "a"})
		equal(f, "the unfinished job", f.register(store.Kept, reg("t", "a", body("other"), onConflict(job.ConflictOnce)))[0], waiting)
	}},
}
