package access

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// documentKind is the kind of documents that are keys; their names are ids.
const documentKind = "apikey"

// errNoStore is a bug of the caller: there is nothing to manage.
var errNoStore = errors.New("access: this keyring has no store")

// Draft is a key as somebody wishes it. The texts are those of ParseKeys.
type Draft struct {
	Name      string // optional
	Scope     string
	ExpiresAt string // empty: never
	Rate      string // empty: the server's default
}

// make makes a key of the draft, unless something is wrong with its fields,
// which are called as in the API.
func (d Draft) make(namespace string, now job.Instant) (Token, Key, []job.FieldError) {
	k := Key{Namespace: namespace, CreatedAt: now}
	var wrong []job.FieldError
	read := func(field job.Field, name, value string) {
		if err := keyFields[name](&k, value); err != nil {
			wrong = append(wrong, job.FieldError{Field: field, Message: err.Error()})
		}
	}
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
			wrong = append(wrong, job.FieldError{Field: "expires_at", Message: "must be in the future"})
		}
	}
	if len(wrong) > 0 {
		return Token{}, Key{}, wrong
	}
	t := newToken()
	k.ID, k.Digest = t.id(), t.digest()
	return t, k, nil
}

// Create makes a key of this server's namespace and stores it. It is valid here
// at once, on other nodes within Freshness. The token is not kept. Errors: a
// *job.ValidationError, ErrTooManyKeys, or the store's.
func (k *Keyring) Create(ctx context.Context, d Draft) (Token, Key, error) {
	if k.opts.Store == nil {
		return Token{}, Key{}, errNoStore
	}
	token, key, wrong := d.make(k.opts.Namespace, job.InstantOf(k.opts.Clock.Now()))
	if len(wrong) > 0 {
		return Token{}, Key{}, &job.ValidationError{Fields: wrong}
	}
	key.Stored = true
	if err := k.refresh(ctx); err != nil {
		return Token{}, Key{}, fmt.Errorf("read the stored API keys: %w", err)
	}
	if len(k.current.Load().byID) >= MaxKeys {
		return Token{}, Key{}, ErrTooManyKeys
	}
	if err := k.docs.Put(ctx, &documents.Document[record]{Name: key.ID, Value: recordOf(&key)}); err != nil {
		return Token{}, Key{}, err
	}
	_ = k.refresh(ctx) // has been logged; the key is valid later, then
	return token, key, nil
}

// List reads all keys, those of this server's settings first, each by name and
// id. Its error is the store's.
func (k *Keyring) List(ctx context.Context) ([]Key, error) {
	if k.opts.Store != nil {
		if err := k.refresh(ctx); err != nil {
			return nil, fmt.Errorf("read the stored API keys: %w", err)
		}
	}
	set := k.current.Load()
	keys := make([]Key, 0, len(set.byID))
	for _, e := range set.byID {
		keys = append(keys, e.key)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		if a.Stored != b.Stored {
			if b.Stored {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID)
	})
	return keys, nil
}

// Revoke deletes a stored key. It is invalid here at once, on other nodes
// within Freshness. Errors: ErrNoKey, ErrFixedKey, or the store's.
func (k *Keyring) Revoke(ctx context.Context, id string) error {
	switch {
	case k.fixed[id] != nil:
		return ErrFixedKey
	case k.opts.Store == nil || len(id) != idLength || !isTokenText(id):
		return ErrNoKey
	}
	err := k.docs.Remove(ctx, id, func(*documents.Document[record]) error { return nil })
	notFound := errors.Is(err, store.ErrNotFound)
	if err != nil && !notFound {
		return err
	}
	k.forget(id)
	if notFound {
		return ErrNoKey
	}
	return nil
}

// record is a key in a document. The id is the document's name.
type record struct {
	Name      string      `json:"name,omitempty"`
	Scope     string      `json:"scope"`
	Namespace string      `json:"namespace"`
	CreatedAt job.Instant `json:"created_at"`
	ExpiresAt job.Instant `json:"expires_at,omitempty"`
	Rate      string      `json:"rate,omitempty"`
	SHA256    string      `json:"sha256"`
}

func recordOf(k *Key) record {
	return record{
		Name: k.Name, Scope: k.Scope.String(), Namespace: k.Namespace,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, Rate: k.Rate.String(),
		SHA256: hex.EncodeToString(k.Digest[:]),
	}
}

// collection returns the documents of keys. An older duehook must not grant more with a
// key than a newer one meant: an unknown field makes it unreadable.
func collection(s store.Documents) *documents.Collection[record] {
	return documents.New(documents.Options[record]{Store: s, Kind: documentKind, Strict: true})
}

// keyOf returns the key of a document.
func keyOf(d *documents.Document[record]) (Key, error) {
	if d.Err != nil {
		return Key{}, errors.New("it is no JSON of this version") // the cause may show a digest
	}
	r := &d.Value
	k := Key{Name: r.Name, Namespace: r.Namespace, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, Stored: true}
	var err error
	if k.Scope, err = ParseScope(r.Scope); err != nil {
		return Key{}, fmt.Errorf("scope %w", err)
	}
	if r.Rate != "" {
		if k.Rate, err = ParseRate(r.Rate); err != nil {
			return Key{}, fmt.Errorf("rate %w", err)
		}
	}
	if err := setDigest(&k, r.SHA256); err != nil {
		return Key{}, fmt.Errorf("sha256 %w", err)
	}
	if err := setID(&k, d.Name); err != nil {
		return Key{}, fmt.Errorf("id %w", err)
	}
	return k, nil
}
