package node

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/testing/must"
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

// A node is ready when it serves, and not while its store would refuse a job, whether it has keys or not.
func TestReadinessAsksForRoom(t *testing.T) {
	_, line := newKey(t, access.Draft{Scope: "admin"})
	for name, keys := range map[string]string{"with keys": "--api-keys=" + line, "without keys": "--insecure-no-api-keys"} {
		r := testenv.StartRedis(t)
		node := start(t, load(t, "--addr=127.0.0.1:0", "--data-dir", t.TempDir(), "--redis-url", r.URL(), keys))
		if code, _, body := node.call(http.MethodGet, "/readyz", ""); code != http.StatusOK {
			t.Errorf("%s, at the start: %d %s", name, code, body)
		}
		db := redis.NewClient(&redis.Options{Addr: r.Addr()})
		must.OK(t, db.ConfigSet(t.Context(), "maxmemory", "1").Err())
		if code, _, body := node.call(http.MethodGet, "/readyz", ""); code != http.StatusServiceUnavailable || !strings.Contains(body, "takes no jobs") {
			t.Errorf("%s, of a full Redis: %d %s", name, code, body)
		}
		must.OK(t, db.ConfigSet(t.Context(), "maxmemory", "0").Err())
		must.OK(t, db.Close())
		must.OK(t, node.shutdown())
	}
}
