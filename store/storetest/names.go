package storetest

import (
	"slices"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// names are such as a topic and an id may have: of several scripts, in two forms of
// one letter, that begin alike, and as long as they may be. They sort by bytes.
var names = []string{
	"A", "a", "caf\u00e9", "cafe\u0301", "zebra", "заказ-1", "ऑर्डर", "طلب", "٣", "订单", "订单-2", "订", "𠀀",
	strings.Repeat("订", job.MaxName/3),
}

// What letters a name is made of makes no difference to any call.
var nameCases = []testCase{
	{name: "names/of any script are names", options: Options{Retention: long, Shards: 3}, run: func(f *fixture) {
		sorted := slices.Sorted(slices.Values(names))
		for _, name := range names {
			if err := job.CheckName(name); err != nil {
				f.Fatalf("%q: %v", name, err)
			}
			f.add(reg(name, name, biz(name)))
			f.add(reg(name, "waits", delay(long), biz(name)))
			f.limit(name, store.Limits{Capacity: 100})
		}
		var topics []string
		for _, t := range f.topics() {
			topics = append(topics, t.Topic)
		}
		equal(f, "topics", topics, sorted)
		for _, c := range f.take() {
			equal(f, "name", c.Job.ID, c.Job.Topic)
			f.settle(store.Applied, failed(c, never))
		}
		for _, name := range names {
			key := job.Key{Topic: name, ID: name}
			j := f.get(key)
			equal(f, "key", j.Key, key)
			equal(f, "state", j.State, job.Dead)
			equal(f, "log", len(f.attempts(key)), 1)
			equal(f, "states of "+name, f.states(name), map[job.State]int64{job.Dead: 1, job.Waiting: 1})
			both := keys([]job.Job{j, f.get(job.Key{Topic: name, ID: "waits"})})
			equal(f, "jobs of "+name, keys(f.list(store.Query{Topic: name, Limit: 1})), both)
			equal(f, "by biz_key", keys(f.list(store.Query{BizKey: name, Limit: 1})), both)
			equal(f, "dead groups", f.deadGroups(name, 1), f.grouped(name))
			again := reg(name, name, biz(name))
			equal(f, "uid", f.register(store.Same, again)[0].UID, j.UID)
			f.update(key, replay)
			equal(f, "uid", f.update(key, cancel).UID, j.UID)
			equal(f, "a job of its", f.list(store.Query{UID: j.UID, Limit: 1})[0].Key, key)
		}
		limits, err := f.Limits(f.ctx)
		f.noError("Limits", err)
		equal(f, "topics with limits", len(limits), len(names))
	}},
	{name: "names/are looked up by how they begin", options: Options{Shards: 2}, run: func(f *fixture) {
		for _, name := range names {
			f.add(reg("t", name, delay(long)))
		}
		for _, prefix := range []string{"订", "订单", "cafe", "caf\u00e9", "a", "ऑ"} {
			var want []string
			for _, name := range names {
				if strings.HasPrefix(name, prefix) {
					want = append(want, "t/"+name)
				}
			}
			slices.Sort(want)
			equal(f, "begin with "+prefix, keys(f.list(store.Query{Topic: "t", IDPrefix: prefix, Limit: 2})), want)
		}
	}},
}
