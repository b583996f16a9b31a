package signing_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store"
)

func TestPairs(t *testing.T) {
	docs, c, key, later := newDocuments(), newClock(), masterKey(t), masterKey(t)
	pair := func(keys ...signing.MasterKey) (*signing.Keyring, *signing.Pair) {
		k := open(t, signing.Options{Documents: docs, MasterKeys: keys, Clock: c})
		return k, k.Pair("qstash", "sig_", docs)
	}
	_, a := pair(key)
	_, b := pair(key)
	first, err := a.Keys(t.Context())
	if err != nil || first.Current == first.Next || !strings.HasPrefix(first.Current, "sig_") || len(first.Next) < 32 {
		t.Fatalf("got %+v, %v", first, err)
	}
	if same, err := b.Keys(t.Context()); err != nil || same != first {
		t.Errorf("another node has %+v, %v", same, err)
	}
	second, err := a.Rotate(t.Context())
	if err != nil || second.Current != first.Next || second.Next == first.Current || second.Next == first.Next {
		t.Errorf("rotated %+v to %+v, %v", first, second, err)
	}
	if known, _ := b.Keys(t.Context()); known != first {
		t.Errorf("another node read the store at once")
	}
	c.Advance(time.Minute)
	if known, _ := b.Keys(t.Context()); known != second {
		t.Errorf("another node still has %+v", known)
	}
	if strings.Contains(docs.dump(), second.Current) {
		t.Error("the keys are stored in the clear")
	}

	docs.lose()
	c.Advance(time.Minute)
	if known, err := b.Keys(t.Context()); err != nil || known != second {
		t.Errorf("after a loss: %+v, %v", known, err)
	}
	docs.fail(store.ErrUnavailable, "get")
	c.Advance(time.Minute)
	if known, err := a.Keys(t.Context()); err != nil || known != second {
		t.Errorf("in an outage: %+v, %v", known, err)
	}
	if _, err := a.Rotate(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("rotated in an outage: %v", err)
	}
	_, fresh := pair(key)
	if _, err := fresh.Keys(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a new node in an outage: %v", err)
	}
	docs.hook(nil)

	ring, resealing := pair(later, key)
	if n, err := ring.Reseal(t.Context()); n != 1 || err != nil {
		t.Errorf("resealed %d, %v", n, err)
	}
	if n, err := ring.Reseal(t.Context()); n != 0 || err != nil {
		t.Errorf("resealed %d again, %v", n, err)
	}
	_, alone := pair(later)
	for _, p := range []*signing.Pair{resealing, alone} {
		if known, err := p.Keys(t.Context()); err != nil || known != second {
			t.Errorf("resealed: %+v, %v", known, err)
		}
	}
	_, foreign := pair(masterKey(t))
	if _, err := foreign.Keys(t.Context()); !errors.Is(err, signing.ErrMasterKey) {
		t.Errorf("with another master key: %v", err)
	}
}
