package access

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/store"
)

func TestCreateListRevoke(t *testing.T) {
	clock, docs := newTestClock(), newDocuments()
	fixedToken, fixed := issue(t, func(k *Key) { k.Scope = Admin; k.Name = "zebra" })
	k := newKeyring(t, Options{Store: docs, Clock: clock, Keys: []Key{fixed}})

	token, key, err := k.Create(t.Context(), Draft{Name: "ci", Scope: "write", ExpiresAt: "2027-01-01T00:00:00Z", Rate: "10/s"})
	if err != nil {
		t.Fatal(err)
	}
	now := job.InstantOf(clock.Now())
	want := Key{
		ID: token.id(), Name: "ci", Scope: Write, Namespace: "shop", Stored: true, Digest: token.digest(),
		Stamp: documents.Stamp{CreatedAt: now, UpdatedAt: now, Version: uint64(now)}, ExpiresAt: job.InstantOf(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)), Rate: Rate{10, time.Second},
	}
	if diff := cmp.Diff(want, key); diff != "" {
		t.Error(diff)
	}
	if p := mustAuthenticate(t, k, token.Reveal()); p.KeyID != key.ID || p.Allows(Write) != nil || p.Allows(Admin) == nil {
		t.Errorf("the new key's holder is %+v", p)
	}
	if bytes.Contains(docs.docs[key.ID].Data, []byte(secretOf(token.Reveal())[:8])) {
		t.Error("the secret is in the store")
	}

	_, another, err := k.Create(t.Context(), Draft{Name: "backup", Scope: "read"})
	if err != nil {
		t.Fatal(err)
	}
	listed, err := k.List(t.Context())
	if diff := cmp.Diff([]Key{fixed, another, key}, listed); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}

	if err := k.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Authenticate(bearer(token.Reveal())); !errors.Is(err, ErrUnknown) {
		t.Errorf("a revoked key gives %v", err)
	}
	for id, want := range map[string]error{
		key.ID: ErrNoKey, fixed.ID: ErrFixedKey, newToken().id(): ErrNoKey, "": ErrNoKey, "../../etc": ErrNoKey, "AAAAAAAA": ErrNoKey,
	} {
		if err := k.Revoke(t.Context(), id); !errors.Is(err, want) {
			t.Errorf("Revoke(%q): %v, want %v", id, err, want)
		}
	}
	mustAuthenticate(t, k, fixedToken)
}

func TestCreateTellsAllThatIsWrong(t *testing.T) {
	docs := newDocuments()
	k := newKeyring(t, Options{Store: docs, Clock: newTestClock()})
	_, _, err := k.Create(t.Context(), Draft{Name: "a b", Scope: "root", ExpiresAt: "2020-01-01T00:00:00Z", Rate: "x"})
	var wrong *job.ValidationError
	if !errors.As(err, &wrong) {
		t.Fatalf("got %v", err)
	}
	want := []job.FieldError{
		{Field: "scope", Message: "must be read, write, admin or consume"},
		{Field: "name", Message: "may contain letters, digits and . _ : @ - only"},
		{Field: "rate", Message: errRate.Error()},
		{Field: "expires_at", Message: "must be in the future"},
	}
	if diff := cmp.Diff(want, wrong.Fields); diff != "" {
		t.Error(diff)
	}
	_, _, err = k.Create(t.Context(), Draft{Scope: "read", ExpiresAt: "tomorrow"})
	if !errors.As(err, &wrong) || len(wrong.Fields) != 1 || wrong.Fields[0].Message != errInstant.Error() {
		t.Errorf("got %v", err)
	}
	if len(docs.docs) > 0 {
		t.Errorf("stored: %v", docs.docs)
	}
}

func TestStoreFailuresArePassedOn(t *testing.T) {
	down := fmt.Errorf("%w: connection refused", store.ErrUnavailable)
	for _, c := range []struct {
		method string
		do     func(k *Keyring, id string) error
	}{
		{"ListDocuments", func(k *Keyring, _ string) error { _, err := k.List(t.Context()); return err }},
		{"PutDocuments", func(k *Keyring, _ string) error {
			_, _, err := k.Create(t.Context(), Draft{Scope: "read"})
			return err
		}},
		{"Document", func(k *Keyring, id string) error { return k.Revoke(t.Context(), id) }},
		{"DeleteDocument", func(k *Keyring, id string) error { return k.Revoke(t.Context(), id) }},
	} {
		docs := newDocuments()
		k := newKeyring(t, Options{Store: docs})
		token, key, err := k.Create(t.Context(), Draft{Scope: "read"})
		if err != nil {
			t.Fatal(err)
		}
		docs.failing(c.method, down)
		if err := c.do(k, key.ID); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s fails: got %v", c.method, err)
		}
		mustAuthenticate(t, k, token.Reveal())
	}
}

// Revoking on two nodes at once: the second finds nothing, and believes it.
func TestRevokedElsewhere(t *testing.T) {
	docs := newDocuments()
	here, there := newKeyring(t, Options{Store: docs}), newKeyring(t, Options{Store: docs})
	token, key, err := here.Create(t.Context(), Draft{Scope: "read"})
	if err != nil {
		t.Fatal(err)
	}
	if err := there.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	mustAuthenticate(t, here, token.Reveal()) // has not heard of it yet
	if err := here.Revoke(t.Context(), key.ID); !errors.Is(err, ErrNoKey) {
		t.Fatalf("got %v", err)
	}
	if _, err := here.Authenticate(bearer(token.Reveal())); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestThereIsAnEndToKeys(t *testing.T) {
	docs := newDocuments()
	fixed := newToken()
	k := newKeyring(t, Options{Store: docs, Keys: []Key{{ID: fixed.id(), Scope: Admin, Namespace: "shop", Digest: fixed.digest()}}})
	for range MaxKeys - 1 { // with the key of the settings, MaxKeys
		token := newToken()
		docs.put(token.id(), string(encodeKey(&Key{Scope: Read, Namespace: "shop", Digest: token.digest()}).Data))
	}
	if _, _, err := k.Create(t.Context(), Draft{Scope: "read"}); !errors.Is(err, ErrTooManyKeys) {
		t.Errorf("got %v", err)
	}
}

func TestMakingAKeySeldomReadsTheOthers(t *testing.T) {
	docs := newDocuments()
	k := newKeyring(t, Options{Store: docs})
	var tokens []Token
	for range 10 {
		token, _, err := k.Create(t.Context(), Draft{Scope: "read"})
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if docs.lists > 2 { // counted, and read once
		t.Errorf("keys were listed %d times for 10 new ones", docs.lists)
	}
	for _, token := range tokens {
		mustAuthenticate(t, k, token.Reveal())
	}
}

func TestWithoutAStore(t *testing.T) {
	_, key := issue(t)
	k := newKeyring(t, Options{Keys: []Key{key}})
	if _, _, err := k.Create(t.Context(), Draft{Scope: "read"}); err == nil {
		t.Error("a key was made that is kept nowhere")
	}
	if err := k.Revoke(t.Context(), newToken().id()); !errors.Is(err, ErrNoKey) {
		t.Errorf("Revoke: %v", err)
	}
	if keys, err := k.List(t.Context()); err != nil || len(keys) != 1 {
		t.Errorf("List: %v, %v", keys, err)
	}
}

func TestDocumentsKeepKeysWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := anyKey(t)
		k.Stored = true
		k.CreatedAt = job.Instant(rapid.Int64Range(1, 1<<42).Draw(t, "created"))
		got, err := decodeKey(encodeKey(&k))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(k, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzDecodeKey(f *testing.F) {
	f.Add("aaaaaaaa", `{"scope":"read","namespace":"shop","created_at":1,"sha256":"`+someDigest+`"}`)
	f.Add("x", `{"scope":"admin"}`)
	f.Fuzz(func(t *testing.T, name, data string) {
		k, err := decodeKey(store.Document{Kind: documentKind, Name: name, Data: []byte(data)})
		if err == nil && (k.ID != name || k.Scope < Read || k.Scope > Admin || !k.Stored) {
			t.Errorf("%q: %+v", data, k)
		}
	})
}
