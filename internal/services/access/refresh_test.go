package access

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/store"
)

// running makes a keyring on docs, inside a synctest bubble, that Run keeps up
// to date until the test ends.
func running(t *testing.T, docs *shared, log *lockedBuffer) *Keyring {
	t.Helper()
	k := newKeyring(t, Options{Store: docs, Logger: log.logger()})
	ended := make(chan error, 1)
	ctx := t.Context()
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() { // t.Context has ended by then
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	synctest.Wait()
	return k
}

// pass lets time pass in a synctest bubble.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := job.Sleep(t.Context(), job.SystemClock(), d); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func TestOtherNodesLearnWithinFreshness(t *testing.T) {
	for _, takes := range []time.Duration{0, time.Second, listTimeout - time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			docs := newDocuments()
			here, there := running(t, docs, &lockedBuffer{}), newKeyring(t, Options{Store: docs})
			docs.slow(takes)
			pass(t, time.Minute)
			// Changes at any point of the other node's round.
			for range 20 {
				docs.slow(0)
				token, key, err := there.Create(t.Context(), Draft{Scope: "read"})
				docs.slow(takes)
				if err != nil {
					t.Fatal(err)
				}
				pass(t, Freshness)
				mustAuthenticate(t, here, token.Reveal())
				if err := there.Revoke(t.Context(), key.ID); err != nil {
					t.Fatal(err)
				}
				if _, err := there.Authenticate(bearer(token.Reveal())); !errors.Is(err, ErrUnknown) {
					t.Fatalf("where it was revoked, the key gives %v", err)
				}
				pass(t, Freshness)
				if _, err := here.Authenticate(bearer(token.Reveal())); !errors.Is(err, ErrUnknown) {
					t.Fatalf("a listing takes %v: a key that was revoked %v ago gives %v", takes, Freshness, err)
				}
				pass(t, 370*time.Millisecond)
			}
		})
	}
}

func TestAnIdleKeyringReadsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments()
		running(t, docs, &lockedBuffer{})
		pass(t, time.Minute)
		if got := docs.listed(); got < 6 || got > 20 {
			t.Errorf("%d listings in a minute", got)
		}
	})
}

func TestKeysStayInUseWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, log := newDocuments(), &lockedBuffer{}
		k := running(t, docs, log)
		token, _, err := k.Create(t.Context(), Draft{Scope: "write"})
		if err != nil {
			t.Fatal(err)
		}
		docs.failing("ListDocuments", store.ErrUnavailable)
		pass(t, time.Hour)
		mustAuthenticate(t, k, token.Reveal())
		docs.failing("ListDocuments", nil)
		docs.slow(time.Hour) // hangs
		pass(t, time.Hour)
		mustAuthenticate(t, k, token.Reveal())
		if got := log.lines("level=WARN"); got != 1 {
			t.Errorf("%d warnings of one outage", got)
		}
		docs.slow(0)
		pass(t, Freshness)
		mustAuthenticate(t, k, token.Reveal())
		if got := log.lines("working again"); got != 1 {
			t.Errorf("%d lines about the end of the outage", got)
		}
		docs.failing("ListDocuments", store.ErrUnavailable)
		pass(t, Freshness)
		if got := log.lines("level=WARN"); got != 2 {
			t.Errorf("%d warnings of two outages", got)
		}
	})
}

func TestAStoreThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments()
		other := newKeyring(t, Options{Store: docs})
		token, _, err := other.Create(t.Context(), Draft{Scope: "write"})
		if err != nil {
			t.Fatal(err)
		}
		docs.failing("ListDocuments", store.ErrUnavailable)
		k := running(t, docs, &lockedBuffer{})
		pass(t, time.Minute)
		if _, err := k.Authenticate(bearer(token.Reveal())); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("before the store was read: %v", err)
		}
		docs.failing("ListDocuments", nil)
		pass(t, Freshness)
		mustAuthenticate(t, k, token.Reveal())
	})
}

func TestRunWithoutAStoreJustWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyring(t, Options{})
		ended := make(chan error, 1)
		ctx := t.Context()
		go func() { ended <- k.Run(ctx) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("Run ended by itself: %v", err)
		default:
		}
		t.Cleanup(func() {
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	})
}

// Shutting down in the middle of a listing is no failure.
func TestRunStopsInTheMiddleOfAListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, log := newDocuments(), &lockedBuffer{}
		docs.slow(time.Hour)
		k := newKeyring(t, Options{Store: docs, Logger: log.logger()})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		synctest.Wait()
		stop()
		if err := <-ended; err != nil || log.lines("") > 0 {
			t.Errorf("Run: %v, and %d lines logged", err, log.lines(""))
		}
	})
}

func TestLimitsOutliveARefresh(t *testing.T) {
	clock, docs := newTestClock(), newDocuments()
	k := newKeyring(t, Options{Store: docs, Clock: clock})
	token, _, err := k.Create(t.Context(), Draft{Scope: "read", Rate: "3/1h"})
	if err != nil {
		t.Fatal(err)
	}
	for want := 2; want >= 0; want-- {
		if err := k.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if q := k.Take(mustAuthenticate(t, k, token.Reveal())); !q.Allowed || q.Remaining != want {
			t.Fatalf("%+v, want %d remaining", q, want)
		}
	}
	if q := k.Take(mustAuthenticate(t, k, token.Reveal())); q.Allowed {
		t.Errorf("a refresh filled the bucket: %+v", q)
	}
}

func TestUnreadableDocumentsAreNoKeys(t *testing.T) {
	docs, log := newDocuments(), &lockedBuffer{}
	token := newToken()
	good := string(encodeKey(&Key{Scope: Read, Namespace: "shop", Digest: token.digest(), Stamp: documents.Stamp{CreatedAt: 1}}).Data)
	for name, data := range map[string]string{
		"aaaaaaa2":  `not JSON`,
		"aaaaaaa3":  `{"scope":"read","namespace":"shop","created_at":1,"only_from":"10.0.0.0/8","sha256":"` + someDigest + `"}`,
		"aaaaaaa4":  `{"scope":"auditor","namespace":"shop","created_at":1,"sha256":"` + someDigest + `"}`,
		"aaaaaaa5":  `{"scope":"read","namespace":"shop","created_at":1,"sha256":"9f86"}`,
		"aaaaaaa6":  `{"scope":"read","namespace":"shop","created_at":1,"rate":"x","sha256":"` + someDigest + `"}`,
		"not-an-id": good,
	} {
		docs.put(name, data)
	}
	docs.put(token.id(), `{}`)
	k := newKeyring(t, Options{Store: docs, Logger: log.logger()})
	for range 3 {
		if err := k.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Authenticate(bearer(token.Reveal())); !errors.Is(err, ErrUnknown) {
		t.Errorf("a key without a digest gives %v", err)
	}
	if got := log.lines("level=ERROR"); got != 7 {
		t.Errorf("%d complaints about 7 documents, read 3 times", got)
	}
	if log.lines(someDigest) > 0 {
		t.Error("the log shows a digest")
	}
	keys, err := k.List(t.Context())
	if err != nil || len(keys) != 7 || keys[0].Scope != Nobody || !keys[0].Stored {
		t.Errorf("listed: %+v, %v", keys, err)
	}
	docs.put(token.id(), good) // mended
	if err := k.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAuthenticate(t, k, token.Reveal())
}

func TestSettingsHaveTheLastWord(t *testing.T) {
	token, key := issue(t, func(k *Key) { k.Scope = Read })
	docs := newDocuments()
	stored := key
	stored.Scope = Admin
	docs.put(key.ID, string(encodeKey(&stored).Data))
	k := newKeyring(t, Options{Store: docs, Keys: []Key{key}})
	if err := k.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := mustAuthenticate(t, k, token); p.Scope != Read {
		t.Errorf("the key has scope %v", p.Scope)
	}
}
