package storetest

import (
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// member makes the registration one for a member of a group. Its id is that of a member.
func member(r *store.Registration) { r.Spec.Group = &job.Membership{Group: "g", Size: 2, Headers: 1} }

// onlyDialect makes the registration one of a dialect that does not look for ids.
func onlyDialect(r *store.Registration) { r.Spec.Dialect = &job.Dialect{Name: "d"} }

// memberReg is the registration for a member of a group.
func memberReg(topic, groupID, name string, with ...func(*store.Registration)) store.Registration {
	return reg(topic, job.MemberID(groupID, name), append(with, member)...)
}

// indexed expects the jobs that the group id and biz_key "b" find.
func (f *fixture) indexed(byGroup, byBizKey []string) {
	f.Helper()
	equal(f, "by group id", keys(f.list(store.Query{GroupID: "o"})), byGroup)
	equal(f, "by biz_key", keys(f.list(store.Query{BizKey: "b"})), byBizKey)
}

var groupCases = []testCase{
	{name: "group/jobs are found by group id and biz_key", options: Options{Shards: 3}, run: func(f *fixture) {
		first := f.add(memberReg("t", "o", "a", biz("b"), delay(long)))
		equal(f, "the stored membership", *f.get(first.Key).Spec.Group, job.Membership{Group: "g", Size: 2, Headers: 1})
		f.register(store.Created, memberReg("t", "o", "c", delay(long)), memberReg("u", "o", "a", delay(long)),
			memberReg("t", "o:p", "a", delay(long)), reg("t", "o:x", biz("b"), delay(long)), reg("t", "o", delay(long)))
		for q, want := range map[string][]job.Job{
			"o": {first, f.get(job.Key{Topic: "t", ID: "o:c"}), f.get(job.Key{Topic: "u", ID: "o:a"})}, "o:p": {f.get(job.Key{Topic: "t", ID: "o:p:a"})}, "p": nil,
		} {
			equal(f, "group id "+q, keys(f.list(store.Query{GroupID: q})), keys(want))
		}
		equal(f, "of a topic", keys(f.list(store.Query{GroupID: "o", Topic: "t"})), []string{"t/o:a", "t/o:c"})
		equal(f, "with a biz_key", keys(f.list(store.Query{GroupID: "o", BizKey: "b"})), []string{"t/o:a"})
		equal(f, "by biz_key", keys(f.list(store.Query{BizKey: "b"})), []string{"t/o:a", "t/o:x"})
	}},
	{name: "group/changes keep a job under its names", options: Options{Retention: long}, run: func(f *fixture) {
		key := f.add(memberReg("t", "o", "a", biz("b"))).Key
		f.update(key, respecify(func(s *job.Spec) { s.BizKey = "" }))
		f.indexed([]string{"t/o:a"}, nil)
		f.update(key, respecify(func(s *job.Spec) { s.BizKey = "b" }))
		f.settle(store.Applied, delivered(f.takeOne()))
		f.indexed([]string{"t/o:a"}, []string{"t/o:a"})
		f.register(store.Created, reg("t", "o:a", biz("b"), onConflict(job.ConflictReplace)))
		f.indexed(nil, []string{"t/o:a"})
		f.register(store.Created, memberReg("t", "o", "a", onConflict(job.ConflictReplace)))
		f.indexed([]string{"t/o:a"}, nil)
	}},
	{name: "group/ended jobs that are not kept are not found", options: Options{}, run: func(f *fixture) {
		f.add(memberReg("t", "o", "a", biz("b")))
		f.settle(store.Applied, delivered(f.takeOne()))
		f.indexed(nil, nil)
	}},
	{name: "group/purged jobs are not found", options: Options{Retention: short}, run: func(f *fixture) {
		j := f.end(memberReg("t", "o", "a", biz("b")), job.Delivered)
		f.indexed([]string{"t/o:a"}, []string{"t/o:a"})
		f.waitPast(j.EndedAt.Add(short))
		f.purge(1, 10)
		f.indexed(nil, nil)
	}},
	{name: "group/jobs of dialects are found by id in any topic", options: Options{Retention: short, Shards: 3}, run: func(f *fixture) {
		indexed := func(r *store.Registration) { r.Spec.Dialect = &job.Dialect{Name: "d", Indexed: true} }
		found := func(id string) []string { return keys(f.list(store.Query{IndexedID: id})) }
		f.register(store.Created, reg("t", "o", indexed, biz("o"), delay(long)), reg("u", "o", indexed, delay(long)), reg("v", "o", delay(long)),
			reg("w", "o", onlyDialect, delay(long)), memberReg("t", "o", "a", delay(long)), memberReg("t", "p", "a", indexed, delay(long)))
		equal(f, "their id", found("o"), []string{"t/o", "u/o"})
		equal(f, "in a topic", keys(f.list(store.Query{IndexedID: "o", Topic: "u"})), []string{"u/o"})
		equal(f, "in some topics", keys(f.list(store.Query{IndexedID: "o", Only: job.TopicSet{"t*"}})), []string{"t/o"})
		equal(f, "another dialect", len(f.list(store.Query{IndexedID: "o", Dialect: "e"})), 0)
		equal(f, "the id of a member", len(found("p:a")), 0)
		equal(f, "the group id", keys(f.list(store.Query{GroupID: "o"})), []string{"t/o:a"})
		equal(f, "the biz_key", keys(f.list(store.Query{BizKey: "o"})), []string{"t/o"})
		f.register(store.Created, reg("u", "o", delay(long), onConflict(job.ConflictReplace)))
		equal(f, "after another registration", found("o"), []string{"t/o"})
		f.end(reg("x", "e", indexed), job.Delivered)
		equal(f, "the id of one that has ended", found("e"), []string{"x/e"})
	}},
	{name: "group/a thousand members are registered at once", options: Options{Shards: 3}, run: func(f *fixture) {
		for _, want := range []store.RegisterOutcome{store.Created, store.Same} {
			regs := make([]store.Registration, 1000)
			for i := range regs {
				regs[i] = memberReg("t", "o", fmt.Sprintf("m%03d", i), delay(time.Hour))
			}
			f.register(want, regs...)
		}
		equal(f, "jobs of the group id", len(f.list(store.Query{GroupID: "o", Limit: 100})), 1000)
	}},
}
