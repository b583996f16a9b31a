package node

import (
	"context"
	"errors"
	"testing"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/diskstore"
)

// Readiness needs the stored keys, and the store itself.
func TestReadyWithKeys(t *testing.T) {
	keys, err := access.New(access.Options{Namespace: "n", Store: testenv.Store(t, diskstore.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	down := errors.New("down")
	var store error
	ready := readyWith(keys, func(context.Context) error { return store })
	if err := ready(t.Context()); !errors.Is(err, documents.ErrUnread) {
		t.Errorf("before the keys are read: %v", err)
	}
	if _, err := keys.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := ready(t.Context()); err != nil {
		t.Errorf("with keys: %v", err)
	}
	if store = down; !errors.Is(ready(t.Context()), down) {
		t.Error("the store is not asked")
	}
}
