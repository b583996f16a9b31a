package signing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store"
)

// The kind of the documents, and the name of the default's.
const (
	kindTopic   = "signing-secret"
	defaultName = "*"
)

func TestNewRefuses(t *testing.T) {
	key := masterKey(t)
	for why, o := range map[string]signing.Options{
		"no documents":          {MasterKeys: []signing.MasterKey{key}},
		"a master key is empty": {Documents: newDocuments(), MasterKeys: []signing.MasterKey{key, {}}},
	} {
		if _, err := signing.New(o); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v; want %q", err, why)
		}
	}
	if _, err := signing.New(signing.Options{Documents: newDocuments(), MasterKeys: []signing.MasterKey{key}}); err != nil {
		t.Errorf("clock and logger have defaults: %v", err)
	}
}

// A receiver refuses what was signed too long ago, so a retry cannot carry the
// first attempt's signature.
func TestEachAttemptIsSignedAnew(t *testing.T) {
	nodes, _, c := cluster(t, 1)
	first, retry := nodes[0].header("t", c.Now()), nodes[0].header("t", c.Now().Add(15*time.Hour))
	if first.Get("Webhook-Signature") == retry.Get("Webhook-Signature") {
		t.Error("the signature does not cover the time")
	}
	retry.Set("Webhook-Timestamp", first.Get("Webhook-Timestamp"))
	if err := verify(t, nodes[0].made, retry, body); err == nil {
		t.Error("a retry's signature fits the first attempt")
	}
}

func TestSignatureCoversIDAndBody(t *testing.T) {
	nodes, _, c := cluster(t, 1)
	h := nodes[0].header("t", c.Now())
	if err := verify(t, nodes[0].made, h, body); err != nil {
		t.Error(err)
	}
	if err := verify(t, nodes[0].made, h, body+" "); err == nil {
		t.Error("it fits another body")
	}
	h.Set("Webhook-Id", "01KDWCJ2M00000000000000002")
	if err := verify(t, nodes[0].made, h, body); err == nil {
		t.Error("it fits another id")
	}
}

// Every node uses a change of another one within Freshness, and then does what it knows, whatever
// becomes of the store.
func TestChangesReachOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, docs, _ := cluster(t, 2)
		a, b := nodes[0], nodes[1]
		running(t, b)
		outage := 24 * time.Hour // the others need not be as long
		for age := time.Duration(0); age < signing.Freshness; age += 500 * time.Millisecond {
			pass(t, age)
			secret, _, err := a.Rotate(t.Context(), "t", 0)
			if err != nil {
				t.Fatal(err)
			}
			a.wantSigned("t", time.Now(), secret)
			pass(t, signing.Freshness)
			b.wantSigned("t", time.Now(), secret)
			docs.fail(errDown, "list")
			pass(t, outage)
			outage = time.Hour
			b.wantSigned("t", time.Now(), secret)
			docs.hook(func(ctx context.Context, _, _, _ string) error { // it hangs
				<-ctx.Done()
				return ctx.Err()
			})
			pass(t, time.Hour)
			b.wantSigned("t", time.Now(), secret)
			docs.hook(nil)
			if err := a.Delete(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
			a.wantSigned("t", time.Now(), a.made)
			pass(t, signing.Freshness)
			b.wantSigned("t", time.Now(), a.made)
		}
	})
}

// pass waits, in a bubble.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := job.Sleep(t.Context(), job.SystemClock(), d); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// running has a node read the secrets until the bubble ends.
func running(t *testing.T, n node) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

var errDown = errors.Join(store.ErrUnavailable, errors.New("the store is down"))

func TestNothingKnownAndNothingToRead(t *testing.T) {
	docs, c := newDocuments(), newClock()
	k := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{masterKey(t)}, Clock: c})
	sign := func() error {
		_, err := k.Sign(t.Context(), "t", "id", c.Now(), nil)
		return err
	}
	docs.fail(errDown, "list")
	if err := k.Load(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("loading: %v", err)
	}
	if err := sign(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("signing: %v", err)
	}
	docs.hook(nil)
	look(node{Keyring: k, t: t})
	if err := sign(); !errors.Is(err, signing.ErrNoSecret) {
		t.Errorf("without a default: %v", err)
	}
}

func TestTroubleIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments()
		var out bytes.Buffer
		n := begun(t, open(t, signing.Options{
			Documents: docs, MasterKeys: []signing.MasterKey{masterKey(t)}, Logger: slog.New(slog.NewTextHandler(&out, nil)),
		}))
		if _, _, err := n.Rotate(t.Context(), "t", 0); err != nil {
			t.Fatal(err)
		}
		running(t, n)
		const while = 5 * signing.Freshness
		pass(t, while)
		if out.Len() > 0 {
			t.Errorf("logged without trouble:\n%s", &out)
		}
		docs.fail(errDown, "list")
		pass(t, while)
		docs.hook(nil)
		pass(t, while)
		docs.overwrite(false, func(string, []byte) []byte { return []byte("garbage") })
		pass(t, while)
		n.header("t", time.Now())
		for _, message := range []string{"failing; retrying", "working again", "cannot be decrypted"} {
			if got := strings.Count(out.String(), message); got != 1 {
				t.Errorf("%q was logged %d times:\n%s", message, got, &out)
			}
		}
		if !strings.Contains(out.String(), "topic=t ") {
			t.Errorf("the topic is not named:\n%s", &out)
		}
	})
}

// Damage to one topic is that topic's only. Nodes that know its secrets go on
// with them; the others refuse to sign, because its receivers do not know the
// default.
func TestDamagedSecretsHarmOneTopic(t *testing.T) {
	nodes, docs, c := cluster(t, 2)
	a, b := nodes[0], nodes[1]
	own, _, err := a.Rotate(t.Context(), "t", 0)
	if err != nil {
		t.Fatal(err)
	}
	a.wantSigned("t", c.Now(), own)
	docs.overwrite(false, func(_ string, old []byte) []byte {
		return bytes.Replace(old, []byte(`"box":"`), []byte(`"box":"AAAA`), 1)
	})
	look(a, b)
	a.wantSigned("t", c.Now(), own)
	a.wantSigned("u", c.Now(), a.made)
	b.wantSigned("u", c.Now(), a.made)
	if _, err := b.Sign(t.Context(), "t", "id", c.Now(), nil); !errors.Is(err, signing.ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

func TestConcurrentSigningAndRotation(t *testing.T) {
	nodes, _, c := cluster(t, 3)
	var mu sync.Mutex
	secrets := map[string]bool{nodes[0].made: true}
	var all sync.WaitGroup
	for _, n := range nodes {
		for range 2 {
			all.Go(func() {
				for range 50 {
					h := n.header("t", c.Now())
					mu.Lock()
					fits := false
					for secret := range secrets {
						fits = fits || verify(t, secret, h, body) == nil
					}
					mu.Unlock()
					if !fits {
						t.Error("signed with a secret that was never set")
					}
				}
			})
		}
		all.Go(func() {
			for range 10 {
				s := signing.NewSecret().Reveal()
				mu.Lock()
				secrets[s] = true
				mu.Unlock()
				if _, err := n.Set(t.Context(), "t", s, 0); err != nil && !errors.Is(err, store.ErrConflict) {
					t.Error(err)
				}
				c.Advance(time.Second)
			}
		})
	}
	all.Wait()
	look(nodes...)
	if h, o := nodes[0].header("t", c.Now()), nodes[1].header("t", c.Now()); h.Get("Webhook-Signature") != o.Get("Webhook-Signature") {
		t.Error("the nodes did not come to agree")
	}
}

func BenchmarkSign(b *testing.B) {
	for name, size := range map[string]int{"100B": 100, "256KiB": 256 << 10} {
		b.Run(name, func(b *testing.B) {
			nodes, _, c := cluster(b, 1)
			payload := bytes.Repeat([]byte("x"), size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := nodes[0].Sign(b.Context(), "t", deliveryID, c.Now(), payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A store that lost its documents gets them back from any node that knows them,
// so that a restart finds the secrets that receivers have.
func TestLostSecretsArePutBack(t *testing.T) {
	nodes, docs, c := cluster(t, 2)
	own, _, err := nodes[0].Rotate(t.Context(), "own", 0)
	if err != nil {
		t.Fatal(err)
	}
	look(nodes...)
	docs.lose()
	docs.fail(errDown, "put")
	if err := nodes[0].Load(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("putting them back: %v", err)
	}
	nodes[0].wantSigned("t", c.Now(), nodes[0].made) // what is known stays in use
	docs.hook(nil)
	look(nodes...)
	for _, n := range nodes {
		n.wantSigned("t", c.Now(), nodes[0].made)
		n.wantSigned("own", c.Now(), own)
	}
	if info, err := nodes[1].Info(t.Context(), "own"); err != nil || info.Source != signing.SourceTopic {
		t.Errorf("the topic's: %+v, %v", info, err)
	}
	// A topic's secrets that somebody deleted stay away.
	if err := nodes[0].Delete(t.Context(), "own"); err != nil {
		t.Fatal(err)
	}
	look(nodes...)
	for _, n := range nodes {
		n.wantSigned("own", c.Now(), nodes[0].made)
	}
}
