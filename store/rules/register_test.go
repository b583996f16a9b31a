package rules_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// policies in the order of the columns below.
var policies = []job.OnConflict{job.ConflictReject, job.ConflictIgnore, job.ConflictReplace, job.ConflictLater, job.ConflictSooner}

func TestAgainst(t *testing.T) {
	const (
		created, same, kept, moves = store.Created, store.Same, store.Kept, store.Moves
		exists, inFlight, dead     = store.Exists, store.InFlight, store.DeadLetter
	)
	type row = []store.RegisterOutcome
	for state, rows := range map[job.State]struct{ equal, other row }{
		job.Waiting:   {row{same, same, same, moves, moves}, row{exists, kept, created, moves, moves}},
		job.Retrying:  {row{same, same, same, moves, moves}, row{exists, kept, created, moves, moves}},
		job.Ready:     {row{same, same, same, moves, moves}, row{exists, kept, created, moves, moves}},
		job.Running:   {row{same, same, same, inFlight, inFlight}, row{exists, kept, inFlight, inFlight, inFlight}},
		job.Delivered: {row{same, same, created, created, created}, row{created, created, created, created, created}},
		job.Expired:   {row{same, same, created, created, created}, row{created, created, created, created, created}},
		job.Cancelled: {row{created, created, created, created, created}, row{created, created, created, created, created}},
		job.Dead:      {row{same, same, created, dead, dead}, row{dead, dead, created, dead, dead}},
	} {
		old := job.Job{State: state, Spec: job.Spec{Destination: "http://a", Body: []byte(`{"a":1}`), BodyForm: job.BodyJSON}}
		for content, want := range map[string]row{`{"a": 1}`: rows.equal, `{"a":2}`: rows.other} {
			for i, p := range policies {
				spec := old.Spec
				spec.Body = []byte(content)
				if got := rules.Against(&store.Registration{Spec: spec, OnConflict: p}, &old); got != want[i] {
					t.Errorf("%v, %s, policy %v: %v, want %v", state, content, p, got, want[i])
				}
			}
		}
	}
}

// A job with another order key keeps its turn: it neither gives way nor moves to another key.
func TestAgainstAnotherOrderKey(t *testing.T) {
	for state, want := range map[job.State]map[job.OnConflict]store.RegisterOutcome{
		job.Waiting:   {job.ConflictReject: store.Exists, job.ConflictReplace: store.OtherOrderKey},
		job.Running:   {job.ConflictReject: store.Exists, job.ConflictReplace: store.InFlight},
		job.Dead:      {job.ConflictReject: store.OtherOrderKey, job.ConflictReplace: store.OtherOrderKey, job.ConflictLater: store.OtherOrderKey},
		job.Delivered: {job.ConflictReject: store.Created, job.ConflictReplace: store.Created},
	} {
		for policy, outcome := range want {
			for _, keys := range [][2]string{{"a", "b"}, {"", "b"}, {"a", ""}} {
				old := job.Job{State: state, Spec: job.Spec{OrderKey: keys[0]}}
				r := store.Registration{Spec: job.Spec{OrderKey: keys[1]}, OnConflict: policy}
				if got := rules.Against(&r, &old); got != outcome || got.Conflicts() != (outcome != store.Created) {
					t.Errorf("%v, policy %v, order keys %q: %v, want %v", state, policy, keys, got, outcome)
				}
			}
		}
	}
}

// scripted is a store with one key. What it holds changes before each of its calls.
type scripted struct {
	holds []*job.Job // before each call; the last stays
	calls int
	now   job.Instant
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
		"dead meanwhile":          {[]*job.Job{waiting(500), state(job.Dead)}, store.DeadLetter, 0},
		"delivered meanwhile":     {[]*job.Job{waiting(500), state(job.Delivered)}, store.Created, 60_100},
		"forgotten meanwhile":     {[]*job.Job{waiting(500), nil}, store.Created, 60_100},
		"claimed and back at it":  {[]*job.Job{waiting(500), state(job.Running), waiting(600)}, store.Moved, 60_100},
		"replaced by another one": {[]*job.Job{waiting(500), waiting(80_000)}, store.Kept, 80_000},
	} {
		s := &scripted{holds: tt.holds, now: 100}
		r := store.Registration{Spec: job.Spec{When: job.When{Delay: 60_000_000_000}}, OnConflict: job.ConflictLater}
		got, err := rules.Register(t.Context(), s, []store.Registration{r})
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
	if got, err := rules.Register(t.Context(), s, []store.Registration{r}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("it never stands still: %+v, %v", got, err)
	}
}

func TestKeysApart(t *testing.T) {
	var regs []store.Registration
	for _, id := range []string{"a", "b", "a", "c", "a", "b"} {
		regs = append(regs, store.Registration{Key: job.Key{Topic: "t", ID: id}})
	}
	if diff := cmp.Diff([][]int{{0, 1, 3}, {2, 5}, {4}}, rules.KeysApart(regs)); diff != "" {
		t.Error(diff)
	}
}
