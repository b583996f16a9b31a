package testenv

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

// Documents are those of a store of a test, which watches their calls and changes documents behind the back of
// the tested code.
type Documents struct {
	store.Store

	t      testing.TB
	mu     sync.Mutex
	before func(ctx context.Context, call string) error
}

// NewDocuments returns the documents of an empty store.
func NewDocuments(t testing.TB) *Documents {
	t.Helper()
	return &Documents{Store: Store(t, diskstore.Options{}), t: t}
}

// Hook has before run ahead of each call: "get", "list", "put" or "delete". Its error is the call's. Nil: nothing runs.
func (d *Documents) Hook(before func(ctx context.Context, call string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = before
}

// Fail makes each of the calls fail with err.
func (d *Documents) Fail(err error, calls ...string) {
	d.Hook(func(_ context.Context, call string) error {
		if slices.Contains(calls, call) {
			return err
		}
		return nil
	})
}

func (d *Documents) enter(ctx context.Context, call string) error {
	d.mu.Lock()
	before := d.before
	d.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(ctx, call)
}

// ListDocuments is the store's, after the hook.
func (d *Documents) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	call := "list"
	if q.Name != "" {
		call = "get"
	}
	if err := d.enter(ctx, call); err != nil {
		return nil, err
	}
	return d.Store.ListDocuments(ctx, q)
}

// PutDocuments is the store's, after the hook.
func (d *Documents) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	call := "put"
	if docs[0].Deleted {
		call = "delete"
	}
	if err := d.enter(ctx, call); err != nil {
		return nil, err
	}
	return d.Store.PutDocuments(ctx, docs)
}

// Stored returns all documents of a kind.
func (d *Documents) Stored(kind string) []store.Document {
	d.t.Helper()
	all, err := d.Store.ListDocuments(context.Background(), store.DocumentQuery{Kind: kind})
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

// Dump returns all documents of a kind as one text.
func (d *Documents) Dump(kind string) string {
	d.t.Helper()
	var text strings.Builder
	for _, doc := range d.Stored(kind) {
		text.WriteString(doc.Name + " " + string(doc.Data) + "\n")
	}
	return text.String()
}

// Overwrite replaces the content of a document, or creates it.
func (d *Documents) Overwrite(kind, name, data string) {
	d.t.Helper()
	doc, _ := store.ReadDocument(context.Background(), d.Store, kind, name) // a missing one has version 0
	doc.Kind, doc.Name, doc.Data = kind, name, []byte(data)
	if _, err := store.PutDocument(context.Background(), d.Store, doc); err != nil {
		d.t.Fatal(err)
	}
}

// Lose deletes all documents of a kind.
func (d *Documents) Lose(kind string) {
	d.t.Helper()
	for _, doc := range d.Stored(kind) {
		if err := store.DeleteDocument(context.Background(), d.Store, kind, doc.Name, doc.Version); err != nil {
			d.t.Fatal(err)
		}
	}
}
