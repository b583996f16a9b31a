package app

import (
	"context"
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// scripted is a store with one key. What it holds changes before each of its calls.
type scripted struct {
	holds []*job.Job // before each call; the last stays
	calls int
	now   job.Instant
	// refuses is the answer to a change that the job allows.
	refuses error
}

func (s *scripted) next() *job.Job {
	j := s.holds[min(s.calls, len(s.holds)-1)]
	s.calls++
	return j
}

func (s *scripted) Register(_ context.Context, regs []store.Registration) ([]store.Registered, error) {
	out := make([]store.Registered, len(regs))
	for i, r := range regs {
		old := s.next()
		out[i] = store.Registered{Outcome: store.Created, Job: r.Job(s.now)}
		if old == nil {
			continue
		}
		if o := rules.Against(&r, old); o != store.Created {
			out[i] = store.Registered{Outcome: o, Job: *old}
		}
	}
	return out, nil
}

func (s *scripted) Update(_ context.Context, _ job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	j := s.next()
	if j == nil {
		return job.Job{}, store.ErrNotFound
	}
	changed := *j
	if err := change(&changed, s.now); err != nil {
		return *j, err
	}
	if s.refuses != nil {
		return *j, s.refuses
	}
	*j = changed
	return changed, nil
}

// What a job becomes between the look at it and the change is judged anew.
func TestRegisterMoves(t *testing.T) {
	waiting := func(next job.Instant) *job.Job { return &job.Job{UID: "old", DueAt: next, NextAt: next} }
	state := func(s job.State) *job.Job { return &job.Job{UID: "old", State: s} }
	for name, tt := range map[string]struct {
		holds []*job.Job
		want  store.RegisterOutcome
		due   job.Instant
	}{
		"free":                    {[]*job.Job{nil}, store.Created, 60_100},
		"earlier":                 {[]*job.Job{waiting(500)}, store.Moved, 60_100},
		"later already":           {[]*job.Job{waiting(70_000)}, store.Kept, 70_000},
		"in flight":               {[]*job.Job{state(job.Running)}, store.InFlight, 0},
		"claimed meanwhile":       {[]*job.Job{waiting(500), state(job.Running)}, store.InFlight, 0},
		"dead":                    {[]*job.Job{state(job.Dead)}, store.Moved, 60_100},
		"dead meanwhile":          {[]*job.Job{waiting(500), state(job.Dead)}, store.Moved, 60_100},
		"delivered meanwhile":     {[]*job.Job{waiting(500), state(job.Delivered)}, store.Created, 60_100},
		"forgotten meanwhile":     {[]*job.Job{waiting(500), nil}, store.Created, 60_100},
		"claimed and back at it":  {[]*job.Job{waiting(500), state(job.Running), waiting(600)}, store.Moved, 60_100},
		"replaced by another one": {[]*job.Job{waiting(500), waiting(80_000)}, store.Kept, 80_000},
	} {
		s := &scripted{holds: tt.holds, now: 100}
		r := store.Registration{Spec: job.Spec{When: job.When{Delay: 60_000_000_000}}, OnConflict: job.ConflictLater}
		got, err := register(t.Context(), s, []store.Registration{r})
		if err != nil || got[0].Outcome != tt.want || got[0].Job.DueAt != tt.due {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
	flapping := []*job.Job{waiting(500)}
	for range 20 {
		flapping = append(flapping, state(job.Running), waiting(500))
	}
	// Register sees it wait, and Update in flight, again and again.
	s := &scripted{holds: flapping, now: 100}
	r := store.Registration{Spec: job.Spec{When: job.When{At: 900}}, OnConflict: job.ConflictLater}
	if got, err := register(t.Context(), s, []store.Registration{r}); err != nil || got[0].Outcome != store.Busy || !got[0].Outcome.Conflicts() {
		t.Errorf("it never stands still: %+v, %v", got, err)
	}
	for refused, want := range map[error]store.RegisterOutcome{
		store.ErrConflict: store.Busy, store.ErrTopicFull: store.TopicFull, store.ErrTopicDraining: store.TopicDraining, store.ErrFull: store.StoreFull,
	} {
		s := &scripted{holds: []*job.Job{state(job.Dead)}, now: 100, refuses: refused}
		if got, err := register(t.Context(), s, []store.Registration{r}); err != nil || got[0].Outcome != want {
			t.Errorf("a replay that answers %v: %+v, %v, want %v", refused, got, err, want)
		}
	}
}
