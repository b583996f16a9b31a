package access

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	read := func(pointer, name, value string) {
		if err := keyFields[name](&k, value); err != nil {
			wrong = append(wrong, job.FieldError{Pointer: pointer, Message: err.Error()})
		}
	}
	read("/scope", "scope", d.Scope)
	if d.Name != "" {
		read("/name", "name", d.Name)
	}
	if d.Rate != "" {
		read("/rate", "rate", d.Rate)
	}
	if d.ExpiresAt != "" {
		read("/expires_at", "expires", d.ExpiresAt)
		if k.Expired(now) {
			wrong = append(wrong, job.FieldError{Pointer: "/expires_at", Message: "must be in the future"})
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
	if _, err := k.opts.Store.PutDocument(ctx, encodeKey(&key)); err != nil {
		return Token{}, Key{}, fmt.Errorf("store an API key: %w", err)
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
	doc, err := k.opts.Store.Document(ctx, documentKind, id)
	if err == nil {
		err = k.opts.Store.DeleteDocument(ctx, documentKind, id, doc.Version)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		k.forget(id)
		return ErrNoKey
	case err != nil:
		return fmt.Errorf("revoke an API key: %w", err)
	}
	k.forget(id)
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

func encodeKey(k *Key) store.Document {
	data, _ := json.Marshal(record{ // strings and numbers always have a JSON form
		Name: k.Name, Scope: k.Scope.String(), Namespace: k.Namespace,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, Rate: k.Rate.String(),
		SHA256: hex.EncodeToString(k.Digest[:]),
	})
	return store.Document{Kind: documentKind, Name: k.ID, Data: data}
}

// Exact says that an older duehook must not take a key for more than a newer one meant
// it to be.
func (*record) Exact() {}

// decodeKey reads a stored key.
func decodeKey(d store.Document) (Key, error) {
	var r record
	if d.Decode(&r) != nil {
		return Key{}, errors.New("it is no JSON of this version") // the cause may show a digest
	}
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
