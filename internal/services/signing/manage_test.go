package signing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	kit "github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store"
)

func parsed(t testing.TB, text string) signing.Secret {
	t.Helper()
	s, err := signing.ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Nodes that start at the same time store one default, which follows from their master key. Each
// passes it to HandOut before the store gets it.
func TestConcurrentStartsAgreeOnTheDefault(t *testing.T) {
	docs, c, key := newDocuments(), newClock(), masterKey(t)
	const n = 16
	var looked, all sync.WaitGroup
	looked.Add(n)
	nodes := make([]node, n)
	for i := range nodes {
		var secret string
		k := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{key}, Clock: c, HandOut: func(made string) error {
			if secret == "" { // nobody writes before everybody has seen that there is nothing
				looked.Done()
				looked.Wait()
			}
			secret = made
			return nil
		}})
		all.Go(func() {
			nodes[i] = begun(t, k)
			if secret != k.MadeDefault() {
				t.Errorf("node %d handed out %t", i, secret != "")
			}
		})
	}
	all.Wait()
	for _, k := range nodes {
		k.wantSigned("t", c.Now(), nodes[0].made)
	}
	if d, err := store.ReadDocument(t.Context(), docs, kindTopic, defaultName); err != nil || d.Version != 1 {
		t.Errorf("it was written %d times, %v", d.Version, err)
	}
}

func TestDefaultThatCannotBeHandedOut(t *testing.T) {
	docs, failed := newDocuments(), errors.New("the disk is full")
	k := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{masterKey(t)}, HandOut: func(string) error { return failed }})
	if err := k.EnsureDefault(t.Context()); !errors.Is(err, failed) || docs.dump() != "" {
		t.Errorf("%v; stored %q", err, docs.dump())
	}
}

// A store that lost everything while no node ran gets the same default again.
func TestDefaultFollowsFromTheMasterKey(t *testing.T) {
	docs, c, text := newDocuments(), newClock(), signing.GenerateMasterKey()
	var made []string
	for range 2 {
		key, err := signing.ParseMasterKey(text)
		if err != nil {
			t.Fatal(err)
		}
		n := begun(t, open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{key, masterKey(t)}, Clock: c}))
		n.wantSigned("t", c.Now(), n.made)
		made = append(made, n.made)
		docs.lose()
	}
	other := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{masterKey(t)}, Clock: c})
	if made[0] != made[1] || made[0] == other.MadeDefault() {
		t.Error("the default does not follow from the master key alone")
	}
}

func TestConfiguredDefault(t *testing.T) {
	_, docs, c := cluster(t, 1) // with another master key
	current, old := signing.NewSecret().Reveal(), signing.NewSecret().Reveal()
	before := docs.dump()
	o := signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{masterKey(t)}, Default: current + "," + old, Clock: c}
	n := node{Keyring: open(t, o), t: t}
	look(n)
	n.wantSigned("t", c.Now(), current, old)
	n.wantSigned("", c.Now(), current, old)
	n.wantSigned("t", c.Now().Add(365*24*time.Hour), current, old)
	if docs.dump() != before {
		t.Error("configured secrets were stored")
	}

	if _, _, err := n.Rotate(t.Context(), "", 0); !errors.Is(err, signing.ErrConfigured) {
		t.Errorf("rotating it: %v", err)
	}
	if _, err := n.Set(t.Context(), "", current, 0); !errors.Is(err, signing.ErrConfigured) {
		t.Errorf("setting it: %v", err)
	}
	want := signing.Info{Source: signing.SourceSettings, Secrets: []signing.SecretInfo{
		{ID: parsed(t, current).ID()}, {ID: parsed(t, old).ID()},
	}}
	if got, err := n.Info(t.Context(), ""); err != nil || !gocmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	own, _, err := n.Rotate(t.Context(), "t", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	n.wantSigned("t", c.Now(), own, current, old)
	n.wantSigned("t", c.Now().Add(time.Hour), own)

	for _, bad := range []string{"secret", current + ",", current[:20]} {
		o.Default = bad
		if _, err := signing.New(o); err == nil {
			t.Errorf("%d characters: no error", len(bad))
		}
	}
}

func TestInfo(t *testing.T) {
	nodes, docs, c := cluster(t, 2)
	n, start := nodes[0], job.InstantOf(c.Now())
	want := signing.Info{Topic: "t", Source: signing.SourceDefault, Secrets: []signing.SecretInfo{
		{ID: parsed(t, n.made).ID(), CreatedAt: start},
	}}
	if got, err := n.Info(t.Context(), "t"); err != nil || !gocmp.Equal(got, want) {
		t.Errorf("without one of its own: %+v, %v", got, err)
	}

	c.Advance(time.Minute)
	own, rotated, err := n.Rotate(t.Context(), "t", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	now := start.Add(time.Minute)
	stamp := kit.Stamp{CreatedAt: now, UpdatedAt: now, Version: uint64(now)}
	want = signing.Info{Stamp: stamp, Topic: "t", Source: signing.SourceTopic, Secrets: []signing.SecretInfo{
		{ID: parsed(t, own).ID(), CreatedAt: now},
		{ID: parsed(t, n.made).ID(), CreatedAt: start, EndsAt: now.Add(time.Hour)},
	}}
	if diff := gocmp.Diff(signing.Change{Info: want, First: true}, rotated); diff != "" {
		t.Errorf("from Rotate: %s", diff)
	}
	// Another node knows it at once: it asks the store.
	if got, err := nodes[1].Info(t.Context(), "t"); err != nil || !gocmp.Equal(got, want) {
		t.Errorf("%v: %s", err, gocmp.Diff(want, got))
	}

	c.Advance(time.Hour)
	want.Secrets = want.Secrets[:1]
	if got, err := n.Info(t.Context(), "t"); err != nil || !gocmp.Equal(got, want) {
		t.Errorf("after the overlap: %v: %s", err, gocmp.Diff(want, got))
	}

	docs.fail(errDown, "get")
	if _, err := n.Info(t.Context(), "t"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with the store down: %v", err)
	}
}

func TestSet(t *testing.T) {
	nodes, docs, c := cluster(t, 1)
	n, start := nodes[0], c.Now()
	mine := signing.NewSecret().Reveal()
	first, err := n.Set(t.Context(), "t", mine, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	n.wantSigned("t", start, mine, n.made)

	// A client that did not get the answer asks again.
	c.Advance(time.Minute)
	before := docs.dump()
	again, err := n.Set(t.Context(), "t", mine, time.Hour)
	if !first.First {
		t.Error("it is not said to be the first")
	}
	first.First = false
	if err != nil || !gocmp.Equal(again, first) || docs.dump() != before {
		t.Errorf("the same again: %v\n%s", err, gocmp.Diff(first, again))
	}
	n.wantSigned("t", start.Add(time.Hour), mine)

	// Back to the default's secret, which is in the ring already.
	if _, err := n.Set(t.Context(), "t", n.made, time.Hour); err != nil {
		t.Fatal(err)
	}
	n.wantSigned("t", c.Now(), n.made, mine)

	if _, err := n.Set(t.Context(), "t", n.made, 0); err != nil {
		t.Fatal(err)
	}
	n.wantSigned("t", c.Now(), n.made)
}

func TestBadArguments(t *testing.T) {
	nodes, docs, _ := cluster(t, 1)
	n, good := nodes[0], signing.NewSecret().Reveal()
	before := docs.dump()
	set := func(topic, secret string, overlap time.Duration) error {
		_, err := n.Set(t.Context(), topic, secret, overlap)
		return err
	}
	rotate := func(topic string, overlap time.Duration) error {
		_, _, err := n.Rotate(t.Context(), topic, overlap)
		return err
	}
	info := func(topic string) error {
		_, err := n.Info(t.Context(), topic)
		return err
	}
	for _, tt := range []struct {
		name  string
		err   error
		where []string
	}{
		{"set: secret", set("t", "hunter2", 0), []string{"secret"}},
		{"set: topic", set("a/b", good, 0), []string{"topic"}},
		{"set: all", set("..", "", -1), []string{"topic", "overlap", "secret"}},
		{"set: overlap", set("t", good, signing.MaxOverlap+1), []string{"overlap"}},
		{"rotate: overlap below zero", rotate("t", -1), []string{"overlap"}},
		{"rotate: overlap too long", rotate("", signing.MaxOverlap+time.Hour), []string{"overlap"}},
		{"rotate: topic", rotate("a b", 0), []string{"topic"}},
		{"info: topic", info("{t}"), []string{"topic"}},
		{"delete: topic", n.Delete(t.Context(), "t t"), []string{"topic"}},
		{"delete: the default", n.Delete(t.Context(), ""), []string{"topic"}},
	} {
		var bad *job.ValidationError
		if !errors.As(tt.err, &bad) {
			t.Errorf("%s: %v", tt.name, tt.err)
			continue
		}
		var where []string
		for _, f := range bad.Fields {
			where = append(where, string(f.Field))
		}
		if !slices.Equal(where, tt.where) || strings.Contains(tt.err.Error(), "hunter2") {
			t.Errorf("%s: %v", tt.name, tt.err)
		}
	}
	if docs.dump() != before {
		t.Error("something was stored")
	}
}

func TestTopicsWithSecretsAreBounded(t *testing.T) {
	nodes, docs, c := cluster(t, 1)
	c.Advance(time.Minute) // they are counted now and then
	for i := range signing.MaxTopics {
		other := store.Document{Kind: kindTopic, Name: fmt.Sprint("t", i), Data: []byte("sealed")}
		if _, err := store.PutDocument(t.Context(), docs, other); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := nodes[0].Rotate(t.Context(), "more", 0); !errors.Is(err, signing.ErrTooManyTopics) {
		t.Errorf("one more: %v", err)
	}
	if _, _, err := nodes[0].Rotate(t.Context(), "", 0); err != nil {
		t.Errorf("the default: %v", err)
	}
	if err := nodes[0].Delete(t.Context(), "t7"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := nodes[0].Rotate(t.Context(), "more", 0); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
}

func TestDelete(t *testing.T) {
	nodes, docs, c := cluster(t, 1)
	n := nodes[0]
	if err := n.Delete(t.Context(), "t"); !errors.Is(err, signing.ErrNoSecret) {
		t.Errorf("nothing to delete: %v", err)
	}
	if _, _, err := n.Rotate(t.Context(), "t", 0); err != nil {
		t.Fatal(err)
	}
	docs.fail(errDown, "delete")
	if err := n.Delete(t.Context(), "t"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with the store down: %v", err)
	}
	docs.hook(nil)
	// What cannot be opened can still be taken away.
	docs.overwrite(false, func(string, []byte) []byte { return []byte("garbage") })
	if err := n.Delete(t.Context(), "t"); err != nil {
		t.Error(err)
	}
	n.wantSigned("t", c.Now(), n.made)
}

func TestFailedWritesChangeNothing(t *testing.T) {
	nodes, docs, c := cluster(t, 1)
	n := nodes[0]
	n.header("t", c.Now())
	for _, cause := range []error{errDown, store.ErrConflict} {
		docs.fail(cause, "put")
		secret, _, err := n.Rotate(t.Context(), "t", 0)
		if !errors.Is(err, cause) || secret != "" {
			t.Errorf("got %v, secret %t", err, secret != "")
		}
		n.wantSigned("t", c.Now(), n.made)
	}
	docs.fail(errDown, "get")
	if _, _, err := n.Rotate(t.Context(), "t", 0); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	other := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{masterKey(t)}, Clock: c})
	if err := other.EnsureDefault(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("ensuring the default: %v", err)
	}
}

// Two nodes rotate at the same time: both secrets are in the ring afterwards.
func TestConcurrentRotationsLoseNothing(t *testing.T) {
	nodes, docs, c := cluster(t, 2)
	var inner string
	docs.hook(func(_ context.Context, call, _, _ string) (err error) {
		if call == "put" {
			docs.hook(nil)
			inner, _, err = nodes[1].Rotate(t.Context(), "t", time.Hour)
		}
		return err
	})
	outer, _, err := nodes[0].Rotate(t.Context(), "t", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	nodes[0].wantSigned("t", c.Now(), outer, inner, nodes[0].made)
	look(nodes[1])
	nodes[1].wantSigned("t", c.Now(), outer, inner, nodes[0].made)
}

// forgetful carries a write out, and once says that another came first: as if
// the answer was lost and the client of the store asked again.
type forgetful struct {
	*documents
	lost bool
}

func (f *forgetful) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	versions, err := f.documents.PutDocuments(ctx, docs)
	if err == nil && !f.lost {
		f.lost = true
		return []uint64{0}, nil
	}
	return versions, err
}

func TestLostAnswersOfTheStore(t *testing.T) {
	docs, c := &forgetful{documents: newDocuments()}, newClock()
	n := begun(t, open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{masterKey(t)}, Clock: c}))
	n.wantSigned("t", c.Now(), n.made)

	docs.lost = false
	own, info, err := n.Rotate(t.Context(), "t", time.Hour)
	if err != nil || len(info.Secrets) != 2 {
		t.Fatalf("%+v, %v", info, err)
	}
	n.wantSigned("t", c.Now(), own, n.made)
}

// Without a master key nothing can be kept, least of all in the clear.
func TestNoMasterKey(t *testing.T) {
	docs, c := newDocuments(), newClock()
	n := node{t: t, Keyring: open(t, signing.Options{Documents: docs, Clock: c})}
	secret := signing.NewSecret().Reveal()
	if err := n.EnsureDefault(t.Context()); !errors.Is(err, signing.ErrNoMasterKey) {
		t.Errorf("making the default: %v", err)
	}
	if _, err := n.Set(t.Context(), "t", secret, 0); !errors.Is(err, signing.ErrNoMasterKey) {
		t.Errorf("setting: %v", err)
	}
	if made, _, err := n.Rotate(t.Context(), "t", 0); !errors.Is(err, signing.ErrNoMasterKey) || made != "" {
		t.Errorf("rotating: %t, %v", made != "", err)
	}
	if done, err := n.Reseal(t.Context()); done != 0 || err != nil {
		t.Errorf("resealed %d, %v", done, err)
	}
	if docs.dump() != "" {
		t.Errorf("stored %s", docs.dump())
	}
	n.Keyring = open(t, signing.Options{Documents: docs, Default: secret, Clock: c})
	look(n)
	n.wantSigned("t", c.Now(), secret)

	// Another node keeps secrets: this one refuses to take the default for them.
	other := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{masterKey(t)}, Clock: c})
	if _, _, err := other.Rotate(t.Context(), "t", 0); err != nil {
		t.Fatal(err)
	}
	look(n)
	if _, err := n.Sign(t.Context(), "t", "id", c.Now(), nil); !errors.Is(err, signing.ErrMasterKey) {
		t.Errorf("signing: %v", err)
	}
	if _, err := n.Reseal(t.Context()); !errors.Is(err, signing.ErrMasterKey) {
		t.Errorf("resealing: %v", err)
	}
	if err := n.Delete(t.Context(), "t"); err != nil {
		t.Error(err)
	}
	n.wantSigned("t", c.Now(), secret)
}

// Overlaps end by the store's time, whatever the clock of the node that rotates a secret, and of the node that signs.
func TestOverlapsEndByTheStoresTime(t *testing.T) {
	for _, wrong := range []time.Duration{-time.Hour, 0, 10 * time.Minute, 26 * time.Hour} {
		stored, local := newClock(), newClock()
		local.Advance(wrong)
		docs, key := newDocuments(), masterKey(t)
		o := signing.Options{
			Documents: docs, MasterKeys: []signing.MasterKey{key}, Clock: local,
			Now: func() job.Instant { return job.InstantOf(stored.Now()) },
		}
		n := begun(t, open(t, o))
		next, change, err := n.Rotate(t.Context(), "t", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := change.Secrets[1].EndsAt, job.InstantOf(stored.Now()).Add(time.Hour); got != want {
			t.Errorf("a clock that is wrong by %v: the overlap ends at %s, not %s", wrong, got.RFC3339(), want.RFC3339())
		}
		look(n)
		stored.Advance(time.Hour - time.Second)
		n.wantSigned("t", stored.Now(), next, n.made) // attempts have the store's time
		if i, err := n.Info(t.Context(), "t"); err != nil || len(i.Secrets) != 2 {
			t.Errorf("%d secrets, %v", len(i.Secrets), err)
		}
		stored.Advance(time.Second)
		n.wantSigned("t", stored.Now(), next)
		if i, err := n.Info(t.Context(), "t"); err != nil || len(i.Secrets) != 1 {
			t.Errorf("after the end: %d secrets, %v", len(i.Secrets), err)
		}
	}
}
