package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

// A prepared job does not point into the buffer of its request.
func TestBodiesAreOwn(t *testing.T) {
	r := newRig(t)
	body := []byte(`{"a":1}`)
	p, err := r.Prepare(draft(func(d *job.Draft) { d.Body = &job.Body{Form: job.BodyJSON, Content: body} }), Origin{})
	if err != nil {
		t.Fatal(err)
	}
	clear(body)
	if got := string(p.reg.Spec.Body); got != `{"a":1}` {
		t.Errorf("the body is %q", got)
	}
}

func TestRegistrationsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRig(t, func(o *Options) { o.Metrics = registry })
	r.register(draft(named("t", "a")), Origin{})
	r.register(draft(named("t", "a")), Origin{})
	r.Refuse(3, true)
	r.Refuse(2, false)
	for outcome, want := range map[string]float64{"created": 1, "same": 1, outcomeInvalid: 3, outcomeUnavailable: 2, "kept": 0} {
		if got := testutil.ToFloat64(r.metrics.registrations.WithLabelValues(outcome)); got != want {
			t.Errorf("%s: %v, want %v", outcome, got, want)
		}
	}
	if _, err := New(Options{Store: r.mem, Metrics: registry}); err == nil {
		t.Error("metrics are registered twice")
	}
	if _, err := New(Options{}); err == nil {
		t.Error("an App without a store")
	}
}

// Jobs of the server itself can use the topic of alerts, and are found by their uids.
func TestOwnJobs(t *testing.T) {
	r := newRig(t)
	key := job.Key{Topic: alerts.Topic, ID: "a"}
	reg := store.Registration{Key: key, UID: store.BindUID("01KDWCJ2M00000000000000001", key), Spec: job.Spec{Destination: "https://ops.example/"}}
	for _, want := range []store.RegisterOutcome{store.Created, store.Same} {
		registered, err := r.RegisterOwn(t.Context(), []store.Registration{reg})
		if err != nil || registered[0].Outcome != want {
			t.Fatalf("%+v, %v", registered, err)
		}
		page, err := r.List(t.Context(), store.Query{UID: reg.UID, Limit: 1})
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Key != reg.Key {
			t.Errorf("found by its uid: %+v, %v", page.Jobs, err)
		}
	}
}

// tester holds tests until it is told to go on.
type tester struct {
	Deliverer
	begun chan store.Claimed
	end   chan struct{}
}

func (d tester) Test(_ context.Context, c store.Claimed, _ time.Duration) (job.Attempt, error) {
	d.begun <- c
	<-d.end
	return job.Attempt{Status: 200}, nil
}

func TestTests(t *testing.T) {
	d := tester{begun: make(chan store.Claimed), end: make(chan struct{})}
	r := newRig(t, func(o *Options) { o.Endpoints = d })
	p, err := r.PrepareTest(draft())
	if err != nil || p.Endpoint() != "https://shop.example:443" {
		t.Fatal(p, err)
	}
	ended := make(chan error)
	for range MaxTests {
		go func() {
			_, err := r.Test(context.Background(), p, time.Second)
			ended <- err
		}()
		c := <-d.begun
		if h := c.Job.Spec.Headers; len(h) != 1 || h[0].Name != HeaderTest || string(c.Job.Spec.Body) != testBody {
			t.Errorf("tested with %+v", c.Job)
		}
	}
	if _, err := r.Test(t.Context(), p, time.Second); !errors.Is(err, ErrTooManyTests) {
		t.Errorf("one test too many: %v", err)
	}
	close(d.end)
	for range MaxTests {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := r.tests.Load(); n != 0 {
		t.Errorf("%d tests are in flight", n)
	}
	if page, err := r.List(t.Context(), store.Query{Limit: 1}); err != nil || len(page.Jobs) != 0 {
		t.Errorf("a test is stored: %+v, %v", page, err)
	}
}

func TestTopicDueIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testenv.Store(t, diskstore.Options{})
		settings, err := topics.New(topics.Options{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		r, err := New(Options{Store: s, Topics: settings})
		if err != nil {
			t.Fatal(err)
		}
		register := func(id string, delay time.Duration) {
			t.Helper()
			reg := store.Registration{Key: job.Key{Topic: "t", ID: id}, UID: id, Spec: job.Spec{Destination: "http://a/", When: job.When{Delay: delay}}}
			if _, err := s.Register(t.Context(), []store.Registration{reg}); err != nil {
				t.Fatal(err)
			}
		}
		register("taken", 0)
		register("due", 0)
		if _, err := s.Take(t.Context(), 0, store.TakeOptions{Max: 1, Lease: time.Hour, Limits: store.FlightLimits{HalfOpenLimit: 1}}); err != nil {
			t.Fatal(err)
		}
		for i, bound := range DueRanges[:len(DueRanges)-1] {
			register(fmt.Sprint("last-", i), bound.Below-time.Millisecond)
			register(fmt.Sprint("first-", i+1), bound.Below)
		}
		got, err := r.Topic(t.Context(), "t")
		want := []int64{3, 2, 2, 2, 2, 2, 2, 2, 1}
		if err != nil || got.DuePartial || !slices.Equal(got.DueIn, want) || got.Overdue != 1 {
			t.Errorf("due in %v, want %v; %d overdue, want 1; partial is %v, %v", got.DueIn, want, got.Overdue, got.DuePartial, err)
		}
		if none, err := r.Topic(t.Context(), "u"); err != nil || none.Exists || len(none.DueIn) != len(DueRanges) {
			t.Errorf("a topic without jobs: %+v, %v", none, err)
		}
	})
}
