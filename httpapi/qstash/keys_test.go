package qstash

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// All nodes have one pair, sealed in the store. They use the known one in an outage, and put it back after a loss.
func TestStoredKeys(t *testing.T) {
	docs := testenv.NewDocuments(t)
	key, err := documents.ParseMasterKey(documents.GenerateMasterKey())
	must.OK(t, err)
	node := func(keys ...documents.MasterKey) *StoredKeys {
		return NewKeys(docs, documents.NewSeal(keys...), job.SystemClock(), slog.New(slog.DiscardHandler))
	}
	a, b := node(key), node(key)
	first, err := a.Keys(t.Context())
	if err != nil || first.Current == first.Next || !strings.HasPrefix(first.Current, "sig_") || len(first.Next) < 32 {
		t.Fatalf("got %+v, %v", first, err)
	}
	same, err := b.Keys(t.Context())
	must.OK(t, err)
	must.Equal(t, "another node", same, first)
	second, err := a.Rotate(t.Context())
	if err != nil || second.Current != first.Next || second.Next == first.Current || second.Next == first.Next {
		t.Errorf("rotated %+v to %+v, %v", first, second, err)
	}
	must.OK(t, b.pair.Load(t.Context()))
	docs.Lose("qstash-keys")
	must.OK(t, b.pair.Load(t.Context()))
	if strings.Contains(docs.Dump("qstash-keys"), second.Current) || len(docs.Stored("qstash-keys")) != 1 {
		t.Errorf("stored %s", docs.Dump("qstash-keys"))
	}
	docs.Fail(store.ErrUnavailable, "get", "list")
	known, err := b.Keys(t.Context())
	must.OK(t, err)
	must.Equal(t, "in an outage", known, second)
	for _, call := range []func() (KeyPair, error){
		func() (KeyPair, error) { return a.Rotate(t.Context()) },
		func() (KeyPair, error) { return node(key).Keys(t.Context()) },
	} {
		if _, err := call(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("in an outage: %v", err)
		}
	}
	docs.Hook(nil)
	if _, err := node().Keys(t.Context()); !errors.Is(err, documents.ErrMasterKey) {
		t.Errorf("without the master key: %v", err)
	}
}
