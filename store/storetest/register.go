package storetest

import (
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

var registerCases = []testCase{
	{"register/a new job is waiting, due after its delay", Options{Retention: long}, func(f *fixture) {
		before := f.now()
		r := reg("t", "a", delay(long), ttl(2*long))
		j := f.add(r)
		after := f.now()

		f.equal("state", j.State, job.Waiting)
		f.equal("uid", j.UID, r.UID)
		f.equal("spec", j.Spec, r.Spec)
		if j.CreatedAt < before || j.CreatedAt > after {
			f.Errorf("created at %d, the store's now was %d to %d", j.CreatedAt, before, after)
		}
		f.equal("due at", j.DueAt, j.CreatedAt.Add(long))
		f.equal("next at", j.NextAt, j.DueAt)
		f.equal("expires at", j.ExpiresAt, j.CreatedAt.Add(2*long))
		f.equal("the stored job", f.get(r.Key), j)
		f.equal("counts", f.states("t"), map[job.State]int64{job.Waiting: 1})
	}},
	{"register/equal content is the same job", Options{Retention: long}, func(f *fixture) {
		r := reg("t", "a", delay(long))
		first := f.add(r)
		again := r
		again.UID = newUID()
		f.equal("the job", f.register(store.Same, again)[0], first)
	}},
}
