package access

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

func TestAuthenticate(t *testing.T) {
	clock := newTestClock()
	token, key := issue(t)
	expired, old := issue(t, func(k *Key) { k.ExpiresAt = job.InstantOf(clock.Now()) })
	k := newKeys(t, Options{Keys: []Key{key, old}, Clock: clock})
	impostor := impostorOf(token)
	stranger := newToken().Reveal()

	for _, c := range []struct {
		name, header string
		want         error
	}{
		{"the token", "Bearer " + token, nil},
		{"scheme in another case", "bEARER " + token, nil},
		{"more spaces", "Bearer   " + token, nil},
		{"no header", "", ErrMissing},
		{"another scheme", "Basic dXNlcjpwYXNzd29yZA==", ErrMalformed},
		{"no scheme", token, ErrMalformed},
		{"nothing after the scheme", "Bearer", ErrMalformed},
		{"only a space", "Bearer ", ErrMalformed},
		{"space behind", "Bearer " + token + " ", ErrMalformed},
		{"tab", "Bearer\t" + token, ErrMalformed},
		{"two headers", "Bearer " + token + ", Bearer " + token, ErrMalformed},
		{"cut off", "Bearer " + token[:50], ErrMalformed},
		{"huge", "Bearer " + strings.Repeat("a", 1<<20), ErrMalformed},
		{"unknown id", "Bearer " + stranger, ErrUnknown},
		{"wrong secret", "Bearer " + impostor, ErrUnknown},
		{"expired", "Bearer " + expired, ErrExpired},
		{"expired with a wrong secret", "Bearer " + impostorOf(expired), ErrUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := k.Authenticate(c.header)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if err != nil && (p.KeyID != "" || p.Scope != Nobody || p.Allows(Public) == nil) {
				t.Errorf("an unknown caller is %+v and may do something", p)
			}
			if err == nil && (p.KeyID != key.ID || p.KeyName != "ci" || p.Scope != Write || p.Namespace != "shop") {
				t.Errorf("the caller is %+v", p)
			}
			if err != nil && (strings.Contains(err.Error(), secretOf(token)[:8]) || strings.Contains(err.Error(), secretOf(expired)[:8])) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

// impostorOf is a well-formed token with the id of another and a secret of its own.
func impostorOf(token string) string {
	body := token[:len(tokenPrefix)+idLength+1] + secretOf(newToken().Reveal())[:secretLength]
	return body + checksum(body)
}

func TestKeysExpireByTheClock(t *testing.T) {
	clock := newTestClock()
	token, key := issue(t, func(k *Key) { k.ExpiresAt = job.InstantOf(clock.Now().Add(time.Minute)) })
	k := newKeys(t, Options{Keys: []Key{key}, Clock: clock})
	clock.Advance(time.Minute - time.Millisecond)
	mustAuthenticate(t, k, token)
	clock.Advance(time.Millisecond)
	if _, err := k.Authenticate(bearer(token)); !errors.Is(err, ErrExpired) {
		t.Fatalf("at its end the key gives %v", err)
	}
}

// Whatever becomes of a well-formed token, it costs one comparison of whole
// digests: neither an unknown id nor a wrong secret can be told by the work.
func TestEveryAnswerCostsOneComparison(t *testing.T) {
	clock := newTestClock()
	token, key := issue(t)
	expired, old := issue(t, func(k *Key) { k.ExpiresAt = 1 })
	foreign, other := issue(t, func(k *Key) { k.Namespace = "elsewhere" })
	docs := testenv.NewDocuments(t)
	broken := newToken()
	docs.Overwrite(documentKind, broken.id(), "{}")
	k := newKeys(t, Options{Keys: []Key{key, old, other}, Clock: clock, Store: docs})
	compared := 0
	k.equal = func(x, y []byte) int {
		compared++
		if len(x) != 32 || len(y) != 32 {
			t.Errorf("compared %d with %d bytes", len(x), len(y))
		}
		return subtle.ConstantTimeCompare(x, y)
	}
	for name, text := range map[string]string{
		"valid": token, "expired": expired, "other namespace": foreign, "unusable": broken.Reveal(),
		"unknown id": newToken().Reveal(), "wrong secret": impostorOf(token),
	} {
		compared = 0
		_, _ = k.Authenticate(bearer(text))
		if compared != 1 {
			t.Errorf("%s: %d comparisons", name, compared)
		}
	}
}

// An unknown id must not be let in by whatever the stand-in's digest is.
func TestNobodyIsNoKey(t *testing.T) {
	k := newKeys(t, Options{})
	k.equal = func(_, _ []byte) int { return 1 }
	if _, err := k.Authenticate(bearer(newToken().Reveal())); !errors.Is(err, ErrUnknown) {
		t.Fatalf("got %v", err)
	}
}

func TestScopesAndNamespaces(t *testing.T) {
	needs := []Scope{Nobody, Public, Read, Write, Admin}
	for _, c := range []struct {
		have    Scope
		allowed []Scope
	}{
		{Read, []Scope{Public, Read}},
		{Write, []Scope{Public, Read, Write}},
		{Admin, []Scope{Public, Read, Write, Admin}},
	} {
		token, key := issue(t, func(k *Key) { k.Scope = c.have })
		p := mustAuthenticate(t, newKeys(t, Options{Keys: []Key{key}}), token)
		foreign := mustAuthenticate(t, newKeys(t, Options{Keys: []Key{key}, Namespace: "other"}), token)
		for _, need := range needs {
			err := p.Allows(need)
			var scope *ScopeError
			want := strings.Contains(show(c.allowed), need.String())
			if want != (err == nil) || err != nil && (!errors.As(err, &scope) || *scope != ScopeError{need, c.have}) {
				t.Errorf("%v for a call of %v: %v", c.have, need, err)
			}
			var namespace *NamespaceError
			if err := foreign.Allows(need); !errors.As(err, &namespace) || *namespace != (NamespaceError{"shop", "other"}) {
				t.Errorf("a key of another namespace for a call of %v: %v", need, err)
			}
		}
	}
	if err := (Principal{}).Allows(Read); err == nil {
		t.Error("the zero Principal may read")
	}
}

func TestScopeNames(t *testing.T) {
	for _, s := range []Scope{Read, Write, Admin} {
		var got Scope
		if err := got.UnmarshalText([]byte(s.String())); err != nil || got != s {
			t.Errorf("scope %q: %v", s.String(), got)
		}
	}
	for _, name := range []string{"", "none", "public", "Read", "scope(9)"} {
		got := Admin
		if err := got.UnmarshalText([]byte(name)); err == nil || got != Nobody {
			t.Errorf("scope %q: %v", name, got)
		}
	}
	if got := Scope(9).String(); got != "scope(9)" {
		t.Errorf("an unknown scope is called %q", got)
	}
}

// A server is not ready before it knows the stored keys: until then it refuses their holders, and no others.
func TestUnreadStoreIsNoReasonToRefuse(t *testing.T) {
	token, key := issue(t)
	docs := testenv.NewDocuments(t)
	stored, _, err := newKeys(t, Options{Store: docs}).Create(t.Context(), Draft{Scope: "read"})
	must.OK(t, err)
	k, err := New(Options{Namespace: "shop", Keys: []Key{key}, Store: docs})
	must.OK(t, err)
	_, errStored := k.Authenticate(bearer(stored.Reveal()))
	for what, err := range map[string]error{"readiness": k.Ready(), "a stored key": errStored} {
		if !errors.Is(err, documents.ErrUnread) || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := k.Authenticate(bearer(impostorOf(token))); !errors.Is(err, ErrUnknown) {
		t.Errorf("a wrong secret of a key in the settings gives %v", err)
	}
	mustAuthenticate(t, k, token)
	must.OK(t, k.stored.Load(t.Context()))
	must.OK(t, k.Ready())
	mustAuthenticate(t, k, stored.Reveal())
	if _, err := k.Authenticate(bearer(newToken().Reveal())); !errors.Is(err, ErrUnknown) {
		t.Errorf("once the store is read, an unknown id gives %v", err)
	}
}

func TestLimitsOutliveARefresh(t *testing.T) {
	clock := newTestClock()
	k := newKeys(t, Options{Clock: clock})
	token, _, err := k.Create(t.Context(), Draft{Scope: "read", Rate: "3/1h"})
	must.OK(t, err)
	for want := 2; want >= 0; want-- {
		must.OK(t, k.stored.Load(t.Context()))
		if q := k.Take(mustAuthenticate(t, k, token.Reveal())); !q.Allowed || q.Remaining != want {
			t.Fatalf("%+v, want %d remaining", q, want)
		}
	}
	if q := k.Take(mustAuthenticate(t, k, token.Reveal())); q.Allowed {
		t.Errorf("a refresh filled the bucket: %+v", q)
	}
}

// A key that this version cannot read is none, also where it was one before: it may permit less now.
func TestUnreadableDocumentsAreNoKeys(t *testing.T) {
	docs, log := testenv.NewDocuments(t), &lockedBuffer{}
	token := newToken()
	good := string(encodeKey(&Key{Scope: Read, Namespace: "shop", Digest: token.digest(), Stamp: documents.Stamp{CreatedAt: 1}}).Data)
	for name, data := range map[string]string{
		"aaaaaaa2":  `not JSON`,
		"aaaaaaa3":  `{"scope":"read","namespace":"shop","created_at":1,"only_from":"10.0.0.0/8","sha256":"` + someDigest + `"}`,
		"aaaaaaa4":  `{"scope":"auditor","namespace":"shop","created_at":1,"sha256":"` + someDigest + `"}`,
		"aaaaaaa5":  `{"scope":"read","namespace":"shop","created_at":1,"sha256":"9f86"}`,
		"aaaaaaa6":  `{"scope":"read","namespace":"shop","created_at":1,"rate":"x","sha256":"` + someDigest + `"}`,
		"not-an-id": good,
		token.id():  good,
	} {
		docs.Overwrite(documentKind, name, data)
	}
	k := newKeys(t, Options{Store: docs, Logger: log.logger()})
	mustAuthenticate(t, k, token.Reveal())
	docs.Overwrite(documentKind, token.id(), `{}`)
	keys, err := k.List(t.Context())
	if err != nil || len(keys) != 7 || keys[0].Scope != Nobody || !keys[0].Stored || k.State(&keys[0]) != Unreadable {
		t.Errorf("listed: %+v, %v", keys, err)
	}
	if _, err := k.Authenticate(bearer(token.Reveal())); !errors.Is(err, ErrUnknown) {
		t.Errorf("a key without a digest gives %v", err)
	}
	if got := log.lines("level=ERROR"); got != 7 || log.lines(someDigest) > 0 {
		t.Errorf("%d complaints about 7 documents", got)
	}
	if got, err := k.Key(t.Context(), "aaaaaaa3"); err != nil || got.ID != "aaaaaaa3" || k.State(&got) != Unreadable {
		t.Errorf("read: %+v, %v", got, err)
	}
	docs.Overwrite(documentKind, token.id(), good) // mended
	must.OK(t, k.stored.Load(t.Context()))
	mustAuthenticate(t, k, token.Reveal())
}

func TestSettingsHaveTheLastWord(t *testing.T) {
	token, key := issue(t, func(k *Key) { k.Scope = Read })
	docs, stored := testenv.NewDocuments(t), key
	stored.Scope = Admin
	docs.Overwrite(documentKind, key.ID, string(encodeKey(&stored).Data))
	if p := mustAuthenticate(t, newKeys(t, Options{Store: docs, Keys: []Key{key}}), token); p.Scope != Read {
		t.Errorf("the key has scope %v", p.Scope)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	_, key := issue(t)
	for name, o := range map[string]Options{
		"no namespace": {},
		"a key twice":  {Namespace: "shop", Keys: []Key{key, key}},
	} {
		if k, err := New(o); err == nil || k != nil {
			t.Errorf("%s: %v, %v", name, k, err)
		}
	}
}

func TestChallenge(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{ErrMissing, `Bearer realm="duehook"`},
		{fmt.Errorf("%w: short", ErrMalformed), `Bearer realm="duehook", error="invalid_token"`},
		{ErrUnknown, `Bearer realm="duehook", error="invalid_token"`},
		{ErrExpired, `Bearer realm="duehook", error="invalid_token"`},
		{&ScopeError{Need: Write, Have: Read}, `Bearer realm="duehook", error="insufficient_scope", scope="write"`},
		{&NamespaceError{Key: "a", Server: "b"}, ""},
		{store.ErrUnavailable, ""},
	} {
		if got := Challenge(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

func TestErrorsSayWhatIsMissing(t *testing.T) {
	for want, err := range map[string]error{
		"the call requires an API key of scope write, and this one has scope read": &ScopeError{Write, Read},
		"the API key is for namespace blog, and this node serves namespace shop":   &NamespaceError{"blog", "shop"},
		"malformed API key: the scheme of the Authorization header is not Bearer":  errOf(t, "Basic x"),
		"malformed API key: the token has 4 characters instead of 51":              errOf(t, "Bearer dh_x"),
		"malformed API key: the token does not begin with dh_":                     errOf(t, "Bearer x"),
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

func errOf(t *testing.T, header string) error {
	t.Helper()
	_, err := newKeys(t, Options{}).Authenticate(header)
	if err == nil {
		t.Fatalf("%q is accepted", header)
	}
	return err
}

func TestPrincipalsAreNamedInLogs(t *testing.T) {
	token, key := issue(t)
	k := newKeys(t, Options{Keys: []Key{key}})
	var log lockedBuffer
	log.logger().Info("x", "who", mustAuthenticate(t, k, token))
	log.logger().Info("x", "who", Principal{})
	if log.lines("who.key_id="+key.ID+" who.key_name=ci") != 1 || log.lines("who.key_id=anonymous") != 1 {
		t.Errorf("log:\n%s", log.b.String())
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	token, key := issue(b, func(k *Key) { k.Rate = Rate{maxRequests, time.Second} })
	k := newKeys(b, Options{Keys: []Key{key}})
	for _, c := range []struct{ name, token string }{
		{"known", token}, {"unknown-id", newToken().Reveal()}, {"wrong-secret", impostorOf(token)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = k.Authenticate(bearer(c.token))
			}
		})
	}
	p := mustAuthenticate(b, k, token)
	b.Run("take", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			k.Take(p)
		}
	})
}

// Keys expire by the store's time: the clock of a node beside Redis may be wrong.
func TestKeysExpireByTheStoresTime(t *testing.T) {
	clock := newTestClock()
	at := job.InstantOf(clock.Now())
	now := at
	token, key := issue(t, func(k *Key) { k.ExpiresAt = at.Add(time.Minute) })
	for _, wrong := range []time.Duration{0, -time.Hour, time.Hour} {
		clock := newTestClock()
		clock.Advance(wrong)
		k := newKeys(t, Options{Keys: []Key{key}, Clock: clock, Now: func() job.Instant { return now }})
		now = at.Add(time.Minute) - 1
		if _, err := k.Authenticate("Bearer " + token); err != nil || k.State(&key) != Active {
			t.Errorf("a clock that is wrong by %v: %v, %s", wrong, err, k.State(&key))
		}
		now++
		if _, err := k.Authenticate("Bearer " + token); !errors.Is(err, ErrExpired) || k.State(&key) != Expired {
			t.Errorf("a clock that is wrong by %v, after the end: %v, %s", wrong, err, k.State(&key))
		}
		_, _, err := Draft{Scope: "read", ExpiresAt: now.RFC3339()}.Key("shop", k.opts.Now())
		if err == nil {
			t.Error("a key was made that has expired")
		}
	}
}

// While keys come and go and the stored ones are read again, a key that stays is accepted, and answers for the
// others are right as soon as a call has returned.
func TestCallersAuthenticateWhileKeysChange(t *testing.T) {
	k := newKeys(t, Options{Clock: newTestClock()})
	create := func() (string, string) {
		token, key, err := k.Create(t.Context(), Draft{Name: "ci", Scope: "write"})
		if err != nil {
			t.Errorf("Create: %v", err)
		}
		return token.Reveal(), key.ID
	}
	stays, id := create()
	const changes = 50
	var changing, calling sync.WaitGroup
	over := make(chan struct{})
	for range 2 {
		changing.Go(func() {
			for range changes {
				token, made := create()
				if p, err := k.Authenticate(bearer(token)); err != nil || p.KeyID != made {
					t.Errorf("a new key: %v, %v", p, err)
				}
				if err := k.Revoke(t.Context(), made); err != nil {
					t.Errorf("Revoke: %v", err)
				}
				if _, err := k.Authenticate(bearer(token)); err == nil {
					t.Error("a revoked key was accepted")
				}
			}
		})
		calling.Go(func() {
			for {
				p, err := k.Authenticate(bearer(stays))
				if err != nil || p.KeyID != id {
					t.Errorf("the key that stays: %v, %v", p, err)
					return
				}
				k.Take(p)
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	changing.Go(func() {
		for range changes {
			if err := k.Load(t.Context()); err != nil {
				t.Errorf("Load: %v", err)
			}
		}
	})
	changing.Wait()
	close(over)
	calling.Wait()
}
