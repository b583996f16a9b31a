package signing_test

import (
	"testing"
	"time"

	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/redisstore"
)

// What is changed on one node is in use on another within Freshness, whenever
// that has last looked, on the store that nodes share.
func TestChangesReachOtherNodesOnRedis(t *testing.T) {
	redis, c, key := testenv.StartRedis(t), newClock(), masterKey(t)
	newNode := func() node {
		s, err := redisstore.Open(t.Context(), redisstore.Options{URL: redis.URL()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return node{t: t, Keyring: open(t, signing.Options{Documents: s, MasterKeys: []signing.MasterKey{key}, Clock: c})}
	}
	a, b := newNode(), newNode()
	def, err := a.EnsureDefault(t.Context(), "")
	if err != nil || def == "" {
		t.Fatalf("made %t, %v", def != "", err)
	}
	if made, err := b.EnsureDefault(t.Context(), ""); err != nil || made != "" {
		t.Fatalf("made %t, %v", made != "", err)
	}
	for age := time.Duration(0); age < 2*signing.Freshness; age += 500 * time.Millisecond {
		b.header("t", c.Now())
		c.Advance(age)
		first, _, err := a.Rotate(t.Context(), "t", 0)
		if err != nil {
			t.Fatal(err)
		}
		second, _, err := a.Rotate(t.Context(), "t", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		a.wantSigned("t", c.Now(), second, first)
		for range signing.Freshness / time.Second {
			b.header("t", c.Now()) // keeps it busy: others would wait for the store
			c.Advance(time.Second)
		}
		b.wantSigned("t", c.Now(), second, first)

		if err := a.Delete(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		c.Advance(signing.Freshness)
		b.wantSigned("t", c.Now(), def)
	}
}
