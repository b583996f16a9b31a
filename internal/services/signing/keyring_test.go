package signing_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

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

func TestNothingKnownAndNothingToRead(t *testing.T) {
	docs, c, key := testenv.NewDocuments(t), newClock(), masterKey(t)
	n := node{t: t, Secrets: open(t, signing.Options{Documents: docs, Clock: c}, key)}
	sign := func() error {
		_, err := n.Sign(t.Context(), "t", "id", c.Now(), nil)
		return err
	}
	if err := sign(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("before a read: %v", err)
	}
	look(n)
	if err := sign(); !errors.Is(err, signing.ErrNoSecret) {
		t.Errorf("without a default: %v", err)
	}
	if err := open(t, signing.Options{Documents: docs}).EnsureDefault(t.Context(), keep); !errors.Is(err, documents.ErrNoMasterKey) {
		t.Errorf("without a master key: %v", err)
	}
}

// Damage to one topic is that topic's only. Nodes that know its secrets go on
// with them; the others refuse to sign, because its receivers do not know the
// default.
func TestDamagedSecretsHarmOneTopic(t *testing.T) {
	nodes, docs, c := cluster(t, 2)
	a, b := nodes[0], nodes[1]
	own := a.rotate("t", 0)
	docs.Overwrite(kind, "t", "garbage")
	look(a, b)
	a.wantSigned("t", c.Now(), own)
	a.wantSigned("u", c.Now(), a.made)
	b.wantSigned("u", c.Now(), a.made)
	_, errSign := b.Sign(t.Context(), "t", "id", c.Now(), nil)
	_, errInfo := b.Info(t.Context(), "t")
	_, errReplace := b.Replace(t.Context(), "t", "", 0)
	for _, err := range []error{errSign, errInfo, errReplace} {
		if !errors.Is(err, documents.ErrDamaged) {
			t.Errorf("got %v", err)
		}
	}
	must.OK(t, b.Delete(t.Context(), "t")) // what cannot be opened can still be taken away
	b.wantSigned("t", c.Now(), a.made)
}

// A node without the master key of the stored secrets signs nothing, and makes no default of its own.
func TestWrongMasterKey(t *testing.T) {
	_, docs, c := cluster(t, 1)
	n := node{t: t, Secrets: open(t, signing.Options{Documents: docs, Clock: c}, masterKey(t))}
	before := docs.Dump(kind)
	errStart := n.EnsureDefault(t.Context(), keep)
	look(n)
	_, errSign := n.Sign(t.Context(), "t", "id", c.Now(), nil)
	for _, err := range []error{errStart, errSign} {
		if !errors.Is(err, documents.ErrMasterKey) || docs.Dump(kind) != before {
			t.Errorf("got %v", err)
		}
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
