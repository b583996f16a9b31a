package signing_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// The kind of the documents, and the name of the default's.
const (
	kind        = "signing-secret"
	defaultName = "*"
)

var errDown = errors.Join(store.ErrUnavailable, errors.New("the store is down"))

func newClock() *testenv.Clock { return testenv.NewClock(time.Unix(1_790_000_000, 0)) }

func masterKey(t testing.TB) documents.MasterKey {
	t.Helper()
	key, err := documents.ParseMasterKey(documents.GenerateMasterKey())
	must.OK(t, err)
	return key
}

// open makes the secrets of a node with some master keys.
func open(t testing.TB, o signing.Options, keys ...documents.MasterKey) *signing.Secrets {
	t.Helper()
	o.Seal = documents.NewSeal(keys...)
	s, err := signing.New(o)
	must.OK(t, err)
	return s
}

// node is the secrets of one of several nodes, with the default that they share.
type node struct {
	*signing.Secrets
	t    testing.TB
	made string
}

// cluster starts n nodes on the same documents and clock.
func cluster(t testing.TB, n int) ([]node, *testenv.Documents, *testenv.Clock) {
	t.Helper()
	docs, c, key := testenv.NewDocuments(t), newClock(), masterKey(t)
	nodes := make([]node, n)
	for i := range nodes {
		nodes[i] = begun(t, open(t, signing.Options{Documents: docs, Clock: c}, key), key)
	}
	return nodes, docs, c
}

// begun is a node that has made sure of a default and read the secrets.
func begun(t testing.TB, s *signing.Secrets, key documents.MasterKey) node {
	t.Helper()
	must.OK(t, s.EnsureDefault(t.Context(), keep))
	n := node{Secrets: s, t: t, made: signing.DefaultOf(key)}
	look(n)
	return n
}

// keep needs no copy of a default.
func keep(string) error { return nil }

// look has nodes read the secrets, as each does at intervals.
func look(nodes ...node) {
	for _, n := range nodes {
		n.t.Helper()
		must.OK(n.t, n.Load(n.t.Context()))
	}
}

// rotate replaces the secret of a topic by a new one.
func (n node) rotate(topic string, overlap time.Duration) string {
	n.t.Helper()
	change, err := n.Replace(n.t.Context(), topic, "", overlap)
	must.OK(n.t, err)
	return change.Secret
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
