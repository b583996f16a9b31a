package signing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

const (
	// MaxOverlap bounds how long replaced secrets continue to sign.
	MaxOverlap = 30 * 24 * time.Hour
	// DefaultOverlap is for clients that rotate a secret and do not say how long.
	DefaultOverlap = 24 * time.Hour
)

// ErrConfigured reports that the settings define the default secret, so only they can change it.
var ErrConfigured = errors.New("the default signing secret is set by the configuration")

// Source is where the secrets of a topic come from.
type Source string

// The sources.
const (
	SourceTopic    Source = "topic"    // the topic has its own
	SourceDefault  Source = "default"  // the stored default
	SourceSettings Source = "settings" // the default of the settings
)

// Info describes the secrets of a topic without revealing them.
type Info struct {
	documents.Stamp        // zero if the topic has none of its own, and for those of the settings
	Topic           string // empty: the default
	Source          Source
	Secrets         []SecretInfo // newest first
}

// SecretInfo describes one secret.
type SecretInfo struct {
	ID string
	// CreatedAt is zero for secrets of the settings.
	CreatedAt job.Instant
	// EndsAt is when it stops signing; zero for the current one.
	EndsAt job.Instant
}

func (v *stored) info(topic string, source Source) Info {
	info := Info{Stamp: v.Stamp, Topic: topic, Source: source, Secrets: []SecretInfo{}}
	for _, s := range v.Secrets {
		info.Secrets = append(info.Secrets, SecretInfo{ID: s.secret.ID(), CreatedAt: s.created, EndsAt: s.ends})
	}
	return info
}

// Change describes a topic's secrets after a change.
type Change struct {
	Info
	// Secret is the text form of the current secret. No later call returns it.
	Secret string
	// First: the topic, or the default, had no secrets before.
	First bool
}

// DefaultOf returns the text form of the default secret of a store that has none: it follows from the
// first master key.
func DefaultOf(key documents.MasterKey) string { return defaultOf(key).Reveal() }

func defaultOf(key documents.MasterKey) Secret {
	return Secret{key: string(key.Derive("duehook default signing secret", newSecretBytes))}
}

// EnsureDefault ensures that a default secret is stored: that of the first master key, unless
// there is one. Nodes that start at the same time agree on one. handOut gets its text form before the
// store does. The error wraps documents.ErrMasterKey if the stored secrets cannot be opened, or is that of
// handOut; nothing was stored then.
func (s *Secrets) EnsureDefault(ctx context.Context, handOut func(secret string) error) error {
	_, err := s.ring.Ensure(ctx, defaultName, func() (v stored, err error) {
		key, ok := s.seal.First()
		if !ok {
			return v, documents.ErrNoMasterKey
		}
		v.Secrets = ring{newRingSecret(defaultOf(key), s.now(), 0)}
		return v, handOut(DefaultOf(key))
	})
	return err
}

// Info describes the secrets that sign for a topic; "" is the default.
func (s *Secrets) Info(ctx context.Context, topic string) (Info, error) {
	var f job.Findings
	if checkTopic(&f, topic); f.Err() != nil {
		return Info{}, f.Err()
	}
	v, err := s.own(ctx, topic)
	source := sourceOf(topic)
	if topic != "" && errors.Is(err, ErrNoSecret) {
		source = SourceDefault
		v, err = s.own(ctx, "")
		v.Stamp = documents.Stamp{}
	}
	if err != nil {
		return Info{}, err
	}
	if source == SourceDefault && s.configured != nil {
		source = SourceSettings
	}
	v.Secrets = v.Secrets.at(s.now())
	return v.info(topic, source), nil
}

// Replace replaces the secret of a topic; "" is the default. An empty secret stands for a new random one.
// The secrets that signed for the topic before continue to sign beside it for the overlap. Setting the
// current secret again only ends later overlaps. All of allow must accept the secrets of before. A
// *job.ValidationError reports invalid arguments. Other errors wrap ErrConfigured,
// ErrTooManySecrets, ErrTooManyTopics, documents.ErrNoMasterKey, ErrMasterKey or ErrDamaged, or are those of
// allow or the store.
func (s *Secrets) Replace(ctx context.Context, topic, secret string, overlap time.Duration, allow ...documents.Allow) (Change, error) {
	next, err := NewSecret(), error(nil)
	if secret != "" {
		next, err = ParseSecret(secret)
	}
	var f job.Findings
	checkTopic(&f, topic)
	f.Duration("overlap", &overlap, 0, 0, MaxOverlap)
	f.Check("secret", err)
	switch {
	case f.Err() != nil:
		return Change{}, f.Err()
	case topic == "" && s.configured != nil:
		return Change{}, ErrConfigured
	}
	first := false
	d, err := s.ring.Update(ctx, documentName(topic), func(d *documents.Document[stored]) error {
		old := d.Value.Secrets
		if first = d.Version == 0; first && topic != "" { // the default signed before
			def, err := s.own(ctx, "")
			if err != nil && !errors.Is(err, ErrNoSecret) {
				return err
			}
			old = def.Secrets
		}
		replaced, err := old.replaced(next, s.now(), overlap)
		if err != nil {
			return err
		}
		if !first && replaced.same(old) {
			return documents.ErrKept
		}
		d.Value.Secrets = replaced
		return nil
	}, allow...)
	if err != nil {
		return Change{}, err
	}
	return Change{Info: d.Value.info(topic, sourceOf(topic)), Secret: next.Reveal(), First: first}, nil
}

func sourceOf(topic string) Source {
	if topic == "" {
		return SourceDefault
	}
	return SourceTopic
}

// Delete deletes a topic's own secrets, also damaged ones. The default then signs for
// the topic. The error is ErrNoSecret if the topic has none, or that of allow.
func (s *Secrets) Delete(ctx context.Context, topic string, allow ...documents.Allow) error {
	if err := job.CheckName(topic); err != nil {
		return job.Invalid("topic", err.Error())
	}
	err := s.ring.Remove(ctx, topic, allow...)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("topic %q has %w of its own", topic, ErrNoSecret)
	}
	return err
}

// own returns the secrets of a topic, or the default ones for "". The error is ErrNoSecret if there are none.
func (s *Secrets) own(ctx context.Context, topic string) (stored, error) {
	if s.configured != nil && topic == "" {
		return stored{Secrets: s.configured}, nil
	}
	d, err := s.ring.Get(ctx, documentName(topic))
	return d.Value, err
}

// checkTopic accepts names of topics, and "" for the default.
func checkTopic(f *job.Findings, topic string) {
	if topic != "" {
		f.Check("topic", job.CheckName(topic))
	}
}
