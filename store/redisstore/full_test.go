package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// TestFullRedis: a Redis without memory takes no new jobs, and everything else
// goes on, or it could not drain.
func TestFullRedis(t *testing.T) {
	server := testenv.StartRedis(t, testenv.WithMaxMemory("0"))
	s, err := Open(t.Context(), Options{URL: server.URL(), Retention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const endpoint = "http://a.example:80"
	ctx := t.Context()
	o := store.CarryOptions{Cap: 10, Visibility: time.Minute, EndpointLimit: 10, ProbeLimit: 3}
	due := aJob("due")
	due.Spec.When.Delay = 0
	if _, err := s.Register(ctx, []store.Registration{due, aJob("waits")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutDocument(ctx, store.Document{Kind: "k", Name: "n"}); err != nil {
		t.Fatal(err)
	}
	if err := s.db.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}

	if _, err := s.Register(ctx, []store.Registration{aJob("new")}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("registering: %v", err)
	}
	carry := func() int {
		t.Helper()
		r, err := s.Carry(ctx, 0, o)
		if err != nil {
			t.Fatal("carrying:", err)
		}
		return len(r.Carried)
	}
	if err := s.Hold(ctx, endpoint, time.Hour); err != nil {
		t.Error("holding:", err)
	}
	if n := carry(); n != 0 {
		t.Errorf("%d jobs of a held endpoint were carried", n)
	}
	if err := s.Unhold(ctx, endpoint); err != nil {
		t.Error("ending the hold:", err)
	}
	testenv.Eventually(t, time.Minute, func() bool { return carry() == 1 }, "the job is carried after the hold")
	hints, err := s.Pop(ctx, 0, 10, time.Second)
	if err != nil || len(hints) != 1 {
		t.Fatalf("popped %v, %v", hints, err)
	}
	claims, err := s.Claim(ctx, 0, hints, store.ClaimOptions{Nonce: "n", Lease: time.Minute})
	if err != nil || len(claims) != 1 {
		t.Fatalf("claimed %v, %v", claims, err)
	}
	settled, err := s.Settle(ctx, []job.Settlement{
		job.Settle(&claims[0].Job, job.Outcome{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{Number: 1}}, nil),
	})
	if err != nil || settled[0].Status != store.Applied {
		t.Errorf("settled %v, %v", settled, err)
	}
	_, err = s.Update(ctx, job.Key{Topic: "t", ID: "waits"}, func(j *job.Job, now job.Instant) error {
		_, err := j.Cancel(now)
		return err
	})
	if err != nil {
		t.Error("cancelling:", err)
	}
	if _, err := s.PutDocument(ctx, store.Document{Kind: "k", Name: "n", Version: 1}); err != nil {
		t.Error("writing a document:", err)
	}
	if _, err := s.Purge(ctx, 10); err != nil {
		t.Error("purging:", err)
	}
}
