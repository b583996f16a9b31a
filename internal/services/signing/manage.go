package signing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/store"
)

const (
	// MaxOverlap bounds how long replaced secrets continue to sign.
	MaxOverlap = 30 * 24 * time.Hour
	// DefaultOverlap is for clients that rotate a secret and do not say how long.
	DefaultOverlap = 24 * time.Hour
)

// changeTimeout bounds all calls of the store for one change.
const changeTimeout = 5 * time.Second

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

func (r ring) info(topic string, source Source) Info {
	info := Info{Topic: topic, Source: source, Secrets: []SecretInfo{}}
	for _, s := range r {
		info.Secrets = append(info.Secrets, SecretInfo{ID: s.secret.ID(), CreatedAt: s.created, EndsAt: s.ends})
	}
	return info
}

// Change describes a topic's secrets after a change.
type Change struct {
	Info
	// First: the topic, or the default, had no secrets before.
	First bool
}

// EnsureDefault ensures that a default secret is stored: that of the first master key, unless
// there is one. Nodes that start at the same time agree on one. The error wraps ErrMasterKey if the
// stored secrets cannot be opened, or is that of Options.MissingMasterKey or Options.HandOut; nothing
// was stored then.
func (k *Keyring) EnsureDefault(ctx context.Context) error {
	if err := k.completeKeys(ctx); err != nil {
		return err
	}
	_, err := k.change(ctx, "", func(d *stored, kept ring) (ring, error) {
		if d.Version != 0 {
			return nil, documents.ErrKept
		}
		keys := *k.keys.Load()
		if len(keys) == 0 {
			return nil, ErrNoMasterKey
		}
		if err := k.handOut(keys[0].secret.Reveal()); err != nil {
			return nil, err
		}
		return kept.replaced(keys[0].secret, k.now(), 0)
	})
	return err
}

// MadeDefault is the text form of the default that EnsureDefault stores if there is none; empty
// without a master key.
func (k *Keyring) MadeDefault() string {
	if keys := *k.keys.Load(); len(keys) > 0 {
		return keys[0].secret.Reveal()
	}
	return ""
}

// completeKeys gets a missing master key. If secrets are stored, they need one that exists.
func (k *Keyring) completeKeys(ctx context.Context) error {
	if len(*k.keys.Load()) > 0 || k.missingKey == nil {
		return nil
	}
	docs, err := k.docs.List(ctx)
	if err != nil {
		return err
	}
	key, err := k.missingKey(len(docs) == 0)
	if err == nil {
		k.keys.Store(&sealer{key})
	}
	return err
}

// Info describes the secrets that sign for a topic; "" is the default.
func (k *Keyring) Info(ctx context.Context, topic string) (Info, error) {
	var f job.Findings
	if checkTopic(&f, topic); f.Err() != nil {
		return Info{}, f.Err()
	}
	d, r, err := k.own(ctx, topic)
	source := sourceOf(topic)
	if topic != "" && errors.Is(err, ErrNoSecret) {
		d, source = stored{}, SourceDefault
		_, r, err = k.own(ctx, "")
	}
	if err != nil {
		return Info{}, err
	}
	if source == SourceDefault && k.configured != nil {
		source = SourceSettings
	}
	info := r.at(k.now()).info(topic, source)
	info.Stamp = d.Value.Stamp
	return info, nil
}

// Set replaces the secret of a topic; "" is the default. The secrets that signed for the
// topic before continue to sign beside it for the overlap. Setting the current secret
// again only ends later overlaps. All of allow must accept the secrets of before. A
// *job.ValidationError reports invalid arguments. Other errors wrap ErrConfigured,
// ErrTooManySecrets, ErrTooManyTopics, ErrNoMasterKey, ErrMasterKey or ErrDamaged, or are those of
// allow or the store.
func (k *Keyring) Set(ctx context.Context, topic, secret string, overlap time.Duration, allow ...documents.Allow) (Change, error) {
	var f job.Findings
	checkChange(&f, topic, overlap)
	s, err := ParseSecret(secret)
	if f.Check("secret", err); f.Err() != nil {
		return Change{}, f.Err()
	}
	return k.replace(ctx, topic, s, overlap, allow)
}

// Rotate is Set with a new random secret. It returns the text form of the secret, which
// no later call does.
func (k *Keyring) Rotate(ctx context.Context, topic string, overlap time.Duration, allow ...documents.Allow) (string, Change, error) {
	var f job.Findings
	if checkChange(&f, topic, overlap); f.Err() != nil {
		return "", Change{}, f.Err()
	}
	s := NewSecret()
	change, err := k.replace(ctx, topic, s, overlap, allow)
	if err != nil {
		return "", Change{}, err
	}
	return s.Reveal(), change, nil
}

func (k *Keyring) replace(ctx context.Context, topic string, s Secret, overlap time.Duration, allow []documents.Allow) (Change, error) {
	var change Change
	if topic == "" && k.configured != nil {
		return change, ErrConfigured
	}
	d, err := k.change(ctx, topic, func(d *stored, old ring) (ring, error) {
		first := d.Version == 0
		if first && topic != "" { // the default signed before
			var err error
			if _, old, err = k.own(ctx, ""); err != nil && !errors.Is(err, ErrNoSecret) {
				return nil, err
			}
		}
		next, err := old.replaced(s, k.now(), overlap)
		if err != nil {
			return nil, err
		}
		change = Change{Info: next.info(topic, sourceOf(topic)), First: first}
		if !first && next.same(old) {
			return old, documents.ErrKept
		}
		return next, nil
	}, allow...)
	change.Stamp = d.Value.Stamp
	return change, err
}

func sourceOf(topic string) Source {
	if topic == "" {
		return SourceDefault
	}
	return SourceTopic
}

// Delete deletes a topic's own secrets, also damaged ones. The default then signs for
// the topic. The error is ErrNoSecret if the topic has none, or that of allow.
func (k *Keyring) Delete(ctx context.Context, topic string, allow ...documents.Allow) error {
	if err := job.CheckName(topic); err != nil {
		return job.Invalid("topic", err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	err := k.docs.Remove(ctx, topic, allow...)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("topic %q has %w of its own", topic, ErrNoSecret)
	}
	if err == nil || errors.Is(err, ErrNoSecret) {
		k.known.Keep(&stored{Head: documents.Head{Name: topic}})
	}
	return err
}

// Reseal encrypts all documents with the first master key, and returns how many it
// changed. Documents that cannot be opened stay as they are and cause an error; the
// others are resealed.
func (k *Keyring) Reseal(ctx context.Context) (int, error) {
	docs, err := k.docs.List(ctx)
	if err != nil {
		return 0, err
	}
	done, failed := 0, []error(nil)
	for i := range docs {
		resealed, err := k.docs.Rewrite(ctx, docs[i].Name, k.sealedBefore)
		if errors.Is(err, store.ErrNewer) {
			err = errNoList
		}
		if failed = append(failed, err); resealed {
			done++
		}
	}
	return done, errors.Join(failed...)
}

// sealedBefore reports whether a document is sealed with another key than the first one.
func (k *Keyring) sealedBefore(data []byte) bool { return !k.keys.Load().upToDate(data) }

// change replaces the secrets of a topic, "" for the default, and returns their document. to gets
// the current ones; without any, the document has version 0.
func (k *Keyring) change(ctx context.Context, topic string, to func(d *stored, r ring) (ring, error), allow ...documents.Allow) (stored, error) {
	return k.update(ctx, documentName(topic), func(d *stored) (err error) {
		var old ring
		if d.Version != 0 {
			if old, err = ringOf(d); err != nil {
				return err
			}
		}
		next, err := to(d, old)
		d.Value.Secrets = next.kept()
		return err
	}, allow...)
}

// update changes a document by compare-and-swap.
func (k *Keyring) update(ctx context.Context, name string, to func(d *stored) error, allow ...documents.Allow) (stored, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	d, err := k.docs.Update(ctx, name, to, allow...)
	if d.Err != nil {
		_, err = ringOf(&d)
	}
	if err == nil {
		// What another call has written meanwhile counts. After an error, Run reads it.
		_ = k.known.Read(ctx, name)
	}
	return d, err
}

// own returns the secrets of a topic, or the default ones for "", and their document; that is empty
// for the default of the settings. The error is ErrNoSecret if there are none.
func (k *Keyring) own(ctx context.Context, topic string) (stored, ring, error) {
	if k.configured != nil && topic == "" {
		return stored{}, k.configured, nil
	}
	d, err := k.docs.Get(ctx, documentName(topic))
	if d.Version != 0 {
		r, err := ringOf(&d)
		return d, r, err
	}
	return stored{}, nil, err
}

func checkChange(f *job.Findings, topic string, overlap time.Duration) {
	checkTopic(f, topic)
	f.Duration("overlap", &overlap, 0, 0, MaxOverlap)
}

// checkTopic accepts names of topics, and "" for the default.
func checkTopic(f *job.Findings, topic string) {
	if topic != "" {
		f.Check("topic", job.CheckName(topic))
	}
}
