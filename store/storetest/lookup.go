package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// byUID is the job that a listing by uid finds.
func (f *fixture) byUID(uid string) (found []job.Job) {
	f.Helper()
	return f.list(store.Query{UID: uid, Limit: 10})
}

// finds expects a listing by uid to find the job as it stands.
func (f *fixture) finds(uid string, key job.Key) {
	f.Helper()
	equal(f, "by the uid of "+key.String(), f.byUID(uid), []job.Job{f.get(key)})
}

// findsNone expects it to find nothing.
func (f *fixture) findsNone(what, uid string) {
	f.Helper()
	equal(f, "by the uid of "+what, f.byUID(uid), nil)
}

var lookUpCases = []testCase{
	{name: "uid/finds each job, whatever its state", options: Options{Retention: long, Shards: 3}, run: func(f *fixture) {
		for _, j := range f.populate(210) {
			f.finds(j.UID, j.Key)
		}
		f.findsNone("nobody", uidFor("t1", "nobody"))
		for _, uid := range []string{"x", strings.Repeat("Z", 26), strings.Repeat("U", 26), strings.Repeat("0", 26)} {
			f.findsNone("no job", uid)
		}
	}},
	{name: "uid/the other filters count, too", options: Options{Shards: 2}, run: func(f *fixture) {
		j := f.add(reg("t", "a", biz("b"), delay(long)))
		for _, q := range []store.Query{{Topic: "t"}, {BizKey: "b"}, {States: stateOf(job.Waiting)}, {Endpoint: j.Lane().Endpoint}, {IDPrefix: "a"}} {
			q.UID, q.Limit = j.UID, 1
			equal(f, describe(q), f.list(q), []job.Job{j})
		}
		for _, q := range []store.Query{{Topic: "u"}, {BizKey: "c"}, {States: stateOf(job.Dead)}, {Reason: "x"}, {IDPrefix: "b"}} {
			q.UID, q.Limit = j.UID, 1
			equal(f, describe(q), f.list(q), nil)
		}
	}},
	{name: "uid/of a job whose id it is", options: Options{Shards: 3}, run: func(f *fixture) {
		for range 20 {
			r := reg("t", "")
			r.Key.ID = r.UID
			f.finds(f.add(r).UID, r.Key)
		}
	}},
	{name: "uid/of a job that was replaced finds nothing", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		old := f.add(reg("t", "a", delay(long)))
		anew := f.add(reg("t", "a", delay(2*long), onConflict(job.ConflictReplace)))
		f.findsNone("the old job", old.UID)
		f.finds(anew.UID, anew.Key)
		f.update(anew.Key, cancel)
		f.finds(anew.UID, anew.Key)
		third := f.add(reg("t", "a", delay(3*long)))
		f.findsNone("the second job", anew.UID)
		f.finds(third.UID, third.Key)
	}},
	{name: "uid/goes with a job that moves, is carried and sent, and replayed", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		j := f.end(reg("t", "a"), job.Dead)
		f.finds(j.UID, j.Key)
		f.update(j.Key, replay)
		f.finds(j.UID, j.Key)
		f.update(j.Key, func(j *job.Job, _ job.Instant) error { j.Spec.Destination = urlB; return nil })
		f.finds(j.UID, j.Key)
		c := f.takeOne()
		f.finds(j.UID, j.Key)
		f.settle(store.Applied, failed(c, after(long)))
		f.finds(j.UID, j.Key)
	}},
	{name: "uid/of a job that is forgotten finds nothing", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a"))
		f.settle(store.Applied, delivered(f.takeOne()))
		f.notFound(j.Key)
		f.findsNone("a forgotten job", j.UID)
	}},
	{name: "uid/a cursor is used with its own uid", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a", delay(long)))
		f.add(reg("t", "b", delay(long)))
		page, err := f.List(f.ctx, store.Query{Limit: 1})
		f.noError("List", err)
		for _, cursor := range []string{page.Next, "x", "e30"} {
			if _, err := f.List(f.ctx, store.Query{UID: j.UID, Cursor: cursor}); !errors.Is(err, store.ErrBadCursor) {
				f.Errorf("cursor %q: %v, want ErrBadCursor", cursor, err)
			}
		}
	}},
	{name: "id/finds the jobs of a topic whose ids begin with it", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		all := f.populate(210)
		for _, prefix := range []string{"waiting-1", "e", "ended-10", "ready-1", "none", "waiting-111111111111111111111"} {
			for _, q := range []store.Query{{Topic: "t1", Limit: 3}, {Topic: "t1", States: stateOf(job.Waiting, job.Dead), Limit: 50}, {Topic: "t1", BizKey: "b3", Limit: 2}} {
				q.IDPrefix = prefix
				equal(f, describe(q)+" id "+prefix, keys(f.list(q)), keys(matching(all, q)))
			}
		}
	}},
	{name: "created/jobs are found by when they were registered", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		early := f.add(reg("t", "early", delay(long)))
		f.waitPast(early.CreatedAt)
		late := f.add(reg("t", "late", delay(long)))
		for want, q := range map[string]store.Query{
			"t/early":        {CreatedTo: late.CreatedAt},
			"t/late":         {CreatedFrom: late.CreatedAt},
			"t/early t/late": {CreatedFrom: early.CreatedAt, CreatedTo: late.CreatedAt + 1},
			"":               {CreatedFrom: late.CreatedAt + 1},
		} {
			q.Limit = 1
			equal(f, fmt.Sprintf("created %d-%d", q.CreatedFrom, q.CreatedTo), keys(f.list(q)), strings.Fields(want))
		}
	}},
}
