package signing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// MaxOverlap bounds how long replaced secrets can go on signing.
const MaxOverlap = 30 * 24 * time.Hour

// changeTimeout bounds all that one change asks of the store.
const changeTimeout = 5 * time.Second

// ErrConfigured says that the default secret comes from the settings, so that
// it is changed there.
var ErrConfigured = errors.New("the default signing secret is set by the configuration")

// Source says where the secrets that sign for a topic come from.
type Source string

// The sources.
const (
	SourceTopic    Source = "topic"    // the topic has its own
	SourceDefault  Source = "default"  // the default, made or set by us
	SourceSettings Source = "settings" // the default that the settings name
)

// Info describes the secrets that sign for a topic, without the secrets.
type Info struct {
	Topic   string // empty: the default
	Source  Source
	Secrets []SecretInfo // newest first
}

// SecretInfo describes one secret.
type SecretInfo struct {
	ID string
	// CreatedAt is when it was made or set; zero when the settings name it.
	CreatedAt job.Instant
	// EndsAt is when it stops signing; zero for the current one.
	EndsAt job.Instant
}

func (r ring) info(topic string, source Source) Info {
	info := Info{Topic: topic, Source: source, Secrets: []SecretInfo{}}
	for _, s := range r {
		info.Secrets = append(info.Secrets, SecretInfo{ID: s.secret.ID(), CreatedAt: s.created, EndsAt: s.ends})
	}
	return info
}

// Change describes what a change made of a topic's secrets.
type Change struct {
	Info
	// First says that the topic, or the default, had none of its own before.
	First bool
}

// EnsureDefault sees to it that there is a default secret: the configured ones
// (as ParseSecrets reads them), or else the one kept in the store, or else a
// new one. Nodes that start at the same time agree on one. The node that made
// it gets it back, in its text form, to show it, also when it asks again after a
// failure; the others get "". The error wraps ErrMasterKey when the one in the store cannot be opened.
func (k *Keyring) EnsureDefault(ctx context.Context, configured string) (made string, err error) {
	if configured == "" {
		return k.makeDefault(ctx)
	}
	secrets, err := ParseSecrets(configured)
	if err != nil {
		return "", err
	}
	r, err := configuredRing(secrets)
	if err != nil {
		return "", err
	}
	k.configured.Store(&r)
	return "", nil
}

func (k *Keyring) makeDefault(ctx context.Context) (made string, err error) {
	secret := k.candidate
	err = k.change(ctx, "", func(_ context.Context, d *stored, kept ring) (ring, error) {
		made = ""
		if d.Version != 0 {
			if kept[0].secret == secret { // our own write came first: its answer was lost
				made = secret.Reveal()
			}
			return nil, documents.ErrKept
		}
		made = secret.Reveal()
		return ring(nil).replaced(secret, job.InstantOf(k.clock.Now()), 0)
	})
	if err != nil {
		made = ""
	}
	return made, err
}

// Info describes the secrets that sign for a topic now; "" is the default.
func (k *Keyring) Info(ctx context.Context, topic string) (Info, error) {
	if bad := checkTopic(topic); bad != nil {
		return Info{}, &job.ValidationError{Fields: bad}
	}
	r, source, err := k.effective(ctx, topic)
	if err != nil {
		return Info{}, err
	}
	return r.at(job.InstantOf(k.clock.Now())).info(topic, source), nil
}

// Set makes secret the one that signs for the topic; "" is the default. Those
// that signed before, be they the topic's or the default's, sign beside it
// until overlap has passed: none does with an overlap of zero. Setting the
// same secret again changes nothing but overlaps that would end later. A
// *job.ValidationError says what is wrong with the arguments. Other errors wrap
// ErrConfigured, ErrTooManySecrets, ErrNoMasterKey, ErrMasterKey or ErrDamaged,
// or are the store's.
func (k *Keyring) Set(ctx context.Context, topic, secret string, overlap time.Duration) (Change, error) {
	bad := checkChange(topic, overlap)
	s, err := ParseSecret(secret)
	if err != nil {
		bad = append(bad, job.FieldError{Field: "secret", Message: err.Error()})
	}
	if len(bad) > 0 {
		return Change{}, &job.ValidationError{Fields: bad}
	}
	return k.replace(ctx, topic, s, overlap)
}

// Rotate is Set with a new random secret, which it returns in its text form.
// It cannot be had again later.
func (k *Keyring) Rotate(ctx context.Context, topic string, overlap time.Duration) (string, Change, error) {
	if bad := checkChange(topic, overlap); len(bad) > 0 {
		return "", Change{}, &job.ValidationError{Fields: bad}
	}
	s := NewSecret()
	change, err := k.replace(ctx, topic, s, overlap)
	if err != nil {
		return "", Change{}, err
	}
	return s.Reveal(), change, nil
}

func (k *Keyring) replace(ctx context.Context, topic string, s Secret, overlap time.Duration) (Change, error) {
	var change Change
	if topic == "" && k.configured.Load() != nil {
		return change, ErrConfigured
	}
	err := k.change(ctx, topic, func(ctx context.Context, d *stored, old ring) (ring, error) {
		first := d.Version == 0
		if first && topic != "" { // the default signed before
			var err error
			if old, _, err = k.effective(ctx, ""); err != nil && !errors.Is(err, ErrNoSecret) {
				return nil, err
			}
		}
		next, err := old.replaced(s, job.InstantOf(k.clock.Now()), overlap)
		if err != nil {
			return nil, err
		}
		change = Change{Info: next.info(topic, sourceOf(topic)), First: first}
		if !first && next.same(old) {
			return old, documents.ErrKept
		}
		return next, nil
	})
	return change, err
}

func sourceOf(topic string) Source {
	if topic == "" {
		return SourceDefault
	}
	return SourceTopic
}

// Delete takes a topic's own secrets away at once, also those that cannot be
// opened; the default signs for it from then on. ErrNoSecret when it has none.
func (k *Keyring) Delete(ctx context.Context, topic string) error {
	if bad := checkName(topic); bad != nil {
		return &job.ValidationError{Fields: bad}
	}
	return k.alone(ctx, func(ctx context.Context) error {
		err := k.topics.Remove(ctx, topic, func(*stored) error { return nil })
		if errors.Is(err, store.ErrNotFound) {
			err = fmt.Errorf("topic %q has %w of its own", topic, ErrNoSecret)
		}
		if err == nil || errors.Is(err, ErrNoSecret) {
			k.learn(topic, nil, nil)
		}
		return err
	})
}

// Reseal seals with the first master key what another sealed, and returns how
// many documents it did. What cannot be opened is left as it is and makes an
// error; the rest is done all the same.
func (k *Keyring) Reseal(ctx context.Context) (int, error) {
	docs, err := k.topics.List(ctx)
	if err != nil {
		return 0, err
	}
	topics := []string{""}
	for _, d := range docs {
		topics = append(topics, d.Name)
	}
	done, failed := 0, []error(nil)
	for _, topic := range topics {
		resealed := false
		err := k.change(ctx, topic, func(_ context.Context, d *stored, r ring) (ring, error) {
			if resealed = d.Version != 0 && !k.sealer.upToDate(d.Data); !resealed {
				return nil, documents.ErrKept
			}
			return r, nil
		})
		if err != nil {
			failed = append(failed, err)
		} else if resealed {
			done++
		}
	}
	return done, errors.Join(failed...)
}

// change replaces the secrets of a topic, "" for the default, by compare-and-swap. to
// gets those that there are; the document has the version 0 if there are none.
func (k *Keyring) change(ctx context.Context, topic string, to func(ctx context.Context, d *stored, r ring) (ring, error)) error {
	return k.alone(ctx, func(ctx context.Context) error {
		var next ring
		docs, name := k.place(topic)
		d, err := docs.Update(ctx, name, func(d *stored) (err error) {
			var old ring
			if d.Version != 0 {
				if old, err = ringOf(d); err != nil {
					return err
				}
			}
			next, err = to(ctx, d, old)
			d.Value = next.kept()
			return err
		})
		if d.Err != nil {
			_, err = ringOf(&d)
		}
		if err == nil && next != nil {
			k.learn(topic, d.Data, next)
		}
		return err
	})
}

// alone makes one change, with the turn.
func (k *Keyring) alone(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	if err := k.turn.take(ctx); err != nil {
		return fmt.Errorf("changing signing secrets: %w", err)
	}
	defer k.turn.pass()
	return do(ctx)
}

// effective returns the ring that signs for the topic, from the store.
func (k *Keyring) effective(ctx context.Context, topic string) (ring, Source, error) {
	if configured := k.configured.Load(); configured != nil && topic == "" {
		return *configured, SourceSettings, nil
	}
	docs, name := k.place(topic)
	d, err := docs.Get(ctx, name)
	switch {
	case d.Version != 0:
		r, err := ringOf(&d)
		return r, sourceOf(topic), err
	case !errors.Is(err, store.ErrNotFound):
		return nil, "", err
	case topic == "":
		return nil, "", ErrNoSecret
	}
	return k.effective(ctx, "")
}

func checkChange(topic string, overlap time.Duration) []job.FieldError {
	bad := checkTopic(topic)
	if overlap < 0 || overlap > MaxOverlap {
		bad = append(bad, job.FieldError{
			Field: "overlap", Message: "must be from 0 to " + job.FormatDuration(MaxOverlap),
		})
	}
	return bad
}

// checkTopic takes the names of topics, and "" for the default.
func checkTopic(topic string) []job.FieldError {
	if topic == "" {
		return nil
	}
	return checkName(topic)
}

func checkName(topic string) []job.FieldError {
	if err := job.CheckName(topic); err != nil {
		return []job.FieldError{{Field: "topic", Message: err.Error()}}
	}
	return nil
}
