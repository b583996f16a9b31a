package storetest

import (
	"bytes"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/walk"
)

// End is a kind of store where a walk begins or ends.
type End struct {
	Name string
	Harness
	Shards int
}

// RunWalk has a world with one of everything walk from each kind of store to each, also to another one of its kind. It runs in
// real time.
func RunWalk(t *testing.T, ends ...End) {
	for _, from := range ends {
		for _, to := range ends {
			t.Run(from.Name+" to "+to.Name, func(t *testing.T) {
				t.Parallel()
				a := from.open(t, Options{Retention: long, Shards: from.Shards}, false)
				b := to.open(t, Options{Retention: long, Shards: to.Shards}, false)
				a.furnish()
				b.walkFrom(a)
				b.sameAs(a)
				b.goesOn()
			})
		}
	}
}

// furnish makes a world with one of everything.
func (f *fixture) furnish() {
	f.Helper()
	f.add(reg("t", "older", ordered("stopped")))
	f.settle(store.Applied, failed(f.takeOne(), never))
	f.limit("t", store.Limits{StopOnDead: true})
	f.add(reg("t", "stops", ordered("stopped")))
	f.settle(store.Applied, failed(f.takeOne(), never))
	f.add(reg("t", "behind", ordered("stopped")))
	f.limit("t", store.Limits{}) // what stops stays so

	for _, s := range finals {
		f.end(reg("ended", s.String(), biz("b")), s)
	}
	f.end(reg("ended", "occurrence", func(r *store.Registration) {
		r.Spec.Occurrence = &job.Occurrence{Schedule: "s", Time: f.now(), Kind: job.ByTimetable}
	}), job.Delivered)

	f.add(reg("t", "started", ordered("k")))
	f.settle(store.Applied, failed(f.takeOne(), after(long)))
	for _, id := range []string{"second", "third"} {
		f.waitPast(f.now())
		f.add(reg("t", id, ordered("k")))
	}
	f.add(reg("t", "retrying"))
	f.settle(store.Applied, failed(f.takeOne(), always))
	f.settle(store.Applied, failed(f.takeOne(), after(long)))

	f.add(reg("t", "counting", delay(long), counting(3, job.DeadlineFires)))
	f.count(job.Key{Topic: "t", ID: "counting"}, 1, "a", "b")
	f.add(reg("t", "rich", delay(long), ttl(2*long), timeout(time.Second), biz("b"), labelled("k", "v"), to(urlB), func(r *store.Registration) {
		r.Spec.Headers = []job.Header{{Name: "X", Value: "\x00é"}}
		r.Spec.Callbacks = &job.Callbacks{By: map[job.CallbackEvent]*job.Callback{job.CallbackDead: {Destination: urlB}}}
		r.Spec.Retry = &job.Retry{Steps: []time.Duration{time.Second}}
		r.Spec.Priority = 2
	}))
	f.add(reg("pull", "a", pulled))
	f.add(reg("t", "running"))
	equal(f, "the job of a worker that is gone", f.takeOne().Job.ID, "running")
	for _, d := range []store.Document{
		{Kind: "a", Name: "1", Data: []byte("\x00\xff\n")},
		{Kind: "a", Name: "2"},
		{Kind: "b", Name: "1", Data: []byte("{}")},
		{Kind: "node", Name: "1"},
		{Kind: store.HoldKind, Name: store.HoldStart},
	} {
		f.putDocument(d)
	}
}

// walkable is the store, opened for a walk.
func (f *fixture) walkable() walk.Target {
	f.Helper()
	s, ok := f.Store.(walk.Target)
	if !ok {
		f.Fatal("the store is no store.Restoring")
	}
	return s
}

// walkFrom fills the store by two runs, the first of which breaks off.
func (f *fixture) walkFrom(from *fixture) {
	f.Helper()
	var text bytes.Buffer
	passing := func(kind string) bool { return kind == "node" }
	exported, err := walk.Export(f.ctx, from.walkable(), &text, walk.ExportOptions{
		Head: walk.Head{ID: "w"}, Document: func(d *store.Document) bool { return !passing(d.Kind) },
	})
	f.noError("Export", err)
	equal(f, "jobs that were exported", exported.Jobs, map[string]int64{
		walk.Unfinished: 9, "dead": 3, "delivered": 2, "cancelled": 1, "expired": 1,
	})
	equal(f, "documents", exported.Documents, map[string]int64{"a": 2, "b": 1, store.HoldKind: 1})
	equal(f, "left", exported.Left, map[string]int64{"documents node": 1})

	o := walk.ImportOptions{Passing: passing}
	lines := bytes.SplitAfter(text.Bytes(), []byte("\n"))
	_, err = walk.Import(f.ctx, f.walkable(), bytes.NewReader(bytes.Join(lines[:len(lines)-6], nil)), o)
	f.isError("a part of the walk", err, walk.ErrCut)
	_, err = store.ReadDocument(f.ctx, f, store.HoldKind, store.HoldImport)
	f.noError("the store is held", err)
	_, err = walk.Import(f.ctx, f.walkable(), bytes.NewReader(bytes.Replace(text.Bytes(), []byte(`"id":"w"`), []byte(`"id":"other"`), 1)), o)
	f.isError("another walk", err, walk.ErrOtherWalk)
	_, err = walk.Export(f.ctx, f.walkable(), &bytes.Buffer{}, walk.ExportOptions{})
	f.isError("exporting a part", err, walk.ErrUnfinished)
	imported, err := walk.Import(f.ctx, f.walkable(), &text, o)
	f.noError("Import", err)
	equal(f, "imported", imported, exported)
	_, err = store.ReadDocument(f.ctx, f, store.HoldKind, store.HoldImport)
	f.isError("the store is released", err, store.ErrNotFound)
}

// sameAs compares what the stores have.
func (f *fixture) sameAs(from *fixture) {
	f.Helper()
	jobs := from.list(store.Query{Limit: 100})
	equal(f, "keys", keys(f.list(store.Query{Limit: 100})), keys(jobs))
	for _, want := range jobs {
		if !want.State.Final() {
			want.State = want.Pending()
		}
		equal(f, want.Key.String(), f.get(want.Key), want)
		equal(f, "log of "+want.Key.String(), f.attempts(want.Key), from.attempts(want.Key))
		is, err := f.walkable().Aside(f.ctx, &want)
		f.noError("Aside", err)
		was, err := from.walkable().Aside(f.ctx, &want)
		f.noError("Aside", err)
		equal(f, "aside of "+want.Key.String(), is, was)
		equal(f, "by uid", keys(f.list(store.Query{UID: want.UID})), []string{want.Key.String()})
	}
	equal(f, "jobs of a biz_key", keys(f.list(store.Query{BizKey: "b"})), keys(from.list(store.Query{BizKey: "b"})))
	d, err := store.ReadDocument(f.ctx, f, "a", "1")
	f.noError("ReadDocument", err)
	equal(f, "document", string(d.Data), "\x00\xff\n")
	is, was := f.depth(), from.depth()
	equal(f, "order keys, and jobs behind others", [2]int64{is.OrderKeys, is.Behind}, [2]int64{was.OrderKeys, was.Behind})
}

// goesOn takes the jobs as if they had been registered here.
func (f *fixture) goesOn() {
	f.Helper()
	at := func(id string) job.Key { return job.Key{Topic: "t", ID: id} }
	claims := f.takeUntil(1, generous)
	equal(f, "due", claimedKeys(claims), []string{"t/running"})
	f.settle(store.Applied, delivered(claims[0]))
	equal(f, "pulled", claimedKeys(f.pull(10, "pull")), []string{"pull/a"})

	equal(f, "behind waits for", f.head("behind"), "stops")
	equal(f, "third waits for", f.head("third"), "started")
	f.update(at("started"), runNow)
	equal(f, "in turn", f.inOrder(), []string{"started", "second", "third"})
	equal(f, "attempts", f.get(at("started")).Attempts, 2)
	f.update(at("stops"), replay)
	equal(f, "then", f.inOrder(), []string{"stops", "behind"})

	equal(f, "counted again, and anew", f.count(at("counting"), 1, "a", "c").Tally.Added, []job.Added{
		{Count: 2, Repeated: true}, {Count: 3, Fired: true},
	})
	f.settle(store.Applied, delivered(f.takeUntil(1, generous)[0]))

	equal(f, "unfinished", keys(f.list(store.Query{States: []job.State{job.Waiting, job.Retrying}})), []string{"t/retrying", "t/rich"})
	equal(f, "outcome of the same id", f.outcomes(reg("t", "rich", delay(long))), []store.RegisterOutcome{store.Exists})
}
