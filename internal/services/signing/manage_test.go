package signing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
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
// hands it out before the store gets it.
func TestConcurrentStartsAgreeOnTheDefault(t *testing.T) {
	docs, c, key := testenv.NewDocuments(t), newClock(), masterKey(t)
	const n = 16
	var looked, all sync.WaitGroup
	looked.Add(n)
	nodes := make([]node, n)
	for i := range nodes {
		nodes[i] = node{t: t, Secrets: open(t, signing.Options{Documents: docs, Clock: c}, key)}
		all.Go(func() {
			var secret string
			err := nodes[i].EnsureDefault(t.Context(), func(made string) error {
				if secret == "" { // nobody writes before everybody has seen that there is nothing
					looked.Done()
					looked.Wait()
				}
				secret = made
				return nil
			})
			if err != nil || secret != signing.DefaultOf(key) {
				t.Errorf("node %d handed out %t, %v", i, secret != "", err)
			}
		})
	}
	all.Wait()
	look(nodes...)
	for _, k := range nodes {
		k.wantSigned("t", c.Now(), signing.DefaultOf(key))
	}
	must.Equal(t, "writes", docs.Stored(kind)[0].Version, 1)
}

func TestDefaultThatCannotBeHandedOut(t *testing.T) {
	docs, failed := testenv.NewDocuments(t), errors.New("the disk is full")
	s := open(t, signing.Options{Documents: docs}, masterKey(t))
	if err := s.EnsureDefault(t.Context(), func(string) error { return failed }); !errors.Is(err, failed) || docs.Dump(kind) != "" {
		t.Errorf("%v; stored %q", err, docs.Dump(kind))
	}
}

// A store that lost everything while no node ran gets the same default again.
func TestDefaultFollowsFromTheMasterKey(t *testing.T) {
	docs, c, text := testenv.NewDocuments(t), newClock(), documents.GenerateMasterKey()
	var made []string
	for range 2 {
		key, err := documents.ParseMasterKey(text)
		must.OK(t, err)
		n := begun(t, open(t, signing.Options{Documents: docs, Clock: c}, key, masterKey(t)), key)
		n.wantSigned("t", c.Now(), n.made)
		made = append(made, n.made)
		docs.Lose(kind)
	}
	if made[0] != made[1] || made[0] == signing.DefaultOf(masterKey(t)) {
		t.Error("the default does not follow from the master key alone")
	}
}

func TestConfiguredDefault(t *testing.T) {
	_, docs, c := cluster(t, 1) // with another master key
	current, old := signing.NewSecret().Reveal(), signing.NewSecret().Reveal()
	before := docs.Dump(kind)
	o := signing.Options{Documents: docs, Default: current + "," + old, Clock: c}
	n := node{Secrets: open(t, o, masterKey(t)), t: t}
	look(n)
	n.wantSigned("t", c.Now(), current, old)
	n.wantSigned("", c.Now(), current, old)
	n.wantSigned("t", c.Now().Add(365*24*time.Hour), current, old)
	if docs.Dump(kind) != before {
		t.Error("configured secrets were stored")
	}

	if _, err := n.Replace(t.Context(), "", current, 0); !errors.Is(err, signing.ErrConfigured) {
		t.Errorf("replacing it: %v", err)
	}
	want := signing.Info{Source: signing.SourceSettings, Secrets: []signing.SecretInfo{
		{ID: parsed(t, current).ID()}, {ID: parsed(t, old).ID()},
	}}
	if got, err := n.Info(t.Context(), ""); err != nil || !gocmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	own := n.rotate("t", time.Hour)
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
	rotated, err := n.Replace(t.Context(), "t", "", time.Hour)
	must.OK(t, err)
	now := start.Add(time.Minute)
	stamp := documents.Stamp{CreatedAt: now, UpdatedAt: now, Version: uint64(now)}
	want = signing.Info{Stamp: stamp, Topic: "t", Source: signing.SourceTopic, Secrets: []signing.SecretInfo{
		{ID: parsed(t, rotated.Secret).ID(), CreatedAt: now},
		{ID: parsed(t, n.made).ID(), CreatedAt: start, EndsAt: now.Add(time.Hour)},
	}}
	if diff := gocmp.Diff(signing.Change{Info: want, Secret: rotated.Secret, First: true}, rotated); diff != "" {
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

	docs.Fail(errDown, "get")
	if _, err := n.Info(t.Context(), "t"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with the store down: %v", err)
	}
}

func TestReplace(t *testing.T) {
	nodes, docs, c := cluster(t, 1)
	n, start := nodes[0], c.Now()
	mine := signing.NewSecret().Reveal()
	first, err := n.Replace(t.Context(), "t", mine, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	n.wantSigned("t", start, mine, n.made)

	// A client that did not get the answer asks again.
	c.Advance(time.Minute)
	before := docs.Dump(kind)
	again, err := n.Replace(t.Context(), "t", mine, time.Hour)
	if !first.First {
		t.Error("it is not said to be the first")
	}
	first.First = false
	if err != nil || !gocmp.Equal(again, first) || docs.Dump(kind) != before {
		t.Errorf("the same again: %v\n%s", err, gocmp.Diff(first, again))
	}
	n.wantSigned("t", start.Add(time.Hour), mine)

	// Back to the default's secret, which is in the ring already.
	if _, err := n.Replace(t.Context(), "t", n.made, time.Hour); err != nil {
		t.Fatal(err)
	}
	n.wantSigned("t", c.Now(), n.made, mine)

	if _, err := n.Replace(t.Context(), "t", n.made, 0); err != nil {
		t.Fatal(err)
	}
	n.wantSigned("t", c.Now(), n.made)
}

func TestTopicsWithSecretsAreBounded(t *testing.T) {
	nodes, docs, c := cluster(t, 1)
	c.Advance(time.Minute) // they are counted now and then
	var others []store.Document
	for i := range signing.MaxTopics {
		others = append(others, store.Document{Kind: kind, Name: fmt.Sprint("t", i), Data: []byte("sealed")})
	}
	for batch := range slices.Chunk(others, 100) {
		_, err := docs.PutDocuments(t.Context(), batch)
		must.OK(t, err)
	}
	if _, err := nodes[0].Replace(t.Context(), "more", "", 0); !errors.Is(err, signing.ErrTooManyTopics) {
		t.Errorf("one more: %v", err)
	}
	if _, err := nodes[0].Replace(t.Context(), "", "", 0); err != nil {
		t.Errorf("the default: %v", err)
	}
	if err := nodes[0].Delete(t.Context(), "t7"); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0].Replace(t.Context(), "more", "", 0); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
}

func TestDelete(t *testing.T) {
	nodes, _, c := cluster(t, 1)
	n := nodes[0]
	if err := n.Delete(t.Context(), "t"); !errors.Is(err, signing.ErrNoSecret) || !strings.Contains(err.Error(), `topic "t" has`) {
		t.Errorf("nothing to delete: %v", err)
	}
	n.rotate("t", 0)
	must.OK(t, n.Delete(t.Context(), "t"))
	n.wantSigned("t", c.Now(), n.made)
}

// Two nodes rotate at the same time: both secrets are in the ring afterwards.
func TestConcurrentRotationsLoseNothing(t *testing.T) {
	nodes, docs, c := cluster(t, 2)
	var inner string
	docs.Hook(func(_ context.Context, call string) (err error) {
		if call == "put" {
			docs.Hook(nil)
			inner = nodes[1].rotate("t", time.Hour)
		}
		return err
	})
	outer := nodes[0].rotate("t", time.Hour)
	nodes[0].wantSigned("t", c.Now(), outer, inner, nodes[0].made)
	look(nodes[1])
	nodes[1].wantSigned("t", c.Now(), outer, inner, nodes[0].made)
}

// forgetful carries a write out, and once says that another came first: as if
// the answer was lost and the client of the store asked again.
type forgetful struct {
	*testenv.Documents
	lost bool
}

func (f *forgetful) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	versions, err := f.Documents.PutDocuments(ctx, docs)
	if err == nil && !f.lost {
		f.lost = true
		return []uint64{0}, nil
	}
	return versions, err
}

func TestLostAnswersOfTheStore(t *testing.T) {
	docs, c, key := &forgetful{Documents: testenv.NewDocuments(t)}, newClock(), masterKey(t)
	n := begun(t, open(t, signing.Options{Documents: docs, Clock: c}, key), key)
	n.wantSigned("t", c.Now(), n.made)

	docs.lost = false
	own, err := n.Replace(t.Context(), "t", "", time.Hour)
	if err != nil || len(own.Secrets) != 2 {
		t.Fatalf("%+v, %v", own.Info, err)
	}
	n.wantSigned("t", c.Now(), own.Secret, n.made)
}

// Overlaps end by the store's time, whatever the clock of the node that rotates a secret, and of the node that signs.
func TestOverlapsEndByTheStoresTime(t *testing.T) {
	for _, wrong := range []time.Duration{-time.Hour, 0, 10 * time.Minute, 26 * time.Hour} {
		stored, local := newClock(), newClock()
		local.Advance(wrong)
		key := masterKey(t)
		o := signing.Options{Documents: testenv.NewDocuments(t), Clock: local, Now: func() job.Instant { return job.InstantOf(stored.Now()) }}
		n := begun(t, open(t, o, key), key)
		change, err := n.Replace(t.Context(), "t", "", time.Hour)
		must.OK(t, err)
		if got, want := change.Secrets[1].EndsAt, job.InstantOf(stored.Now()).Add(time.Hour); got != want {
			t.Errorf("a clock that is wrong by %v: the overlap ends at %s, not %s", wrong, got.RFC3339(), want.RFC3339())
		}
		look(n)
		stored.Advance(time.Hour - time.Second)
		n.wantSigned("t", stored.Now(), change.Secret, n.made) // attempts have the store's time
		if i, err := n.Info(t.Context(), "t"); err != nil || len(i.Secrets) != 2 {
			t.Errorf("%d secrets, %v", len(i.Secrets), err)
		}
		stored.Advance(time.Second)
		n.wantSigned("t", stored.Now(), change.Secret)
		if i, err := n.Info(t.Context(), "t"); err != nil || len(i.Secrets) != 1 {
			t.Errorf("after the end: %d secrets, %v", len(i.Secrets), err)
		}
	}
}

// While secrets of a topic change and are read again, deliveries of all topics are signed, and with the new secret
// as soon as it is set.
func TestDeliveriesAreSignedWhileSecretsChange(t *testing.T) {
	nodes, _, c := cluster(t, 2)
	at, over := c.Now(), make(chan struct{})
	var signing sync.WaitGroup
	for _, n := range nodes {
		signing.Go(func() {
			for {
				other, err := n.Sign(t.Context(), "u", deliveryID, at, []byte(body))
				h := http.Header{"Webhook-Id": {deliveryID}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {other}}
				if err != nil || verify(t, n.made, h, body) != nil {
					t.Errorf("a topic without a secret of its own: %q, %v", other, err)
					return
				}
				if own, err := n.Sign(t.Context(), "t", deliveryID, at, []byte(body)); err != nil || strings.Count(own, "v1,") != 1 {
					t.Errorf("the topic: %q, %v", own, err)
					return
				}
				if err := n.Load(t.Context()); err != nil {
					t.Errorf("Load: %v", err)
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	for i := range 50 {
		n := nodes[i%len(nodes)]
		n.wantSigned("t", at, n.rotate("t", 0))
	}
	close(over)
	signing.Wait()
}
