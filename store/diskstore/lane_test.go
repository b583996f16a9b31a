package diskstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

// firstRow is the first entry of a lane that may go, found by passing all rows; the zero value: there is none.
func firstRow(t *testing.T, s *Store, l *lane) (first entry) {
	t.Helper()
	pre := bucketPrefix(l.name, secDue)
	if err := scan(s.db, pre, end(pre), func(key, value []byte) bool {
		e := parseEntry(key, value, len(pre))
		if s.flights[job.Key{Topic: l.Topic, ID: e.id}] != nil {
			return true
		}
		first = e
		return false
	}); err != nil {
		t.Fatal(err)
	}
	return first
}

func TestALaneKnowsItsFirstEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, Options{Retention: time.Hour})
		r := rand.New(rand.NewPCG(1, 2))
		registered := 0
		var claims []store.Claimed
		calls := []func(){
			func() {
				var regs []store.Registration
				for range 1 + r.IntN(5) {
					delay := time.Duration(r.IntN(20)) * time.Second
					regs = append(regs, newReg(fmt.Sprint(registered), job.Spec{When: job.When{Delay: delay}}))
					registered++
				}
				add(t, s, regs...)
			},
			func() {
				key := job.Key{Topic: "t", ID: fmt.Sprint(r.IntN(registered + 1))}
				_, _ = s.Update(t.Context(), key, func(j *job.Job, now job.Instant) error { // it may have ended
					_, err := j.Cancel(now)
					return err
				})
			},
			func() {
				o := options
				o.Max, o.Limits.EndpointLimit, o.Lease = 1+r.IntN(8), 10, 10*time.Second
				taken, err := s.Take(t.Context(), 0, o)
				must.OK(t, err)
				claims = append(claims, taken.Claims...)
			},
			func() {
				for range min(2, len(claims)) {
					c := claims[0]
					claims = claims[1:]
					o := job.Outcome{Kind: job.OutcomeDelivered}
					if r.IntN(2) == 0 {
						o = job.Outcome{Kind: job.OutcomeFailed, Attempt: &job.Attempt{Number: c.Job.Attempts + 1, Status: 500}}
					}
					delay := time.Duration(r.IntN(10)) * time.Second
					st := job.Settle(&c.Job, o, func(int) (time.Duration, bool) { return delay, true })
					if _, err := s.Settle(t.Context(), []job.Settlement{st}); err != nil { // its lease may have expired
						t.Fatal(err)
					}
				}
			},
			func() {
				must.OK(t, s.SetLimits(t.Context(), "t", store.Limits{Paused: r.IntN(2) == 0}))
			},
			func() { pass(t, time.Duration(r.IntN(3))*time.Second) },
		}
		for range 3_000 {
			calls[r.IntN(len(calls))]()
			s.lanes.Scan(func(_ string, l *lane) bool {
				want := firstRow(t, s, l)
				got, _ := l.first(s.begin(job.InstantOf(time.Now())))
				if got != want {
					t.Fatalf("the first entry is %+v, want %+v", got, want)
				}
				return true
			})
		}
		if registered < 100 || s.counts[job.Delivered] < 50 {
			t.Fatalf("only %d jobs were registered, and %d delivered", registered, s.counts[job.Delivered])
		}
	})
}
