package signing_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store"
)

func TestPairs(t *testing.T) {
	docs, c, key, later := newDocuments(), newClock(), masterKey(t), masterKey(t)
	type paired struct {
		node
		*signing.Pair
	}
	pair := func(keys ...signing.MasterKey) paired {
		k := open(t, signing.Options{Documents: docs, MasterKeys: keys, Default: signing.NewSecret().Reveal(), Clock: c})
		p := paired{node{Keyring: k, t: t}, k.Pair("qstash", "sig_")}
		look(p.node)
		return p
	}
	a, b := pair(key), pair(key)
	first, err := a.Keys(t.Context())
	if err != nil || first.Current == first.Next || !strings.HasPrefix(first.Current, "sig_") || len(first.Next) < 32 {
		t.Fatalf("got %+v, %v", first, err)
	}
	if same, err := b.Keys(t.Context()); err != nil || same != first {
		t.Errorf("another node has %+v, %v", same, err)
	}
	second, err := a.Pair.Rotate(t.Context())
	if err != nil || second.Current != first.Next || second.Next == first.Current || second.Next == first.Next {
		t.Errorf("rotated %+v to %+v, %v", first, second, err)
	}
	if known, _ := b.Keys(t.Context()); known != first {
		t.Errorf("another node read the store at once")
	}
	look(b.node)
	if known, _ := b.Keys(t.Context()); known != second {
		t.Errorf("another node still has %+v", known)
	}
	if strings.Contains(docs.dump(), second.Current) {
		t.Error("the keys are stored in the clear")
	}

	docs.lose()
	look(b.node, a.node)
	if known, err := b.Keys(t.Context()); err != nil || known != second {
		t.Errorf("after a loss: %+v, %v", known, err)
	}
	docs.fail(store.ErrUnavailable, "get", "list")
	if known, err := a.Keys(t.Context()); err != nil || known != second {
		t.Errorf("in an outage: %+v, %v", known, err)
	}
	if _, err := a.Pair.Rotate(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("rotated in an outage: %v", err)
	}
	fresh := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{key}, Clock: c}).Pair("qstash", "sig_")
	if _, err := fresh.Keys(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a new node in an outage: %v", err)
	}
	docs.hook(nil)

	resealing := pair(later, key)
	if n, err := resealing.Reseal(t.Context()); n != 1 || err != nil {
		t.Errorf("resealed %d, %v", n, err)
	}
	if n, err := resealing.Reseal(t.Context()); n != 0 || err != nil {
		t.Errorf("resealed %d again, %v", n, err)
	}
	for _, p := range []paired{resealing, pair(later)} {
		if known, err := p.Keys(t.Context()); err != nil || known != second {
			t.Errorf("resealed: %+v, %v", known, err)
		}
	}
	if _, err := pair(masterKey(t)).Keys(t.Context()); !errors.Is(err, signing.ErrMasterKey) {
		t.Errorf("with another master key: %v", err)
	}
}

// Calls that need the keys at the same time make them once.
func TestPairsAreMadeOnce(t *testing.T) {
	docs, key := newDocuments(), masterKey(t)
	p := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{key}}).Pair("qstash", "sig_")
	var all sync.WaitGroup
	var got [20]signing.KeyPair
	for i := range got {
		all.Go(func() {
			var err error
			if got[i], err = p.Keys(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, pair := range got[1:] {
		if pair != got[0] || pair.Next == "" {
			t.Errorf("got %+v and %+v", got[0], pair)
		}
	}
}
