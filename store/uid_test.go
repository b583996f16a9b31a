package store_test

import (
	"hash/fnv"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// A uid tells the hash of its job's key, also if the job's id is the uid.
func TestUIDHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := job.Key{Topic: rapid.String().Draw(t, "topic"), ID: rapid.String().Draw(t, "id")}
		made := ulid.Make()
		uid := store.BindUID(made.String(), key)
		bound, err := ulid.ParseStrict(uid)
		if err != nil || bound.Time() != made.Time() {
			t.Fatalf("%s of %s is no ULID of the same time: %v", uid, made, err)
		}
		if key.ID == "" {
			key.ID = uid
		}
		want := fnv.New32a()
		_, _ = want.Write([]byte(key.String()))
		if got, ok := store.UIDHash(uid); !ok || got != want.Sum32() || got != store.KeyHash(key) {
			t.Fatalf("%s tells the hash %d, %v; that of %s is %d, by KeyHash %d", uid, got, ok, key, want.Sum32(), store.KeyHash(key))
		}
	})
	for _, uid := range []string{"", "01KDWCJ2M0", "01KDWCJ2M000000000000000001", "01KDWCJ2M0000000000000000U", "01kdwcj2m000000000000000a1"} {
		if _, ok := store.UIDHash(uid); ok {
			t.Errorf("%q tells a hash", uid)
		}
	}
}

// A uid belongs to its key and order key, wherever it was made.
func TestUIDOf(t *testing.T) {
	const made = "01M8KQXTCMASKQPERGG1TRHNRH"
	plain, ordered, own := job.Key{Topic: "t", ID: "a"}, job.Key{Topic: "t", ID: "b"}, job.Key{Topic: "t"}
	uid, of := store.BindUID(made, plain), store.OrderUID(store.BindUID(made, ordered), "t", "k")
	self := store.BindUID(made, own)
	own.ID = self
	for name, c := range map[string]struct {
		uid   string
		key   job.Key
		order string
		want  bool
	}{
		"its key":               {uid, plain, "", true},
		"another id":            {uid, ordered, "", false},
		"another topic":         {uid, job.Key{Topic: "u", ID: "a"}, "", false},
		"an order key":          {of, ordered, "k", true},
		"another order key":     {of, ordered, "l", false},
		"without its order key": {of, ordered, "", false},
		"the id of its own":     {self, own, "", true},
		"a short one":           {uid[:25], plain, "", false},
		"in lower case":         {strings.ToLower(uid), plain, "", false},
		"no time":               {"Z" + uid[1:], plain, "", false},
		"no letter":             {uid[:3] + "U" + uid[4:], plain, "", false},
	} {
		if got := store.UIDOf(c.uid, c.key, c.order); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
