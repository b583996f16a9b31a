package job_test

import (
	"errors"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

func TestAgain(t *testing.T) {
	limits := job.Bounds{MaxBody: 16, MaxRounds: 2}
	j := registered()
	j.Spec.When.Spread = time.Minute
	if _, err := j.Again(time.Minute, &job.Body{}, limits); !errors.Is(err, job.ErrAgainBody) {
		t.Errorf("a new body that the registration does not permit: %v", err)
	}
	j.Spec.AgainBody = true
	before := j.Spec
	first, err := j.Again(time.Minute, nil, limits)
	must.OK(t, err)
	want := before
	want.Loop = &job.Loop{First: j.UID, Rounds: 1, Wait: time.Minute}
	must.Same(t, "the first round again", first, want)
	if !before.SameContent(&first) || !first.SameContent(&before) {
		t.Error("the client's registration is other content")
	}
	must.Equal(t, "due at", first.Due(j.Key, now), now.Add(time.Minute))
	uid := j.UID
	j.Spec, j.UID = first, "another"
	must.Equal(t, "the first uid", j.First(), uid)
	second, err := j.Again(time.Hour, &job.Body{Form: job.BodyJSON, Content: []byte(`{"n":2}`)}, limits)
	must.OK(t, err)
	want.Body, want.BodyForm, want.ContentType = []byte(`{"n":2}`), job.BodyJSON, "application/json"
	want.Loop = &job.Loop{First: uid, Rounds: 2, Wait: time.Hour, NewBody: true}
	must.Same(t, "the second round", second, want)
	if !before.SameContent(&second) || !second.SameContent(&before) {
		t.Error("with a new body, the client's registration is other content")
	}
	other := before
	other.TTL++
	if other.SameContent(&second) || second.SameContent(&other) {
		t.Error("another TTL is the same content")
	}
	j.Spec = second
	if _, err := j.Again(time.Hour, nil, limits); !errors.Is(err, job.ErrMaxRounds) {
		t.Errorf("the third round: %v", err)
	}
	j.Spec = before
	if _, err := j.Again(time.Hour, &job.Body{Form: job.BodyText, Content: make([]byte, 17)}, limits); !errors.Is(err, job.ErrBodyTooLarge) {
		t.Errorf("a large body: %v", err)
	}
	empty, err := j.Again(time.Hour, &job.Body{}, limits)
	if err != nil || empty.Body != nil || empty.BodyForm != job.BodyNone || empty.ContentType != "" {
		t.Errorf("without a body: %+v, %v", empty, err)
	}
	must.Same(t, "the job was changed", j.Spec, before)
}

// A cancel during the attempt ends the loop; the delivery stays one.
func TestACancelEndsTheLoop(t *testing.T) {
	j := jobIn(job.Running, 0)
	next, err := j.Again(time.Minute, nil, job.Bounds{MaxRounds: 1})
	must.OK(t, err)
	s := job.Settle(&j, job.Outcome{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{}, Again: &next}, fixedRetry(true))
	for _, cancelled := range []bool{false, true} {
		c := s.Change(cancelled)
		follow := s.Successors(c, 2, job.ShedNothing)
		if c.To != job.Delivered || (len(follow) == 0) != cancelled {
			t.Errorf("cancelled %v: %+v, followed by %d jobs", cancelled, c, len(follow))
		}
	}
}
