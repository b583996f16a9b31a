package topics

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
)

// Errors on which callers decide.
var (
	// ErrNotFound: the topic has no settings.
	ErrNotFound = errors.New("the topic has no settings")
	// ErrNoLimits: operators set no limits for the topic.
	ErrNoLimits = errors.New("operators set no limits for the topic")
	// ErrTooMany: MaxTopics have settings or a state, or they take MaxAllBytes.
	ErrTooMany = errors.New("too many topics")
)

// Bounds of all topics with settings or a state together.
const (
	MaxTopics   = 10_000
	MaxAllBytes = 16 << 20
)

// Bounds of settings.
const (
	MaxCapacity    = 1_000_000_000
	MaxRate        = 100_000
	MinRate        = 0.001 // one delivery in 1000 seconds
	MaxConcurrency = 100_000
	MaxWeight      = 100
)

// State is whether a topic takes jobs in and delivers them.
type State string

// The states.
const (
	Active   State = "active"
	Paused   State = "paused"   // jobs are taken in, none is delivered
	Draining State = "draining" // jobs are delivered, none is taken in
)

var states = []State{Active, Paused, Draining}

// OnDead is the effect of a dead letter on its order key.
type OnDead string

// The values of OnDead; empty is OnDeadContinue.
const (
	OnDeadContinue OnDead = "continue" // the next job of the key goes
	OnDeadStop     OnDead = "stop"     // the others wait until it is replayed or discarded
)

// Limits are limits of a topic. Zero values mean none.
type Limits struct {
	Capacity    int     `json:"capacity,omitempty"`    // most unfinished jobs
	Rate        float64 `json:"rate,omitempty"`        // most deliveries per second
	Concurrency int     `json:"concurrency,omitempty"` // most deliveries at a time
	Weight      int     `json:"weight,omitempty"`      // share among all topics
}

func (l *Limits) check(f *job.Findings) {
	within := func(field job.Field, value, least, most float64) {
		if value != 0 && (value < least || value > most) {
			f.Add(field, fmt.Sprintf("must be from %v to %.0f; leave it out for the default", least, most))
		}
	}
	within("capacity", float64(l.Capacity), 1, MaxCapacity)
	within("rate", l.Rate, MinRate, MaxRate)
	within("concurrency", float64(l.Concurrency), 1, MaxConcurrency)
	within("weight", float64(l.Weight), 1, MaxWeight)
}

// Check returns nil or a *job.ValidationError.
func (l *Limits) Check() error {
	var f job.Findings
	l.check(&f)
	return f.Err()
}

// beside are the limits that hold where both are set: the smaller of each.
func (l Limits) beside(other Limits) Limits {
	return Limits{
		Capacity: smaller(l.Capacity, other.Capacity), Rate: smaller(l.Rate, other.Rate),
		Concurrency: smaller(l.Concurrency, other.Concurrency), Weight: smaller(l.Weight, other.Weight),
	}
}

// smaller is the smaller of two limits, of which zero is none.
func smaller[T int | float64](a, b T) T {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Settings are the settings of a topic. Zero values mean none.
type Settings struct {
	Limits
	OnDead   OnDead       `json:"on_dead,omitempty"` // what a dead letter does to its order key
	Defaults job.Defaults `json:"defaults"`
}

// Empty reports whether nothing is set.
func (s *Settings) Empty() bool {
	return s.Limits == Limits{} && s.OnDead == "" && s.Defaults.Empty()
}

// Shown is what a caller may see of the settings.
func (s Settings) Shown(to access.Sight) Settings {
	to.Defaults(&s.Defaults)
	return s
}

// Check returns nil or a *job.ValidationError.
func (s *Settings) Check() error {
	var f job.Findings
	s.check(&f)
	if s.OnDead != "" && s.OnDead != OnDeadContinue && s.OnDead != OnDeadStop {
		f.Add("on_dead", `must be "continue" or "stop"`)
	}
	return f.Err()
}

// Topic is a topic with settings, limits or a state.
type Topic struct {
	Name string `json:"-"`
	documents.Stamp
	Settings Settings `json:"settings"`
	// Limits are those of operators. They hold beside those of the settings, and outlive them.
	Limits Limits `json:"limits,omitzero"`
	State  State  `json:"state"`
	// Pause is since when and why a topic is paused or draining; nil for an active one. Only
	// a paused one has a time at which that ends.
	Pause *job.Pause `json:"pause,omitempty"`
	// Newer: a newer version wrote the topic. The other fields have their known or readable
	// values.
	Newer bool `json:"-"`
}

// none is an active topic without settings.
func none(name string) Topic { return Topic{Name: name, State: Active} }

// Plain reports whether the topic is active and has neither settings nor limits.
func (t *Topic) Plain() bool {
	return t.State == Active && t.Settings.Empty() && t.Limits == Limits{}
}

// InForce are the limits that hold: of the settings and of operators the smaller ones.
func (t *Topic) InForce() Limits { return t.Limits.beside(t.Settings.Limits) }

// At is the topic at a time of the store: a pause may have ended by itself.
func (t Topic) At(now job.Instant) Topic {
	if t.over(now) {
		t.State, t.Pause = Active, nil
	}
	return t
}

func (t *Topic) over(now job.Instant) bool {
	return t.State == Paused && t.Pause != nil && t.Pause.Over(now)
}

// limits are the limits for the store.
func (t *Topic) limits() store.Limits {
	is := t.InForce()
	l := store.Limits{
		Paused: t.State == Paused, Draining: t.State == Draining,
		Capacity: is.Capacity, Rate: is.Rate, Concurrency: is.Concurrency, Weight: is.Weight,
		StopOnDead: t.Settings.OnDead == OnDeadStop,
	}
	if l.Paused && t.Pause != nil {
		l.PausedUntil = t.Pause.Until
	}
	return l
}

// documentKind is the kind of documents that are topics, by their names.
const documentKind = "topic"

// collection returns the documents of topics.
func collection(s store.Documents, clock job.Clock) *documents.Collection[Topic] {
	return documents.New(documents.Options[Topic]{
		Store: s, Kind: documentKind, New: none, Blank: (*Topic).Plain, Max: MaxTopics, MaxBytes: MaxAllBytes, Full: ErrTooMany, Clock: clock,
		Stamp: func(t *Topic) *documents.Stamp { return &t.Stamp },
		Check: func(t *Topic) error {
			if !slices.Contains(states, t.State) {
				return fmt.Errorf("unknown state %q", t.State)
			}
			return nil
		},
	})
}

// topicOf returns the topic of a document, as far as it can be read. A topic of unknown
// state is paused.
func topicOf(d *documents.Document[Topic]) Topic {
	t := d.Value
	if d.Err != nil {
		t.Newer = true
		if !json.Valid(d.Data) || !slices.Contains(states, t.State) {
			t.State = Paused
		}
	}
	return t
}
