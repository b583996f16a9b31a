package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler/topics"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

func TestIdentity(t *testing.T) {
	r := newRig(t)
	first := r.register(draft(), Origin{}).Job
	if first.ID != first.UID || first.Topic != job.DefaultTopic {
		t.Errorf("without an id: %v", first.Key)
	}
	keyed := r.register(draft(), Origin{ID: "k"})
	again := r.register(draft(), Origin{ID: "k"})
	if keyed.Job.ID != "k" || again.Outcome != store.Same || again.Job.UID != keyed.Job.UID {
		t.Errorf("by an idempotency key: %+v, then %+v", keyed, again)
	}
	if own := r.register(draft(named("t", "a")), Origin{ID: "k"}).Job; own.Key != (job.Key{Topic: "t", ID: "a"}) {
		t.Errorf("an idempotency key replaces the id: %v", own.Key)
	}
	traced := r.register(draft(named("t", "b")), Origin{Traceparent: "00-1"}).Job
	if traced.Spec.Traceparent != "00-1" {
		t.Errorf("the trace context is %q", traced.Spec.Traceparent)
	}
}

func TestRefusedRegistrations(t *testing.T) {
	r := newRig(t)
	_, err := r.Prepare(&job.Draft{ID: ptr("?"), Priority: ptr(10)}, Origin{})
	if diff := cmp.Diff([]string{"id", "priority", "url"}, slices.Sorted(slices.Values(wrongFields(t, err)))); diff != "" {
		t.Error(diff)
	}
	_, err = r.Prepare(draft(named(alerts.Topic, "a")), Origin{})
	if got := wrongFields(t, err); !slices.Equal(got, []string{"topic"}) {
		t.Errorf("the topic of alerts: %v", got)
	}
	_, err = r.Prepare(draft(func(d *job.Draft) { *d.Destination = "http://169.254.169.254/" }), Origin{})
	var blocked *BlockedError
	if !errors.As(err, &blocked) || blocked.Field != "url" {
		t.Errorf("a blocked destination: %v", err)
	}
	_, err = r.Prepare(draft(func(d *job.Draft) { d.Body = &job.Body{Form: job.BodyText, Content: make([]byte, 101)} }), Origin{})
	if !errors.Is(err, job.ErrBodyTooLarge) {
		t.Errorf("a large body: %v", err)
	}
}

func TestDefaultsOfTopics(t *testing.T) {
	r := newRig(t)
	settings, err := r.TopicSettings("t", topics.Settings{}, &job.Draft{Timeout: ptr(7 * time.Second), Priority: ptr(9), Headers: map[string]string{"x-tenant": "acme"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.PutTopic(t.Context(), "t", settings); err != nil {
		t.Fatal(err)
	}
	got := r.register(draft(named("t", "a"), func(d *job.Draft) { d.Priority = ptr(2) }), Origin{}).Job.Spec
	if got.Timeout != 7*time.Second || got.Priority.Number() != 2 || len(got.Headers) != 1 {
		t.Errorf("registered with %+v", got)
	}
	if other := r.register(draft(named("u", "a")), Origin{}).Job.Spec; other.Timeout != 0 {
		t.Errorf("another topic's job has a timeout of %v", other.Timeout)
	}
}

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
		t.Error("a Scheduler without a store")
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

func TestChanges(t *testing.T) {
	r := newRig(t)
	ctx, key := t.Context(), job.Key{Topic: "t", ID: "a"}
	r.register(draft(named("t", "a"), func(d *job.Draft) { d.Delay = ptr(time.Minute) }), Origin{})
	if j, err := r.Change(ctx, key, &job.Draft{Delay: ptr(90 * time.Second), BizKey: ptr("b")}); err != nil || j.Spec.BizKey != "b" || j.DueAt != job.InstantOf(r.clock.Now().Add(90*time.Second)) {
		t.Errorf("changed: %+v, %v", j, err)
	}
	_, err := r.Change(ctx, key, &job.Draft{Destination: ptr[job.Destination]("http://169.254.169.254/")})
	if blocked := (*BlockedError)(nil); !errors.As(err, &blocked) {
		t.Errorf("a change to a blocked destination: %v", err)
	}
	if _, err := r.Change(ctx, key, &job.Draft{}); !slices.Equal(wrongFields(t, err), []string{""}) {
		t.Errorf("an empty change: %v", err)
	}
	stale := errors.New("stale")
	if j, err := r.Run(ctx, key, func(*job.Job) error { return stale }); !errors.Is(err, stale) || j.Version != 2 {
		t.Errorf("a change that is not allowed: %+v, %v", j, err)
	}
	if j, err := r.Change(ctx, key, &job.Draft{Delay: new(time.Hour)}); err != nil || j.NextAt != job.InstantOf(r.clock.Now().Add(time.Hour)) {
		t.Errorf("rescheduled: %+v, %v", j, err)
	}
	if j, err := r.Run(ctx, key); err != nil || j.NextAt != job.InstantOf(r.clock.Now()) {
		t.Errorf("run: %+v, %v", j, err)
	}
	if _, err := r.Run(ctx, job.Key{Topic: "t", ID: "none"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a job that does not exist: %v", err)
	}
}

func TestCancelAndReplay(t *testing.T) {
	r := newRig(t)
	ctx, key := t.Context(), job.Key{Topic: "t", ID: "a"}
	cancel := func(want CancelResult, state job.State) {
		t.Helper()
		if j, got, err := r.Cancel(ctx, key); err != nil || got != want || j.State != state {
			t.Errorf("%v, a job that is %s: %v", got, j.State, err)
		}
	}
	r.register(draft(named("t", "a")), Origin{})
	cancel(Cancelled, job.Cancelled)
	cancel(Cancelled, job.Cancelled)
	if j, err := r.Replay(ctx, key, nil); err != nil || j.State != job.Waiting {
		t.Errorf("replayed: %+v, %v", j, err)
	}
	r.kill()
	if j, err := r.Replay(ctx, key, &job.Draft{}); err != nil || j.State != job.Waiting {
		t.Errorf("replayed without changes: %+v, %v", j, err)
	}
	r.kill()
	if _, err := r.Replay(ctx, key, &job.Draft{Destination: ptr[job.Destination]("http://169.254.169.254/")}); err == nil {
		t.Error("replayed to a blocked destination")
	}
	if j, err := r.Replay(ctx, key, &job.Draft{Body: &job.Body{Form: job.BodyText, Content: []byte("fixed")}}); err != nil || string(j.Spec.Body) != "fixed" {
		t.Errorf("replayed with a change: %+v, %v", j, err)
	}
	r.claim()
	cancel(InFlight, job.Running)

	key.ID = "b"
	r.register(draft(named("t", "b")), Origin{})
	r.kill()
	cancel(Discarded, job.Cancelled)
	cancel(Discarded, job.Cancelled)

	key.ID = "c"
	r.register(draft(named("t", "c")), Origin{})
	for _, c := range r.claim() {
		delivered := job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{Number: 1, Status: 200}}, nil)
		if _, err := r.mem.Settle(ctx, []job.Settlement{delivered}); err != nil {
			t.Fatal(err)
		}
	}
	if j, _, err := r.Cancel(ctx, key); !errors.Is(err, job.ErrFinished) || j.State != job.Delivered {
		t.Errorf("cancelled after its delivery: %+v, %v", j, err)
	}
}

func TestListings(t *testing.T) {
	r := newRig(t)
	r.register(draft(named("t", "a")), Origin{})
	if page, err := r.List(t.Context(), store.Query{Topic: "t", IDPrefix: "a", Limit: 1}); err != nil || len(page.Jobs) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	r.kill()
	if page, err := r.DeadGroups(t.Context(), "", 10, ""); err != nil || len(page.Groups) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	if log, err := r.Attempts(t.Context(), job.Key{Topic: "t", ID: "a"}); err != nil || len(log) != 1 {
		t.Errorf("%+v, %v", log, err)
	}
}

func TestExplainAndPlan(t *testing.T) {
	r := newRig(t)
	d := draft(named("t", "a"), func(d *job.Draft) { d.Delay = ptr(time.Minute) })
	p, err := r.Prepare(d, Origin{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := r.Plan(t.Context(), p)
	if due := plan.Now.Add(time.Minute); err != nil || plan.Due != due || plan.Forecast.Attempts[0].Earliest != due || plan.MaxAttempts != len(plan.Forecast.Attempts) {
		t.Errorf("%+v, %v", plan, err)
	}
	if _, err := r.Explain(t.Context(), p.Key()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a plan is registered: %v", err)
	}
	r.register(d, Origin{})
	e, err := r.Explain(t.Context(), p.Key())
	if err != nil || e.Reasons[0].Code != "not_due" || e.Expected != plan.Due || e.Job.Key != p.Key() || e.Now != plan.Now {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestTopics(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	if got, err := r.Topic(ctx, "t"); err != nil || got.Exists || got.State != topics.Active {
		t.Errorf("a topic that does not exist: %+v, %v", got, err)
	}
	var exists []bool
	note := func(e bool, _ uint64) error { exists = append(exists, e); return nil }
	paused, err := r.SetTopicState(ctx, "t", topics.Paused, job.Pause{}, note)
	if err != nil || !paused.Exists || paused.State != topics.Paused {
		t.Errorf("%+v, %v", paused, err)
	}
	r.register(draft(named("u", "a")), Origin{})
	set, _, err := r.PutTopic(ctx, "u", topics.Settings{Capacity: 5}, note)
	if err != nil || set.Stats.States[job.Waiting] != 1 || set.Settings.Capacity != 5 {
		t.Errorf("%+v, %v", set, err)
	}
	if err := r.DeleteTopic(ctx, "u", note); err != nil {
		t.Error(err)
	}
	if !slices.Equal(exists, []bool{false, true, true}) {
		t.Errorf("before the changes the topics existed: %v", exists)
	}
	no := errors.New("no")
	if err := r.DeleteTopic(ctx, "t", func(bool, uint64) error { return no }); !errors.Is(err, no) {
		t.Errorf("a change that is not allowed: %v", err)
	}
	page, err := r.Topics(ctx, store.TopicQuery{Limit: 10})
	if err != nil || len(page.Topics) != 2 || page.Topics[0].State != topics.Paused || page.Topics[1].State != topics.Active || page.Topics[1].Name != "u" {
		t.Errorf("%+v, %v", page, err)
	}
	_, _, err = r.PutTopic(ctx, "t", topics.Settings{Alerts: &alerts.Thresholds{Terms: alerts.Terms{URL: "http://169.254.169.254/"}}})
	if blocked := (*BlockedError)(nil); !errors.As(err, &blocked) || blocked.Field != "alerts.url" {
		t.Errorf("alerts to a blocked destination: %v", err)
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
		register("carried", 0)
		register("due", 0)
		if _, err := s.Carry(t.Context(), 0, store.CarryOptions{Cap: 1, Visibility: time.Hour, HalfOpenLimit: 1}); err != nil {
			t.Fatal(err)
		}
		for i, bound := range DueRanges[:len(DueRanges)-1] {
			register(fmt.Sprint("last-", i), bound.Below-time.Millisecond)
			register(fmt.Sprint("first-", i+1), bound.Below)
		}
		got, err := r.Topic(t.Context(), "t")
		want := []int64{3, 2, 2, 2, 2, 2, 2, 2, 1}
		if err != nil || got.DuePartial || !slices.Equal(got.DueIn, want) || got.Overdue != 2 {
			t.Errorf("due in %v, want %v; %d overdue, want 2; partial is %v, %v", got.DueIn, want, got.Overdue, got.DuePartial, err)
		}
		if none, err := r.Topic(t.Context(), "u"); err != nil || none.Exists || len(none.DueIn) != len(DueRanges) {
			t.Errorf("a topic without jobs: %+v, %v", none, err)
		}
	})
}

// Errors of taken keys and of states have the job, for the texts of fronts.
func TestRefusalsNameTheJob(t *testing.T) {
	r := newRig(t)
	first := r.register(draft(named("t", "a")), Origin{})
	if err := Refusal(&first); err != nil {
		t.Errorf("a new job: %v", err)
	}
	second := r.register(draft(named("t", "a"), func(d *job.Draft) { d.Priority = ptr(9) }), Origin{})
	var conflict *ConflictError
	if err := Refusal(&second); !errors.As(err, &conflict) || conflict.Outcome != store.Exists || conflict.Job.UID != first.Job.UID {
		t.Errorf("other content: %v", err)
	}
	for outcome, want := range map[store.RegisterOutcome]error{store.TopicFull: store.ErrTopicFull, store.TopicDraining: store.ErrTopicDraining, store.Moved: nil} {
		if err := Refusal(&store.Registered{Outcome: outcome}); !errors.Is(err, want) {
			t.Errorf("%s: %v", OutcomeNames[outcome], err)
		}
	}
	if _, _, err := r.Cancel(t.Context(), first.Job.Key); err != nil {
		t.Fatal(err)
	}
	var state *StateError
	if _, err := r.Run(t.Context(), first.Job.Key); !errors.As(err, &state) || !errors.Is(err, job.ErrFinished) || state.Job.State != job.Cancelled {
		t.Errorf("an ended job: %v", err)
	}
}
