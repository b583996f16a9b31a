package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// documentKind is the kind of documents that are keys; their names are ids.
const documentKind = "apikey"

// Draft is a requested key, with texts in the form of ParseKeys.
type Draft struct {
	Name      string // optional
	Scope     string
	ExpiresAt string // empty: never
	Rate      string // empty: the node's default
	// Topics are patterns of job.TopicSet; nil: the key is for all topics.
	Topics []string
}

// Key makes a key and its token. The error is a *job.ValidationError.
func (d Draft) Key(namespace string, now job.Instant) (Token, Key, error) {
	k := Key{Namespace: namespace}
	var f job.Findings
	read := func(field job.Field, name, value string) { f.Check(field, keyFields[name](&k, value)) }
	read("scope", "scope", d.Scope)
	if d.Name != "" {
		read("name", "name", d.Name)
	}
	if d.Rate != "" {
		read("rate", "rate", d.Rate)
	}
	if d.ExpiresAt != "" {
		read("expires_at", "expires", d.ExpiresAt)
		if k.Expired(now) {
			f.Add("expires_at", "must be in the future")
		}
	}
	d.readTopics(&k, &f)
	if err := f.Err(); err != nil {
		return Token{}, Key{}, err
	}
	t := newToken()
	k.ID, k.Digest = t.id(), t.digest()
	return t, k, nil
}

func (d Draft) readTopics(k *Key, f *job.Findings) {
	switch {
	case d.Topics != nil && len(d.Topics) == 0:
		f.Add("topics", "must name at least one topic; leave it out for all of them")
	case len(d.Topics) > job.MaxTopicSet:
		f.Add("topics", fmt.Sprintf("must have at most %d topics", job.MaxTopicSet))
	default:
		for _, pattern := range d.Topics {
			f.Check("topics", addTopic(k, pattern))
		}
	}
}

// Create creates a key of this node's namespace and stores it. It is valid on this node at
// once, on the others within documents.Freshness. Nothing stores the token. Errors: a
// *job.ValidationError, ErrTooManyKeys, or the store's.
func (k *Keys) Create(ctx context.Context, d Draft) (Token, Key, error) {
	token, key, err := d.Key(k.opts.Namespace, k.opts.Now())
	if err != nil {
		return Token{}, Key{}, err
	}
	key.Stored = true
	if len(k.fixed) >= MaxKeys {
		return Token{}, Key{}, ErrTooManyKeys
	}
	made, err := k.stored.Create(ctx, key.ID, key)
	if err != nil {
		return Token{}, Key{}, err
	}
	return token, made.Value, nil
}

// Key reads a key. Errors: ErrNoKey, or the store's.
func (k *Keys) Key(ctx context.Context, id string) (Key, error) {
	if fixed := k.fixed[id]; fixed != nil {
		return fixed.key, nil
	}
	if !isID(id) {
		return Key{}, ErrNoKey
	}
	d, err := k.stored.Get(ctx, id)
	if errors.Is(err, store.ErrNewer) {
		return unreadable(id), nil
	}
	return d.Value, err
}

// unreadable is a key whose content cannot be read.
func unreadable(id string) Key { return Key{ID: id, Stored: true} }

// State is whether a key is accepted.
type State string

// The states of a key.
const (
	Active     State = "active"
	Expired    State = "expired"
	Unreadable State = "unreadable" // stored by a newer version, or damaged
)

// State returns the state of a key at this moment.
func (k *Keys) State(key *Key) State {
	switch {
	case key.Scope == Nobody:
		return Unreadable
	case key.Expired(k.opts.Now()):
		return Expired
	}
	return Active
}

// List reads all keys: the ones of this node's settings first, each group by name and id.
// The error is the store's.
func (k *Keys) List(ctx context.Context) ([]Key, error) {
	if err := k.stored.Load(ctx); err != nil {
		return nil, err
	}
	var keys []Key
	for _, e := range k.fixed {
		keys = append(keys, e.key)
	}
	for id, known := range k.stored.All() {
		switch {
		case k.fixed[id] != nil:
		case known.Err != nil:
			keys = append(keys, unreadable(id))
		default:
			keys = append(keys, known.Value.key)
		}
	}
	sort.Slice(keys, func(i, j int) bool {
		a, b := &keys[i], &keys[j]
		if a.Stored != b.Stored {
			return b.Stored
		}
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) < 0
	})
	return keys, nil
}

// Revoke deletes a stored key that all of allow accept. It is invalid on this node at once, on the
// others within documents.Freshness. Errors: ErrNoKey, ErrFixedKey, those of allow, or the store's.
func (k *Keys) Revoke(ctx context.Context, id string, allow ...documents.Allow) error {
	switch {
	case k.fixed[id] != nil:
		return ErrFixedKey
	case !isID(id):
		return ErrNoKey
	}
	return k.stored.Remove(ctx, id, allow...)
}

// stored describes the documents of keys. They are not sealed: a digest reveals no token, and keys work without a
// master key. An older duehook must not grant more with a key than a newer one meant: an unknown field makes it
// unreadable.
func stored(s store.Documents, clock job.Clock, fixed int) documents.Options[Key] {
	return documents.Options[Key]{
		Store: s, Kind: documentKind, Strict: true, Max: MaxKeys - fixed, Full: ErrTooManyKeys, Missing: ErrNoKey, Clock: clock,
		Stamp: func(k *Key) *documents.Stamp { return &k.Stamp },
		New:   unreadable,
		Check: func(k *Key) error {
			if k.Scope == Nobody || k.Digest == (Digest{}) {
				return errors.New("scope or sha256 is missing")
			}
			for _, pattern := range k.Topics {
				if err := job.CheckTopicPattern(pattern); err != nil {
					return err
				}
			}
			return setID(k, k.ID)
		},
	}
}
