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

	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store"
)

// toBeSeen is within how long a change must be seen by other nodes.
const toBeSeen = signing.Freshness

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

func TestTopicsOwnSecretComesBeforeTheDefault(t *testing.T) {
	nodes, _, c := cluster(t, 1)
	n := nodes[0]
	own, _, err := n.Rotate(t.Context(), "orders", 0)
	if err != nil {
		t.Fatal(err)
	}
	n.wantSigned("orders", c.Now(), own)
	n.wantSigned("payments", c.Now(), n.made)
	n.wantSigned("", c.Now(), n.made)
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

func TestRotationOverlaps(t *testing.T) {
	nodes, _, c := cluster(t, 1)
	n, start := nodes[0], c.Now()
	end := start.Add(time.Hour)
	second, _, err := n.Rotate(t.Context(), "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	n.wantSigned("t", start, second, n.made)
	n.wantSigned("t", end.Add(-time.Millisecond), second, n.made)
	n.wantSigned("t", end, second)

	c.Advance(59 * time.Minute)
	third, _, err := n.Rotate(t.Context(), "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	n.wantSigned("t", c.Now(), third, second, n.made)
	n.wantSigned("t", end, third, second)
	n.wantSigned("t", c.Now().Add(time.Hour), third)

	// Without overlap, nothing of before is left: that is for leaked secrets.
	fourth, _, err := n.Rotate(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	n.wantSigned("t", c.Now(), fourth)
}

// A topic's receivers know the default until they have learned the topic's own.
func TestDefaultOverlapsTopicsFirstSecret(t *testing.T) {
	nodes, _, c := cluster(t, 1)
	n := nodes[0]
	own, _, err := n.Rotate(t.Context(), "orders", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	n.wantSigned("orders", c.Now(), own, n.made)
	n.wantSigned("orders", c.Now().Add(time.Hour), own)
}

func TestSigningSeldomReads(t *testing.T) {
	nodes, docs, c := cluster(t, 1)
	n := nodes[0]
	n.header("t", c.Now())
	before := docs.count()
	for range 100 {
		n.header("t", c.Now())
	}
	if got := docs.count() - before; got != 0 {
		t.Errorf("100 signatures made %d calls to the store", got)
	}
	for range 60 {
		c.Advance(time.Second)
		n.header("t", c.Now())
		n.header("u", c.Now())
	}
	if got := docs.count() - before; got != 60/3 {
		t.Errorf("a minute of signing made %d calls to the store; want 1 every 3 s", got)
	}
}

func TestChangesReachOtherNodes(t *testing.T) {
	nodes, _, c := cluster(t, 2)
	a, b := nodes[0], nodes[1]
	for _, idle := range []bool{false, true} {
		b.header("t", c.Now())
		secret, _, err := a.Rotate(t.Context(), "t", 0)
		if err != nil {
			t.Fatal(err)
		}
		a.wantSigned("t", c.Now(), secret)
		for range toBeSeen / time.Second {
			c.Advance(time.Second)
			if !idle {
				b.header("t", c.Now())
			}
		}
		b.wantSigned("t", c.Now(), secret)
	}
	if err := a.Delete(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	a.wantSigned("t", c.Now(), a.made)
	c.Advance(toBeSeen)
	b.wantSigned("t", c.Now(), a.made)
}

var errDown = errors.Join(store.ErrUnavailable, errors.New("the store is down"))

func TestKnownSecretsOutlastTheStore(t *testing.T) {
	nodes, docs, c := cluster(t, 2)
	a, b := nodes[0], nodes[1]
	own, _, err := a.Rotate(t.Context(), "t", 0)
	if err != nil {
		t.Fatal(err)
	}
	b.wantSigned("t", c.Now(), own)
	for _, broken := range []string{"list", "get"} {
		docs.fail(errDown, broken)
		for range 24 {
			c.Advance(time.Hour)
			b.wantSigned("t", c.Now(), own)
			b.wantSigned("u", c.Now(), a.made)
		}
	}
	docs.hook(nil)
	second, _, err := a.Rotate(t.Context(), "t", 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Advance(toBeSeen)
	b.wantSigned("t", c.Now(), second)
}

func TestNothingKnownAndNothingToRead(t *testing.T) {
	docs, c := newDocuments(), newClock()
	k := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{masterKey(t)}, Clock: c})
	sign := func() error {
		_, err := k.Sign(t.Context(), "t", "id", c.Now(), nil)
		return err
	}
	docs.fail(errDown, "list")
	for range 10 {
		if err := sign(); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
	}
	if got := docs.count(); got != 1 {
		t.Errorf("a store that is down was asked %d times at the same instant", got)
	}
	docs.hook(nil)
	c.Advance(toBeSeen)
	if err := sign(); !errors.Is(err, signing.ErrNoSecret) {
		t.Errorf("without a default: %v", err)
	}
}

// A caller that gives up must not make the others believe that the store is
// down.
func TestCallersDeadlineIsItsOwn(t *testing.T) {
	nodes, docs, c := cluster(t, 1)
	n := nodes[0]
	ended, cancel := context.WithCancel(t.Context())
	docs.hook(func(ctx context.Context, _, _, _ string) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if _, err := n.Sign(ended, "t", "id", c.Now(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("nothing known: %v", err)
	}
	docs.hook(nil)
	n.wantSigned("t", c.Now(), n.made)

	c.Advance(time.Hour)
	docs.hook(func(ctx context.Context, _, _, _ string) error { return ctx.Err() })
	if _, err := n.Sign(ended, "t", "id", c.Now(), nil); err != nil {
		t.Errorf("with known secrets: %v", err)
	}
}

// While one call reads from a store that hangs, others sign with what is
// known; nobody waits longer than the reading may take.
func TestHangingStoreHoldsUpFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, docs, c := cluster(t, 1)
		n := nodes[0]
		n.header("t", c.Now())
		docs.hook(func(ctx context.Context, _, _, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		})
		for name, tt := range map[string]struct {
			idle time.Duration
			all  bool
		}{
			"signing all the time": {3 * time.Second, false},
			"after a long pause":   {time.Hour, true},
		} {
			c.Advance(tt.idle)
			start, waited := time.Now(), 0
			var mu sync.Mutex
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					n.wantSigned("t", c.Now(), n.made)
					mu.Lock()
					defer mu.Unlock()
					if took := time.Since(start); took > time.Second {
						t.Errorf("%s: took %v", name, took)
					} else if took > 0 {
						waited++
					}
				})
			}
			all.Wait()
			if want := map[bool]int{false: 1, true: 10}[tt.all]; waited != want {
				t.Errorf("%s: %d of 10 waited; want %d", name, waited, want)
			}
		}
		// One that waits for storeCalls can give up.
		c.Advance(time.Hour)
		var other sync.WaitGroup
		other.Go(func() { n.header("t", c.Now()) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := n.Sign(ctx, "t", "id", c.Now(), nil); err != nil {
			t.Errorf("with known secrets: %v", err)
		}
		if _, _, err := n.Rotate(ctx, "t", 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a change in the meantime: %v", err)
		}
		other.Wait()
	})
}

func TestTroubleIsLoggedOnce(t *testing.T) {
	docs, c := newDocuments(), newClock()
	var out bytes.Buffer
	k := open(t, signing.Options{
		Documents: docs, MasterKeys: []signing.MasterKey{masterKey(t)}, Clock: c,
		Logger: slog.New(slog.NewTextHandler(&out, nil)),
	})
	if _, err := k.EnsureDefault(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	n := node{Keyring: k, t: t}
	if _, _, err := k.Rotate(t.Context(), "t", 0); err != nil {
		t.Fatal(err)
	}
	pass := func() {
		for range 5 {
			c.Advance(toBeSeen)
			n.header("t", c.Now())
		}
	}
	pass()
	if out.Len() > 0 {
		t.Errorf("logged without trouble:\n%s", &out)
	}
	docs.fail(errDown, "list")
	pass()
	docs.hook(nil)
	pass()
	docs.overwrite(false, func(string, []byte) []byte { return []byte("garbage") })
	pass()
	for _, message := range []string{"failing; retrying", "working again", "cannot be decrypted"} {
		if got := strings.Count(out.String(), message); got != 1 {
			t.Errorf("%q was logged %d times:\n%s", message, got, &out)
		}
	}
	if !strings.Contains(out.String(), "topic=t ") {
		t.Errorf("the topic is not named:\n%s", &out)
	}
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
	c.Advance(toBeSeen)
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
	c.Advance(toBeSeen)
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
	for _, n := range nodes {
		n.header("own", c.Now()) // reads them
	}
	docs.lose()
	docs.fail(errDown, "put")
	c.Advance(toBeSeen)
	nodes[0].wantSigned("t", c.Now(), nodes[0].made) // what is known stays in use
	docs.hook(nil)
	c.Advance(toBeSeen)
	for _, n := range nodes {
		n.wantSigned("t", c.Now(), nodes[0].made)
		n.wantSigned("own", c.Now(), own)
	}
	if info, err := nodes[1].Info(t.Context(), "own"); err != nil || info.Source != signing.SourceTopic {
		t.Errorf("the topic's: %+v, %v", info, err)
	}
	if made, err := nodes[1].EnsureDefault(t.Context(), ""); err != nil || made != "" {
		t.Errorf("another default was made: %t, %v", made != "", err)
	}
	// A topic's secrets that somebody deleted stay away.
	if err := nodes[0].Delete(t.Context(), "own"); err != nil {
		t.Fatal(err)
	}
	c.Advance(toBeSeen)
	for _, n := range nodes {
		n.wantSigned("own", c.Now(), nodes[0].made)
	}
}

// Once the secrets were loaded, a store that cannot be read keeps nobody from
// signing.
func TestLoadedSecretsSignWithoutTheStore(t *testing.T) {
	nodes, docs, c := cluster(t, 1)
	docs.fail(errDown, "list")
	if err := nodes[0].Load(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("loading from a store that is down: %v", err)
	}
	docs.hook(nil)
	if err := nodes[0].Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	docs.fail(errDown, "list", "get")
	c.Advance(time.Hour)
	nodes[0].wantSigned("t", c.Now(), nodes[0].made)
}
