package signing_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// documents keeps documents in memory.
type documents struct {
	store.Documents // for calls that secrets do not need

	mu   sync.Mutex
	docs map[[2]string]store.Document
	// before runs ahead of each call, unlocked; its error is the call's.
	before func(ctx context.Context, call, kind, name string) error
}

func newDocuments() *documents { return &documents{docs: map[[2]string]store.Document{}} }

func (d *documents) enter(ctx context.Context, call, kind, name string) error {
	d.mu.Lock()
	before := d.before
	d.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(ctx, call, kind, name)
}

// hook sets before; nil removes it.
func (d *documents) hook(before func(ctx context.Context, call, kind, name string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = before
}

// fail makes each of the calls fail with err.
func (d *documents) fail(err error, calls ...string) {
	d.hook(func(_ context.Context, call, _, _ string) error {
		if slices.Contains(calls, call) {
			return err
		}
		return nil
	})
}

func (d *documents) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	call := "list"
	if q.Name != "" {
		call = "get"
	}
	if err := d.enter(ctx, call, q.Kind, q.Name); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []store.Document
	for _, doc := range d.docs {
		if doc.Kind == q.Kind && doc.Name > q.After && (q.Name == "" || q.Name == doc.Name) {
			list = append(list, doc)
		}
	}
	slices.SortFunc(list, func(a, b store.Document) int { return strings.Compare(a.Name, b.Name) })
	if q.Limit > 0 {
		list = list[:min(len(list), q.Limit)]
	}
	return list, nil
}

func (d *documents) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	doc, call := docs[0], "put"
	if doc.Deleted {
		call = "delete"
	}
	if err := d.enter(ctx, call, doc.Kind, doc.Name); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := [2]string{doc.Kind, doc.Name}
	switch {
	case d.docs[key].Version != doc.Version:
		return []uint64{0}, nil
	case doc.Deleted:
		delete(d.docs, key)
	default:
		doc.Version++
		doc.Data = slices.Clone(doc.Data)
		d.docs[key] = doc
	}
	return []uint64{doc.Version}, nil
}

// lose forgets all documents.
func (d *documents) lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.docs)
}

// overwrite replaces the contents of documents: the default's, or those of all topics.
func (d *documents) overwrite(isDefault bool, data func(name string, old []byte) []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, doc := range d.docs {
		if (doc.Name == defaultName) == isDefault {
			doc.Data = data(doc.Name, doc.Data)
			doc.Version++
			d.docs[key] = doc
		}
	}
}

// dump is all that is kept, as one text.
func (d *documents) dump() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines []string
	for key, doc := range d.docs {
		lines = append(lines, key[0]+" "+key[1]+" "+string(doc.Data))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func newClock() *testenv.Clock { return testenv.NewClock(time.Unix(1_790_000_000, 0)) }

func masterKey(t testing.TB) signing.MasterKey {
	t.Helper()
	key, err := signing.ParseMasterKey(signing.GenerateMasterKey())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func open(t testing.TB, o signing.Options) *signing.Keyring {
	t.Helper()
	k, err := signing.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// node is the keyring of one of several nodes, with the default secret that they share.
type node struct {
	*signing.Keyring
	t    testing.TB
	made string
}

// cluster starts n nodes on the same documents and clock.
func cluster(t testing.TB, n int) ([]node, *documents, *testenv.Clock) {
	t.Helper()
	docs, c, key := newDocuments(), newClock(), masterKey(t)
	nodes := make([]node, n)
	for i := range nodes {
		k := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{key}, Clock: c})
		nodes[i] = begun(t, k)
	}
	return nodes, docs, c
}

// begun is a node that has made sure of a default and read the secrets.
func begun(t testing.TB, k *signing.Keyring) node {
	t.Helper()
	if err := k.EnsureDefault(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := node{Keyring: k, t: t, made: k.MadeDefault()}
	look(n)
	return n
}

// look has nodes read the secrets, as each does at intervals.
func look(nodes ...node) {
	for _, n := range nodes {
		n.t.Helper()
		if err := n.Load(n.t.Context()); err != nil {
			n.t.Fatal(err)
		}
	}
}

const (
	deliveryID = "01KDWCJ2M00000000000000001"
	body       = `{"order_id":8812}`
)

// header signs at the given time.
func (n node) header(topic string, at time.Time) http.Header {
	n.t.Helper()
	signature, err := n.Sign(n.t.Context(), topic, deliveryID, at, []byte(body))
	if err != nil {
		n.t.Fatal(err)
	}
	return http.Header{
		"Webhook-Id":        {deliveryID},
		"Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)},
		"Webhook-Signature": {signature},
	}
}

// wantSigned fails unless what the node signs for topic at the given time
// carries signatures of just these secrets, in this order.
func (n node) wantSigned(topic string, at time.Time, secrets ...string) {
	n.t.Helper()
	h := n.header(topic, at)
	signatures := strings.Split(h.Get("Webhook-Signature"), " ")
	if len(signatures) != len(secrets) {
		n.t.Fatalf("topic %q has %d signatures, want %d", topic, len(signatures), len(secrets))
	}
	for i, secret := range secrets {
		one := h.Clone()
		one.Set("Webhook-Signature", signatures[i])
		if err := verify(n.t, secret, one, body); err != nil {
			n.t.Errorf("topic %q: signature %d is not by the secret that was expected: %v", topic, i+1, err)
		}
	}
}

// verify does as a receiver does, with the library that receivers use.
func verify(t testing.TB, secret string, h http.Header, body string) error {
	t.Helper()
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return w.VerifyIgnoringTimestamp([]byte(body), h)
}
