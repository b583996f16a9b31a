package store_test

import (
	"hash/fnv"
	"testing"

	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/job"
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
