package access

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

func TestCreateListRevoke(t *testing.T) {
	clock, docs := newTestClock(), testenv.NewDocuments(t)
	fixedToken, fixed := issue(t, func(k *Key) { k.Scope = Admin; k.Name = "zebra" })
	k := newKeys(t, Options{Store: docs, Clock: clock, Keys: []Key{fixed}})

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
	if strings.Contains(docs.Dump(documentKind), secretOf(token.Reveal())[:8]) {
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
	docs := testenv.NewDocuments(t)
	k := newKeys(t, Options{Store: docs, Clock: newTestClock()})
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
	if stored := docs.Dump(documentKind); stored != "" {
		t.Errorf("stored: %s", stored)
	}
}

func TestThereIsAnEndToKeys(t *testing.T) {
	docs := testenv.NewDocuments(t)
	fixed := newToken()
	k := newKeys(t, Options{Store: docs, Keys: []Key{{ID: fixed.id(), Scope: Admin, Namespace: "shop", Digest: fixed.digest()}}})
	for range MaxKeys - 1 { // with the key of the settings, MaxKeys
		token := newToken()
		docs.Overwrite(documentKind, token.id(), string(encodeKey(&Key{Scope: Read, Namespace: "shop", Digest: token.digest()}).Data))
	}
	if _, _, err := k.Create(t.Context(), Draft{Scope: "read"}); !errors.Is(err, ErrTooManyKeys) {
		t.Errorf("got %v", err)
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
