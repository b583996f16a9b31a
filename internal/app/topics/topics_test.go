package topics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/listing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a store with nodes, in virtual time.
type rig struct {
	*testing.T
	store.Store
	mu    sync.Mutex
	fail  map[string]error // by call
	sets  int
	lists int // of more than one document
	// before is called once, before a document is written, between once, after
	// documents or limits have been read, and setting once, before limits are set.
	before, between, setting func()
	set                      []store.Limits
	heard                    func(message []byte) // by the node that listened last
}

func (r *rig) Listen(ctx context.Context, channel string, receive func(message []byte)) error {
	r.heard = receive
	return r.Store.Listen(ctx, channel, receive)
}

func (r *rig) read() {
	if between := r.between; between != nil {
		r.between = nil
		between()
	}
}

var errAway = fmt.Errorf("%w: away", store.ErrUnavailable)

func (r *rig) failing(call string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fail[call]
}

func (r *rig) failWith(call string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail[call] = err
}

func (r *rig) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	if before := r.before; before != nil {
		r.before = nil
		before()
	}
	return r.Store.PutDocuments(ctx, docs)
}

func (r *rig) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	if err := r.failing("ListDocuments"); err != nil {
		return nil, err
	}
	if q.Name == "" {
		r.mu.Lock()
		r.lists++
		r.mu.Unlock()
	}
	defer r.read()
	return r.Store.ListDocuments(ctx, q)
}

func (r *rig) Figures(ctx context.Context, q store.FigureQuery) (store.Figures, error) {
	if q.Limits {
		defer r.read()
	}
	return r.Store.Figures(ctx, q)
}

func (r *rig) SetLimits(ctx context.Context, topic string, l store.Limits) error {
	if err := r.failing("SetLimits"); err != nil {
		return err
	}
	r.mu.Lock()
	setting := r.setting
	r.setting = nil
	r.mu.Unlock()
	if setting != nil {
		setting()
	}
	r.mu.Lock()
	r.sets++
	r.set = append(r.set, l)
	r.mu.Unlock()
	return r.Store.SetLimits(ctx, topic, l)
}

func (r *rig) Publish(ctx context.Context, channel string, message []byte) error {
	if err := r.failing("Publish"); err != nil {
		return err
	}
	return r.Store.Publish(ctx, channel, message)
}

func inBubble(t *testing.T, body func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, Store: testenv.Store(t, diskstore.Options{}), fail: map[string]error{}}
		body(t, r)
	})
}

func (r *rig) node(change ...func(*Options)) *Manager {
	r.Helper()
	o := Options{Store: r}
	for _, c := range change {
		c(&o)
	}
	m, err := New(o)
	if err != nil {
		r.Fatal(err)
	}
	return m
}

// running runs the node until the test's body calls stop.
func (r *rig) running(m *Manager) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			r.Error(err)
		}
	}
}

func (r *rig) limits(want map[string]store.Limits) {
	r.Helper()
	got, err := listing.Limits(r.Context(), r.Store)
	if err != nil {
		r.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Fatalf("limits (-want +got):\n%s", diff)
	}
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func pass(d time.Duration) { _ = job.Sleep(context.Background(), job.SystemClock(), d) }

func TestSettingsAreObeyed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.node()
		s := Settings{Limits: Limits{Capacity: 5, Rate: 50, Concurrency: 3, Weight: 20}, Defaults: job.Defaults{TTL: time.Hour}}
		put, _, err := m.Put(r.Context(), "t", s)
		r.ok(err)
		got, err := m.Get(r.Context(), "t")
		r.ok(err)
		if diff := cmp.Diff(put, got); diff != "" || got.State != Active {
			t.Errorf("put and got differ:\n%s", diff)
		}
		r.limits(map[string]store.Limits{"t": {Capacity: 5, Rate: 50, Concurrency: 3, Weight: 20}})
		if d := m.Defaults("t"); d == nil || d.TTL != time.Hour {
			t.Errorf("defaults: %v", d)
		}
		if m.Defaults("u") != nil {
			t.Error("a topic without settings has defaults")
		}
		_, _, err = m.Put(r.Context(), "u", Settings{Limits: Limits{Weight: 1}})
		r.ok(err)
		if all := m.Known(); len(all) != 2 || all["t"].Name != "t" || all["u"].Settings.Weight != 1 {
			t.Errorf("known: %+v", all)
		}
		r.ok(m.Delete(r.Context(), "t"))
		r.limits(map[string]store.Limits{"u": {Weight: 1}})
		if err := m.Delete(r.Context(), "t"); !errors.Is(err, ErrNotFound) {
			t.Errorf("deleting nothing: %v", err)
		}
		_, _, err = m.Put(r.Context(), "v", Settings{Limits: Limits{Rate: -1, Capacity: -1}})
		var invalid *job.ValidationError
		if !errors.As(err, &invalid) || len(invalid.Fields) != 2 {
			t.Errorf("a negative rate: %v", err)
		}
	})
}

// Limits of operators hold beside the settings, whatever their tenant does to these.
func TestLimitsOfOperators(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.node()
		_, had, err := m.PutLimits(r.Context(), "t", Limits{Capacity: 5, Concurrency: 2, Weight: 5})
		if r.ok(err); had {
			t.Error("the first limits replaced some")
		}
		_, _, err = m.Put(r.Context(), "t", Settings{Limits: Limits{Concurrency: 1, Rate: 9, Weight: 100}})
		r.ok(err)
		r.limits(map[string]store.Limits{"t": {Capacity: 5, Concurrency: 1, Rate: 9, Weight: 5}})
		if weight := m.Weight("t"); weight != 5 {
			t.Errorf("the weight is %d, want 5", weight)
		}
		r.ok(m.Delete(r.Context(), "t"))
		r.limits(map[string]store.Limits{"t": {Capacity: 5, Concurrency: 2, Weight: 5}})
		if err := m.Delete(r.Context(), "t"); !errors.Is(err, ErrNotFound) {
			t.Errorf("deleting settings of a topic that has limits alone: %v", err)
		}
		_, had, err = m.PutLimits(r.Context(), "t", Limits{Rate: 0.5})
		if r.ok(err); !had {
			t.Error("the second limits replaced none")
		}
		r.limits(map[string]store.Limits{"t": {Rate: 0.5}})
		_, _, err = m.PutLimits(r.Context(), "t", Limits{Weight: MaxWeight + 1, Concurrency: -1})
		if invalid, ok := errors.AsType[*job.ValidationError](err); !ok || len(invalid.Fields) != 2 {
			t.Errorf("limits out of range: %v", err)
		}
		r.ok(m.DeleteLimits(r.Context(), "t"))
		r.limits(map[string]store.Limits{})
		if err := m.DeleteLimits(r.Context(), "t"); !errors.Is(err, ErrNoLimits) {
			t.Errorf("deleting no limits: %v", err)
		}
		if len(m.Known()) != 0 {
			t.Errorf("kept: %+v", m.Known())
		}
	})
}

func TestNamesAreChecked(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.node()
		long := strings.Repeat("x", job.MaxName+1)
		for what, change := range map[string]func() error{
			"put": func() error { _, _, err := m.Put(t.Context(), long, Settings{Limits: Limits{Rate: 1}}); return err },
			"alter": func() error {
				_, err := m.Alter(t.Context(), long, func(s *Settings) bool { s.Rate = 1; return true })
				return err
			},
			"pause": func() error { _, err := m.SetState(t.Context(), long, Paused, job.Pause{}); return err },
		} {
			if _, ok := errors.AsType[*job.ValidationError](change()); !ok {
				t.Errorf("%s: a topic with a name that no job can have was kept", what)
			}
		}
	})
}

func TestStatus(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var told []events.Type
		m := r.node(func(o *Options) {
			o.Emit = func(list ...events.Event) {
				for _, e := range list {
					told = append(told, e.Type)
				}
			}
		})
		_, _, err := m.Put(r.Context(), "t", Settings{Limits: Limits{Rate: 5}})
		r.ok(err)
		for _, s := range []State{Active, Paused, Paused, Draining, Active} {
			topic, err := m.SetState(r.Context(), "t", s, job.Pause{})
			r.ok(err)
			if topic.State != s || (topic.Pause != nil) != (s != Active) || topic.Settings.Rate != 5 {
				t.Errorf("set to %s: %+v", s, topic)
			}
			r.limits(map[string]store.Limits{"t": {Rate: 5, Paused: s == Paused, Draining: s == Draining}})
		}
		if diff := cmp.Diff([]events.Type{events.TopicPaused, events.TopicDraining, events.TopicResumed}, told); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		// A pause outlives the settings, and nothing is left in the end.
		_, err = m.SetState(r.Context(), "t", Paused, job.Pause{})
		r.ok(err)
		r.ok(m.Delete(r.Context(), "t"))
		r.limits(map[string]store.Limits{"t": {Paused: true}})
		_, err = m.SetState(r.Context(), "t", Active, job.Pause{})
		r.ok(err)
		r.limits(map[string]store.Limits{})
		if docs, err := r.Store.ListDocuments(r.Context(), store.DocumentQuery{Kind: documentKind}); err != nil || len(docs) != 0 {
			t.Errorf("left: %v, %v", docs, err)
		}
	})
}

// A pause with an end has one in the store at once, and in the document when the time has come.
func TestPauseUntil(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var told []events.Type
		m := r.node(func(o *Options) {
			o.Emit = func(list ...events.Event) {
				for _, e := range list {
					told = append(told, e.Type)
				}
			}
		})
		now, err := store.Now(r.Context(), r.Store)
		r.ok(err)
		pause := job.Pause{Until: now.Add(time.Minute), By: "ops", Note: "moves"}
		for _, wrong := range []job.Pause{{Until: now}, {Note: strings.Repeat("x", job.MaxNote+1)}} {
			if _, err := m.SetState(r.Context(), "t", Paused, wrong); !errors.As(err, new(*job.ValidationError)) {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
		got, err := m.SetState(r.Context(), "t", Paused, pause)
		r.ok(err)
		want := pause
		want.Since = now
		if diff := cmp.Diff(&want, got.Pause); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		r.limits(map[string]store.Limits{"t": {Paused: true, PausedUntil: pause.Until}})
		pass(30 * time.Second)
		again, err := m.SetState(r.Context(), "t", Paused, job.Pause{Until: pause.Until})
		r.ok(err)
		if again.Pause.Since != now || again.Pause.Note != "" {
			t.Errorf("paused again: %+v", again.Pause)
		}
		if is := again.At(pause.Until - 1); is.State != Paused {
			t.Errorf("before the time: %s", is.State)
		}
		if is := again.At(pause.Until); is.State != Active || is.Pause != nil {
			t.Errorf("at the time: %+v", is)
		}
		stop := r.running(m)
		defer stop()
		pass(time.Minute)
		r.limits(map[string]store.Limits{})
		if diff := cmp.Diff([]events.Type{events.TopicPaused, events.TopicResumed}, told); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestOtherNodesLearn(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.node(), r.node()
		stop := r.running(b)
		defer stop()
		_, err := a.SetState(r.Context(), "first", Paused, job.Pause{}) // counts them
		r.ok(err)
		synctest.Wait()
		lists := r.lists
		_, _, err = a.Put(r.Context(), "t", Settings{Defaults: job.Defaults{TTL: time.Hour}})
		r.ok(err)
		synctest.Wait()
		if b.Defaults("t") == nil {
			t.Error("another node was not told")
		}
		if r.lists != lists {
			t.Error("for one change, all topics were read")
		}
		// One that is not told learns it by itself.
		r.failWith("Publish", errAway)
		_, _, err = a.Put(r.Context(), "u", Settings{Defaults: job.Defaults{TTL: time.Hour}})
		r.ok(err)
		pass(reconcileEvery + time.Second)
		if b.Defaults("u") == nil {
			t.Error("another node did not learn it")
		}
		// One that may have missed a message looks at once.
		_, _, err = a.Put(r.Context(), "v", Settings{Defaults: job.Defaults{TTL: time.Hour}})
		r.ok(err)
		r.heard(nil)
		synctest.Wait()
		if b.Defaults("v") == nil {
			t.Error("another node did not look after messages were lost")
		}
	})
}

func TestWhatTheStoreLostIsPutRight(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.node()
		_, err := m.SetState(r.Context(), "t", Paused, job.Pause{})
		r.ok(err)
		stop := r.running(m)
		defer stop()
		r.ok(r.Store.SetLimits(r.Context(), "t", store.Limits{}))
		r.ok(r.Store.SetLimits(r.Context(), "gone", store.Limits{Paused: true}))
		r.failWith("ListDocuments", errAway)
		pass(reconcileEvery + time.Second)
		r.failWith("ListDocuments", nil)
		pass(2 * retryPause)
		r.limits(map[string]store.Limits{"t": {Paused: true}})
		sets := r.sets
		pass(time.Hour)
		if r.sets != sets {
			t.Errorf("limits were set %d times for nothing", r.sets-sets)
		}
	})
}

func TestAChangeBetweenIsNotOverwritten(t *testing.T) {
	inBubble(t, func(_ *testing.T, r *rig) {
		a, b := r.node(), r.node()
		r.before = func() {
			_, err := b.SetState(r.Context(), "t", Paused, job.Pause{})
			r.ok(err)
		}
		_, _, err := a.Put(r.Context(), "t", Settings{Limits: Limits{Rate: 5}})
		r.ok(err)
		r.limits(map[string]store.Limits{"t": {Rate: 5, Paused: true}})
	})
}

func TestTheLastOfTwoChangesIsObeyed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.node(), r.node()
		r.setting = func() {
			_, err := b.SetState(r.Context(), "t", Paused, job.Pause{})
			r.ok(err)
		}
		_, _, err := a.Put(r.Context(), "t", Settings{Limits: Limits{Rate: 5}})
		r.ok(err)
		r.limits(map[string]store.Limits{"t": {Rate: 5, Paused: true}})
		if got := a.Known()["t"].State; got != Paused {
			t.Errorf("known as %s", got)
		}
	})
}

func TestAChangeReadsNoOtherTopics(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.node()
		_, err := m.SetState(r.Context(), "first", Paused, job.Pause{}) // counts them
		r.ok(err)
		lists := r.lists
		_, _, err = m.Put(r.Context(), "first", Settings{Limits: Limits{Rate: 5}})
		r.ok(err)
		_, err = m.SetState(r.Context(), "first", Active, job.Pause{})
		r.ok(err)
		r.ok(m.Delete(r.Context(), "first"))
		if r.lists != lists {
			t.Errorf("three changes listed documents %d times", r.lists-lists)
		}
		if known := m.Known(); len(known) != 0 {
			t.Errorf("known: %v", known)
		}
		r.limits(map[string]store.Limits{})
	})
}

// TestNewLimitsAreNotTakenAway: a node that compares while another one sets a topic's first
// limits does not remove them.
func TestNewLimitsAreNotTakenAway(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m, other := r.node(), r.node()
		limits := store.Limits{Concurrency: 3}
		r.between = func() {
			_, _, err := other.Put(r.Context(), "t", Settings{Limits: Limits{Concurrency: 3}})
			r.ok(err)
		}
		r.ok(m.Reconcile(r.Context()))
		if slices.ContainsFunc(r.set, func(l store.Limits) bool { return l != limits }) {
			t.Errorf("the store was told %+v", r.set)
		}
		r.limits(map[string]store.Limits{"t": limits})
	})
}

func TestAFailureCanBeRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.node()
		r.failWith("SetLimits", errAway)
		if _, err := m.SetState(r.Context(), "t", Paused, job.Pause{}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		r.failWith("SetLimits", nil)
		_, err := m.SetState(r.Context(), "t", Paused, job.Pause{})
		r.ok(err)
		r.limits(map[string]store.Limits{"t": {Paused: true}})
		// The store may have done a part of what it was told: it is told again.
		for _, s := range []State{Active, Paused} {
			r.failWith("SetLimits", errAway)
			if _, err := m.SetState(r.Context(), "t", s, job.Pause{}); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
			r.failWith("SetLimits", nil)
			r.ok(r.Store.SetLimits(r.Context(), "t", store.Limits{Paused: s == Paused}))
			sets := r.sets
			r.ok(m.Reconcile(r.Context()))
			r.ok(m.Reconcile(r.Context()))
			if r.sets != sets+1 {
				t.Errorf("it was told %d times, want once", r.sets-sets)
			}
		}
	})
}

func TestAwaitLoadWaitsForTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		_, err := r.node().SetState(r.Context(), "t", Paused, job.Pause{})
		r.ok(err)
		m := r.node()
		r.failWith("ListDocuments", errAway)
		runs, stop := context.WithCancel(r.Context())
		var ended sync.WaitGroup
		defer ended.Wait()
		defer stop()
		ended.Go(func() { r.ok(m.Run(runs)) })
		loaded := make(chan struct{})
		go func() {
			m.AwaitLoad(context.Background())
			close(loaded)
		}()
		pass(10 * time.Second)
		select {
		case <-loaded:
			t.Error("loaded without a store")
		default:
		}
		if err := m.Ready(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("ready without a store: %v", err)
		}
		r.failWith("ListDocuments", nil)
		<-loaded
		r.ok(m.Ready())
		if state := m.Known()["t"].State; state != Paused {
			t.Errorf("the topic is %s, want paused", state)
		}
	})
}

// put stores a document in the place of whatever there is.
func (r *rig) put(name, data string) {
	r.Helper()
	d, err := store.ReadDocument(r.Context(), r.Store, documentKind, name)
	if errors.Is(err, store.ErrNotFound) {
		d, err = store.Document{Kind: documentKind, Name: name}, nil
	}
	r.ok(err)
	d.Data = []byte(data)
	_, err = store.PutDocument(r.Context(), r.Store, d)
	r.ok(err)
}

// kept expects what is stored of a topic.
func (r *rig) kept(name, want string) {
	r.Helper()
	d, err := store.ReadDocument(r.Context(), r.Store, documentKind, name)
	r.ok(err)
	var got, wanted map[string]any
	r.ok(json.Unmarshal(d.Data, &got))
	r.ok(json.Unmarshal([]byte(want), &wanted))
	for _, name := range []string{"created_at", "updated_at", "version"} {
		delete(got, name)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		r.Errorf("stored (-want +got):\n%s", diff)
	}
}

// unreadable is a document of a newer version, which has other rates.
const unreadable = `{"state":"paused","settings":{"capacity":9,"rate":{"per_hour":3},"defaults":{"TTL":60000000000}}}`

// What cannot be read lifts no limit, whether a node knew the topic before or not,
// and is not written over.
func TestWhatCannotBeReadStaysInForce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		knows := r.node()
		_, _, err := knows.Put(r.Context(), "t", Settings{Limits: Limits{Rate: 5}})
		r.ok(err)
		for _, name := range []string{"t", "new"} {
			r.put(name, unreadable)
			r.ok(r.Store.SetLimits(r.Context(), name, store.Limits{Paused: true, Rate: 0.001}))
		}
		want := map[string]store.Limits{"t": {Paused: true, Rate: 0.001}, "new": {Paused: true, Rate: 0.001}}
		fresh := r.node()
		for _, m := range []*Manager{knows, fresh} {
			r.ok(m.Reconcile(r.Context()))
			r.limits(want)
			if _, err := m.Get(r.Context(), "t"); !errors.Is(err, store.ErrNewer) {
				t.Errorf("it was read: %v", err)
			}
			for what, change := range map[string]func() error{
				"put":    func() error { _, _, err := m.Put(r.Context(), "t", Settings{Limits: Limits{Rate: 7}}); return err },
				"resume": func() error { _, err := m.SetState(r.Context(), "t", Active, job.Pause{}); return err },
				"delete": func() error { return m.Delete(r.Context(), "t") },
			} {
				if err := change(); !errors.Is(err, store.ErrNewer) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		r.kept("t", unreadable)
		r.limits(want)
		// The store forgets them, and nodes do not.
		for _, name := range []string{"t", "new"} {
			r.ok(r.Store.SetLimits(r.Context(), name, store.Limits{}))
		}
		r.ok(knows.Reconcile(r.Context()))
		r.limits(want)
		// A newer node that changes them is obeyed.
		r.ok(r.Store.SetLimits(r.Context(), "new", store.Limits{Rate: 3}))
		want["new"] = store.Limits{Rate: 3}
		r.ok(knows.Reconcile(r.Context()))
		r.ok(fresh.Reconcile(r.Context()))
		r.limits(want)
		// It can be read at last.
		r.put("new", `{"state":"active","settings":{"rate":4}}`)
		r.ok(fresh.Reconcile(r.Context()))
		want["new"] = store.Limits{Rate: 4}
		r.limits(want)
	})
}

// A store that knows no limits, as one in memory that has just started, obeys what
// can be read; without a status that is known, nothing is delivered.
func TestWhatCanBeReadIsObeyed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put("t", unreadable)
		r.put("asleep", `{"state":"asleep","settings":{"rate":2}}`)
		r.put("torn", `{"state":"act`)
		m := r.node()
		r.ok(m.Reconcile(r.Context()))
		want := map[string]store.Limits{"t": {Paused: true, Capacity: 9}, "asleep": {Paused: true, Rate: 2}, "torn": {Paused: true}}
		r.limits(want)
		if d := m.Defaults("t"); d == nil || d.TTL != time.Minute {
			t.Errorf("defaults: %+v", d)
		}
		if all := m.Known(); len(all) != 3 || !all["asleep"].Newer {
			t.Errorf("known: %+v", all)
		}
		// Once: another node may know better.
		r.ok(r.Store.SetLimits(r.Context(), "asleep", store.Limits{}))
		delete(want, "asleep")
		r.ok(m.Reconcile(r.Context()))
		r.limits(want)
	})
}

// An older node changes a topic, and what it does not know of it stays.
func TestFieldsOfNewerVersionsAreKept(t *testing.T) {
	inBubble(t, func(_ *testing.T, r *rig) {
		r.put("t", `{"state":"active","quota":1,"settings":{"burst":2,"rate":5,"defaults":{"Tries":3}}}`)
		m := r.node()
		r.ok(m.Reconcile(r.Context()))
		r.limits(map[string]store.Limits{"t": {Rate: 5}})
		_, _, err := m.Put(r.Context(), "t", Settings{Limits: Limits{Rate: 6}})
		r.ok(err)
		topic, err := m.Get(r.Context(), "t")
		r.ok(err)
		defaults, err := json.Marshal(topic.Settings.Defaults)
		r.ok(err)
		var d map[string]any
		r.ok(json.Unmarshal(defaults, &d))
		d["Tries"] = 3.0
		defaults, err = json.Marshal(d)
		r.ok(err)
		r.kept("t", `{"state":"active","quota":1,"settings":{"burst":2,"rate":6,"defaults":`+string(defaults)+`}}`)
		r.ok(m.Delete(r.Context(), "t"))
		r.kept("t", `{"state":"active","quota":1,"settings":{"burst":2,"defaults":`+string(defaults)+`}}`)
		r.limits(map[string]store.Limits{})
	})
}

func TestMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		registry := prometheus.NewRegistry()
		withMetrics := func(o *Options) { o.Metrics = registry }
		m := r.node(withMetrics)
		_, err := m.SetState(r.Context(), "t", Paused, job.Pause{})
		r.ok(err)
		if n, err := testutil.GatherAndCount(registry, "duehook_topics_set"); err != nil || n != 3 {
			t.Errorf("%d, %v", n, err)
		}
		if _, err := New(Options{Store: r, Metrics: registry}); err == nil {
			t.Error("metrics were registered twice")
		}
		if _, err := New(Options{}); err == nil {
			t.Error("New took no store")
		}
	})
}

func TestPlainTopicsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.node()
		data, err := json.Marshal(&Topic{Settings: Settings{Limits: Limits{Rate: 1}}, State: Active})
		r.ok(err)
		for i := range MaxTopics {
			r.put(fmt.Sprint("t", i), string(data))
		}
		if _, _, err := m.Put(r.Context(), "more", Settings{Limits: Limits{Rate: 1}}); !errors.Is(err, ErrTooMany) {
			t.Errorf("settings of one more: %v", err)
		}
		if _, err := m.SetState(r.Context(), "more", Paused, job.Pause{}); !errors.Is(err, ErrTooMany) {
			t.Errorf("a pause of one more: %v", err)
		}
		_, err = m.SetState(r.Context(), "more", Active, job.Pause{})
		r.ok(err)
		_, err = m.SetState(r.Context(), "t7", Paused, job.Pause{})
		r.ok(err)
		r.ok(m.Delete(r.Context(), "t8"))
		_, err = m.SetState(r.Context(), "more", Paused, job.Pause{})
		r.ok(err)
	})
}

func TestPlainTopicsAreBoundedInBytes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.node()
		r.put("others", strings.Repeat("x", MaxAllBytes-1000))
		large := Settings{Defaults: job.Defaults{Headers: []job.Header{{Name: "X", Value: strings.Repeat("x", 1000)}}}}
		if _, _, err := m.Put(r.Context(), "large", large); !errors.Is(err, ErrTooMany) {
			t.Errorf("got %v", err)
		}
		_, _, err := m.Put(r.Context(), "small", Settings{Limits: Limits{Rate: 1}})
		r.ok(err)
	})
}
