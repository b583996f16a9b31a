package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

const (
	channel = "topics" // carries the names of changed topics
	// reconcileEvery is the interval of reconciling documents and limits without a message.
	reconcileEvery = 15 * time.Second
	retryPause     = time.Second
	callTimeout    = 5 * time.Second
)

// Store is what topics need of a store. Every store.Store is one.
type Store interface {
	store.Documents
	store.Messaging
	store.Limiting
	store.Figuring
}

// Options of New. Only Store has no default.
type Options struct {
	Store   Store
	Clock   job.Clock             // nil: the machine's
	Logger  *slog.Logger          // nil: none
	Metrics prometheus.Registerer // nil: nowhere
	// Emit reports events; nil: nowhere.
	Emit func(e ...events.Event)
}

// Manager changes topics and keeps a copy of them. Its methods are safe for concurrent use.
type Manager struct {
	o     Options
	docs  *documents.Collection[Topic]
	known *documents.Mirror[Topic, Topic]
	// limitsMu is held while the limits in the store are reconciled with the documents. It guards
	// inDoubt, the topics whose last SetLimits failed, and held, the limits of topics that
	// cannot be read, by name.
	limitsMu sync.Mutex
	inDoubt  map[string]bool
	held     map[string]held
	loaded   func() // closes isLoaded
	isLoaded chan struct{}
}

// New makes a Manager. It knows topics after AwaitLoad.
func New(o Options) (*Manager, error) {
	if o.Store == nil {
		return nil, errors.New("topics: Options.Store is missing")
	}
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Emit == nil {
		o.Emit = func(...events.Event) {}
	}
	m := &Manager{o: o, docs: collection(o.Store, o.Clock), inDoubt: map[string]bool{}, held: map[string]held{}, isLoaded: make(chan struct{})}
	m.loaded = sync.OnceFunc(func() { close(m.isLoaded) })
	m.known = documents.NewMirror(m.docs, m.know)
	return m, metered.Register(o.Metrics, "topics", gauges{m})
}

// Defaults returns the defaults of the topic's jobs, as far as this node knows; nil: there
// are none.
func (m *Manager) Defaults(topic string) *job.Defaults {
	t, ok := m.known.All()[topic]
	if !ok {
		return nil
	}
	return &t.Settings.Defaults
}

// Timeout returns the timeout that jobs of a topic get without one of their own, as far as this node
// knows; zero: the server's.
func (m *Manager) Timeout(topic string) time.Duration {
	return m.known.All()[topic].Settings.Defaults.Timeout
}

// Weight returns the weight of a topic, as far as this node knows.
func (m *Manager) Weight(topic string) int {
	t := m.known.All()[topic]
	return cmp.Or(t.InForce().Weight, store.DefaultWeight)
}

// Get reads one topic from the store.
func (m *Manager) Get(ctx context.Context, topic string) (Topic, error) {
	d, err := m.docs.Get(ctx, topic)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Topic{}, err
	}
	return d.Value, nil
}

// Known returns the topics with settings, limits or a state, by name, as far as this node knows.
// Callers must not change the map.
func (m *Manager) Known() map[string]Topic { return m.known.All() }

// Put replaces the settings of a topic; had: it had some. Errors: a *job.ValidationError, ErrTooMany,
// those of allow, or the store's, such as store.ErrNewer: an unreadable topic is not overwritten.
func (m *Manager) Put(ctx context.Context, topic string, s Settings, allow ...documents.Allow) (t Topic, had bool, err error) {
	if err := s.Check(); err != nil {
		return Topic{}, false, err
	}
	t, err = m.change(ctx, topic, allow, func(t *Topic) error {
		had, t.Settings = !t.Settings.Empty(), s
		return nil
	})
	return t, had, err
}

// Alter changes some settings of a topic and keeps the others; alter reports whether it changed any.
// The errors are those of Put.
func (m *Manager) Alter(ctx context.Context, topic string, alter func(*Settings) bool) (Topic, error) {
	return m.change(ctx, topic, nil, func(t *Topic) error {
		if !alter(&t.Settings) {
			return documents.ErrKept
		}
		return t.Settings.Check()
	})
}

// Delete removes the settings of a topic; ErrNotFound if it has none. Its state and the limits of operators stay.
func (m *Manager) Delete(ctx context.Context, topic string, allow ...documents.Allow) error {
	had := false
	_, err := m.change(ctx, topic, allow, func(t *Topic) error {
		had, t.Settings = !t.Settings.Empty(), Settings{}
		return nil
	})
	if err == nil && !had {
		return ErrNotFound
	}
	return err
}

// PutLimits replaces the limits of operators for a topic; had: there were some. The errors are those of Put.
func (m *Manager) PutLimits(ctx context.Context, topic string, l Limits, allow ...documents.Allow) (t Topic, had bool, err error) {
	if err := l.Check(); err != nil {
		return Topic{}, false, err
	}
	t, err = m.change(ctx, topic, allow, func(t *Topic) error {
		had, t.Limits = t.Limits != Limits{}, l
		return nil
	})
	return t, had, err
}

// DeleteLimits removes the limits of operators for a topic; ErrNoLimits if there are none.
func (m *Manager) DeleteLimits(ctx context.Context, topic string, allow ...documents.Allow) error {
	_, had, err := m.PutLimits(ctx, topic, Limits{}, allow...)
	if err == nil && !had {
		return ErrNoLimits
	}
	return err
}

// eventOf is the event of a state.
var eventOf = map[State]events.Type{
	Active: events.TopicResumed, Paused: events.TopicPaused, Draining: events.TopicDraining,
}

// SetState pauses, drains or resumes a topic. p is why; its Since is set. The error may be a
// *job.ValidationError.
func (m *Manager) SetState(ctx context.Context, topic string, s State, p job.Pause, allow ...documents.Allow) (Topic, error) {
	now, err := store.Now(ctx, m.o.Store)
	if err != nil {
		return Topic{}, fmt.Errorf("read the time: %w", err)
	}
	if err := p.Check(now); err != nil {
		return Topic{}, err
	}
	return m.turn(ctx, topic, s, now, allow, func(t *Topic) {
		p.Since = now
		if t.State == s && t.Pause != nil {
			p.Since = t.Pause.Since
		}
		if t.State, t.Pause = s, nil; s != Active {
			t.Pause = &p
		}
	})
}

// turn changes the state of a topic, and reports it if it is another one.
func (m *Manager) turn(ctx context.Context, topic string, s State, now job.Instant, allow []documents.Allow, alter func(t *Topic)) (Topic, error) {
	changed := false
	t, err := m.change(ctx, topic, allow, func(t *Topic) error {
		before := t.State
		alter(t)
		changed = before != t.State
		return nil
	})
	if err == nil && changed {
		m.o.Emit(events.Event{Type: eventOf[s], At: now, Topic: topic})
		m.o.Logger.InfoContext(ctx, "topic", "topic", topic, "state", s)
	}
	return t, err
}

// resumeDue resumes the topics whose pause is over. Their jobs go since then: the store has
// the time among the limits.
func (m *Manager) resumeDue(ctx context.Context) error {
	var over []string
	var now job.Instant
	for name, t := range m.Known() {
		if t.Newer || t.State != Paused || t.Pause == nil || t.Pause.Until == 0 {
			continue
		}
		if now == 0 {
			var err error
			if now, err = store.Now(ctx, m.o.Store); err != nil {
				return fmt.Errorf("read the time: %w", err)
			}
		}
		if t.over(now) {
			over = append(over, name)
		}
	}
	for _, name := range over {
		if _, err := m.turn(ctx, name, Active, now, nil, func(t *Topic) { *t = t.At(now) }); err != nil {
			return err
		}
	}
	return nil
}

// change applies alter by compare-and-swap, then has the limits obeyed. It may be
// repeated after an error.
func (m *Manager) change(ctx context.Context, topic string, allow []documents.Allow, alter func(t *Topic) error) (Topic, error) {
	var f job.Findings
	if !f.Check("topic", job.CheckName(topic)) {
		return Topic{}, f.Err()
	}
	d, err := m.docs.Update(ctx, topic, func(d *documents.Document[Topic]) error { return alter(&d.Value) }, allow...)
	if err != nil {
		return Topic{}, err
	}
	// The limits must reach the store even if the client has left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if err := m.obey(ctx, topic); err != nil {
		return Topic{}, err
	}
	if err := m.o.Store.Publish(ctx, channel, []byte(topic)); err != nil {
		m.o.Logger.WarnContext(ctx, "other nodes were not notified of a changed topic; they read it later", "topic", topic, "error", err)
	}
	return d.Value, nil
}

// obey sets the limits of a changed topic, until its document asks for no others.
func (m *Manager) obey(ctx context.Context, topic string) error {
	m.limitsMu.Lock()
	defer m.limitsMu.Unlock()
	var set *store.Limits
	for range store.Tries(ctx) {
		if err := m.known.Read(ctx, topic); err != nil {
			return err
		}
		t := m.Known()[topic]
		if t.Newer { // its node sets the limits
			return nil
		}
		l := t.limits()
		if set != nil && *set == l {
			return nil
		}
		if err := m.setLimits(ctx, topic, l); err != nil {
			return err
		}
		set = &l
	}
	return ctx.Err() // nil: each further change sets its limits itself
}

// setLimits sets the limits of a topic. The caller holds limitsMu.
func (m *Manager) setLimits(ctx context.Context, topic string, l store.Limits) error {
	m.inDoubt[topic] = true
	if err := m.o.Store.SetLimits(ctx, topic, l); err != nil {
		return fmt.Errorf("set the limits of the topic %s: %w", topic, err)
	}
	delete(m.inDoubt, topic)
	return nil
}

// know returns the topic of a document. One that cannot be read stays as it was before.
func (m *Manager) know(d *documents.Document[Topic], old Topic) Topic {
	t := topicOf(d)
	if d.Err == nil {
		return t
	}
	if !old.Newer {
		m.o.Logger.Error("settings of a topic cannot be read; its limits stay", "topic", d.Name, "error", d.Err)
	}
	if old.Name != "" {
		t, t.Newer = old, true
	}
	return t
}

// Reconcile reads the topics, and sets the limits that the store does not have yet.
func (m *Manager) Reconcile(ctx context.Context) error {
	err := m.reconcile(ctx)
	if err == nil {
		m.loaded()
	}
	return err
}

func (m *Manager) reconcile(ctx context.Context) error {
	m.limitsMu.Lock()
	defer m.limitsMu.Unlock()
	// Topics may change between reading them and setting limits, so this repeats until
	// there is nothing to set.
	for range store.Tries(ctx) {
		// A change writes the topic before its limits. Read in the opposite order, limits
		// that have no topic are left over, and not those of a change in progress.
		obeyed, err := listing.Limits(ctx, m.o.Store)
		if err != nil {
			return fmt.Errorf("read the limits of topics: %w", err)
		}
		if err := m.known.Refresh(ctx); err != nil {
			return err
		}
		set, err := m.setDifferent(ctx, m.Known(), obeyed)
		if err != nil {
			return err
		}
		if !set {
			return nil
		}
	}
	return ctx.Err() // nil: each further change sets its limits itself
}

// setDifferent sets the limits that differ from the obeyed ones, and reports whether there
// were any.
func (m *Manager) setDifferent(ctx context.Context, all map[string]Topic, obeyed map[string]store.Limits) (changed bool, err error) {
	set := func(topic string, l store.Limits) error {
		changed = true
		return m.setLimits(ctx, topic, l)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t := all[name]
		l := t.limits()
		now, some := obeyed[name] // zero ones are not the same in all shards
		if t.Newer {
			delete(obeyed, name)
			if l, lost := m.holdOn(&t, now, some); lost {
				if err := set(name, l); err != nil {
					return changed, err
				}
			}
			continue
		}
		if now != l || some && now == (store.Limits{}) || m.inDoubt[name] {
			if err := set(name, l); err != nil {
				return changed, err
			}
		}
		delete(obeyed, name)
	}
	maps.DeleteFunc(m.held, func(name string, _ held) bool { return !all[name].Newer })
	for name := range m.inDoubt {
		if _, kept := all[name]; !kept {
			obeyed[name] = store.Limits{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(obeyed)) {
		if err := set(name, store.Limits{}); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// held are the limits in force of a topic that cannot be read.
type held struct {
	limits store.Limits
	// guessed: the store had no limits, and the readable part of the topic was set. This
	// happens once, because a node that can read the topic may set other limits.
	guessed bool
}

// holdOn returns the limits that an unreadable topic has lost, if it has: those in force
// until now, or as far as they can be read. It does not change other limits.
func (m *Manager) holdOn(t *Topic, now store.Limits, some bool) (_ store.Limits, lost bool) {
	h, seen := m.held[t.Name]
	switch {
	case some && !h.guessed:
		m.held[t.Name] = held{limits: now}
		return now, false
	case some || h.guessed:
		return now, false
	case seen:
		return h.limits, true
	}
	m.held[t.Name] = held{guessed: true}
	return t.limits(), t.limits() != store.Limits{}
}
