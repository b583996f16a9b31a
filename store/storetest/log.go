package storetest

import (
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// fails makes an attempt at the only due job, and returns it as the log has it.
func (f *fixture) fails(a job.Attempt) job.Attempt {
	f.Helper()
	s := failed(f.takeOne(), always)
	s.Attempt = &a
	a.NextAt = f.settle(store.Applied, s).NextAt
	return a
}

var logCases = []testCase{
	{name: "log/of long attempts keeps the latest that fit", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a"))
		var want []job.Attempt
		fits := func(least int) {
			f.Helper()
			log, bytes := f.attempts(j.Key), 0
			for _, a := range log {
				bytes += len(a.ResponseBody) + len(a.ResponseHeaders[0].Value)
			}
			if bytes > store.MaxLogBytes || len(log) < least {
				f.Fatalf("%d attempts of %d bytes are kept, want %d at least, of %d bytes at most", len(log), bytes, least, store.MaxLogBytes)
			}
			equal(f, "the latest", log, want[len(want)-len(log):])
			equal(f, "the last", *f.get(j.Key).LastAttempt, want[len(want)-1])
		}
		const least = store.MaxLogBytes / 2_200
		for n := range 40 {
			want = append(want, f.fails(job.Attempt{
				Number: n + 1, StartedAt: 1_000_000, Status: 500, ResponseBody: strings.Repeat("b", 1_000),
				ResponseHeaders: []job.Header{{Name: "X", Value: strings.Repeat("h", 1_000)}},
			}))
			fits(min(n+1, least))
		}
		for range 5 { // short ones take little room
			want = append(want, f.fails(job.Attempt{
				Number: len(want) + 1, StartedAt: 1_000_000, Status: 500, ResponseHeaders: []job.Header{{Name: "X", Value: "y"}},
			}))
		}
		fits(least + 3)
	}},
	{name: "log/of many attempts keeps the latest", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a"))
		var want []job.Attempt
		for n := range store.MaxLog + 8 {
			want = append(want, f.fails(job.Attempt{Number: n + 1, StartedAt: 1_000_000, Status: 500, ResponseBody: "a|b\n 1 2"}))
		}
		log := f.attempts(j.Key)
		if len(log) < store.MaxLog {
			f.Fatalf("%d attempts are kept, want %d at least", len(log), store.MaxLog)
		}
		equal(f, "the latest", log[len(log)-store.MaxLog:], want[len(want)-store.MaxLog:])
		equal(f, "last attempt", f.get(j.Key).LastAttempt, &want[len(want)-1])
	}},
}
