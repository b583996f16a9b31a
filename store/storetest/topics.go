package storetest

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

func topicNames(topics []store.TopicStats) []string {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Topic
	}
	return names
}

// busyTopic is a topic with its unfinished jobs.
type busyTopic struct {
	Topic string
	Jobs  int64
}

func (f *fixture) busiest(n int) []busyTopic {
	f.Helper()
	return f.busiestOf(store.TopicQuery{Limit: n})
}

func (f *fixture) busiestOf(q store.TopicQuery) []busyTopic {
	f.Helper()
	q.Busiest = true
	page, err := f.Topics(f.ctx, q)
	f.noError("Topics", err)
	equal(f, "the page after the busiest", page.Next, "")
	var busy []busyTopic
	for i := range page.Topics {
		busy = append(busy, busyTopic{page.Topics[i].Topic, page.Topics[i].Unfinished()})
	}
	return busy
}

var topicCases = []testCase{
	{name: "topics/pages are by name and miss nothing", options: Options{Shards: 3}, run: func(f *fixture) {
		var want []string
		for n := range 25 {
			name := fmt.Sprintf("t%02d", n)
			want = append(want, name)
			f.register(store.Created, many(name, 3, delay(long))...)
		}
		for _, limit := range []int{1, 2, 5, 24, 25, 26, 1_000} {
			equal(f, fmt.Sprintf("pages of %d", limit), topicNames(f.topicsOf(store.TopicQuery{Limit: limit})), want)
		}
		page, err := f.Topics(f.ctx, store.TopicQuery{Limit: 10})
		f.noError("Topics", err)
		equal(f, "topics of a page", topicNames(page.Topics), want[:10])
		equal(f, "counts on a page", nonZero(page.Topics[9].States), map[job.State]int64{job.Waiting: 3})
		f.register(store.Created, many("t09-new", 1)...)
		f.register(store.Created, many("a-new", 1)...)
		next, err := f.Topics(f.ctx, store.TopicQuery{Limit: 2, Cursor: page.Next})
		f.noError("Topics", err)
		equal(f, "the page behind a topic", topicNames(next.Topics), []string{"t09-new", "t10"})
	}},
	{name: "topics/are found by a part of their name", options: Options{Shards: 2}, run: func(f *fixture) {
		for _, name := range []string{"order-timeout", "Order-paid", "reorder", "payment", "ORDERS"} {
			f.add(reg(name, "a", delay(long)))
		}
		find := func(part string) []string { return topicNames(f.topicsOf(store.TopicQuery{Part: part, Limit: 2})) }
		equal(f, "with order", find("order"), []string{"ORDERS", "Order-paid", "order-timeout", "reorder"})
		equal(f, "with Order-", find("Order-"), []string{"Order-paid", "order-timeout"})
		equal(f, "with nothing", find("orders-"), []string{})
		only := store.TopicQuery{Only: job.TopicSet{"payment", "order-*", "ORD*"}, Limit: 2}
		equal(f, "of these", topicNames(f.topicsOf(only)), []string{"ORDERS", "order-timeout", "payment"})
		only.Part = "time"
		equal(f, "of these, with time", topicNames(f.topicsOf(only)), []string{"order-timeout"})
	}},
	{name: "topics/others are listed on demand", options: Options{Shards: 2}, run: func(f *fixture) {
		f.add(reg("b", "a", delay(long)))
		f.add(reg("d", "a", delay(long)))
		also := []string{"e", "c", "b", "a", "c"}
		for _, limit := range []int{1, 2, 10} {
			topics := f.topicsOf(store.TopicQuery{Also: also, Limit: limit})
			equal(f, "topics", topicNames(topics), []string{"a", "b", "c", "d", "e"})
			equal(f, "counts of one that holds nothing", nonZero(topics[0].States), nil)
		}
		equal(f, "found among them", topicNames(f.topicsOf(store.TopicQuery{Also: also, Part: "C", Limit: 10})), []string{"c"})
	}},
	{name: "topics/cursors that are none", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", delay(long)))
		for _, cursor := range []string{"!", "dA", base64.RawURLEncoding.EncodeToString([]byte("e http://a"))} {
			_, err := f.Topics(f.ctx, store.TopicQuery{Limit: 1, Cursor: cursor})
			f.isError("cursor "+cursor, err, store.ErrBadCursor)
		}
	}},
	{name: "topics/one with ended jobs only", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		for _, state := range finals {
			f.end(reg("t-"+state.String(), "a"), state)
		}
		equal(f, "topics", len(f.topics()), len(finals))
		equal(f, "busiest", f.busiest(10), nil)
	}},
	{name: "topics/the busiest", options: Options{Shards: 2}, run: func(f *fixture) {
		equal(f, "of nothing", f.busiest(10), nil)
		for n := range 12 {
			f.register(store.Created, many(fmt.Sprintf("t%02d", n), n+1, delay(long))...)
		}
		f.register(store.Created, many("due", 5)...)
		equal(f, "busiest", f.busiest(3), []busyTopic{{"t11", 12}, {"t10", 11}, {"t09", 10}})
		equal(f, "with a part of the name", f.busiestOf(store.TopicQuery{Part: "T0", Limit: 2}), []busyTopic{{"t09", 10}, {"t08", 9}})
		equal(f, "of some topics", f.busiestOf(store.TopicQuery{Only: job.TopicSet{"t03", "due"}, Limit: 10}), []busyTopic{{"due", 5}, {"t03", 4}})
		_, err := f.Topics(f.ctx, store.TopicQuery{Busiest: true, Limit: 1, Cursor: base64.RawURLEncoding.EncodeToString([]byte("t t03"))})
		f.isError("a cursor", err, store.ErrBadCursor)
		for _, c := range f.take()[:2] {
			f.settle(store.Applied, delivered(c))
		}
		for _, t := range f.busiest(100) {
			if t.Topic == "due" {
				equal(f, "left", t.Jobs, 3)
			}
		}
	}},
	{name: "purge/many topics", options: Options{Retention: short, Shards: 2}, run: func(f *fixture) {
		for n := range 150 {
			f.register(store.Created, many(fmt.Sprint("t", n), 2)...)
		}
		for _, c := range f.take() {
			f.settle(store.Applied, delivered(c))
		}
		f.waitPast(f.now().Add(short + time.Millisecond))
		f.purge(170, 170)
		f.purge(130, 500)
		equal(f, "topics", f.topics(), nil)
		equal(f, "jobs", keys(f.list(store.Query{Limit: 10})), nil)
	}},
}
