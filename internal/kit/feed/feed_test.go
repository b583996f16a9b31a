package feed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

var errAway = errors.New("away")

// fake answers each call, or fails it.
type fake struct {
	store.Store
	err error
}

func (f *fake) Register(context.Context, []store.Registration) ([]store.Registered, error) {
	return []store.Registered{
		{Job: job.Job{UID: "new"}}, {Outcome: store.Same, Job: job.Job{UID: "old"}}, {Outcome: store.StoreFull}, {Job: job.Job{UID: "newer"}},
	}, f.err
}

func (f *fake) Update(_ context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error) {
	j := job.Job{Key: key, State: job.Dead}
	return j, errors.Join(change(&j, 7), f.err)
}

func (f *fake) Settle(context.Context, []job.Settlement) ([]store.Settled, error) {
	return []store.Settled{{UID: "a"}, {Status: store.Stale}, {Repeated: true}, {Status: store.Missing}, {UID: "e"}}, f.err
}

func (f *fake) SetCircuit(context.Context, string, store.CircuitState, time.Duration) error {
	return f.err
}

func TestObserve(t *testing.T) {
	for _, failing := range []error{nil, errAway} {
		var heard []string
		note := func(format string, args ...any) { heard = append(heard, fmt.Sprintf(format, args...)) }
		s := Observe(&fake{err: failing}, Subscriber{}, Subscriber{
			Registered: func(jobs iter.Seq[*job.Job]) {
				for j := range jobs {
					note("registered %s", j.UID)
				}
				for range jobs { // it may stop early, and begin again
					break
				}
			},
			Updated: func(j *job.Job, before job.State, at job.Instant) {
				note("%s: %s → %s at %d", j.ID, before, j.State, at)
			},
			Settled: func(outcomes iter.Seq2[*job.Settlement, *store.Settled]) {
				for s, r := range outcomes {
					note("settled %s %s", s.Key.ID, r.UID)
				}
				for range outcomes {
					break
				}
			},
			Circuit: func(endpoint string, openFor time.Duration) { note("%s open for %v", endpoint, openFor) },
		})
		ctx := t.Context()
		_, registering := s.Register(ctx, nil)
		_, updating := s.Update(ctx, job.Key{ID: "j"}, func(j *job.Job, _ job.Instant) error {
			j.State = job.Waiting
			return nil
		})
		_, settling := s.Settle(ctx, []job.Settlement{
			{Key: job.Key{ID: "0"}}, {Key: job.Key{ID: "1"}}, {Key: job.Key{ID: "2"}}, {Key: job.Key{ID: "3"}}, {Key: job.Key{ID: "4"}},
		})
		for _, err := range []error{
			registering, updating, settling,
			s.SetCircuit(ctx, "e", store.CircuitOpen, time.Minute), s.SetCircuit(ctx, "e", store.CircuitHalfOpen, 0), s.SetCircuit(ctx, "e", store.CircuitClosed, 0),
		} {
			if !errors.Is(err, failing) {
				t.Errorf("error %v, want %v", err, failing)
			}
		}
		want := []string{
			"registered new", "registered newer", "j: dead → waiting at 7", "settled 0 a", "settled 4 e",
			"e open for 1m0s", "e open for 0s", "e open for 0s",
		}
		if failing != nil {
			want = nil
		}
		if diff := cmp.Diff(want, heard); diff != "" {
			t.Errorf("failing: %v (-want +got):\n%s", failing, diff)
		}
	}
}
