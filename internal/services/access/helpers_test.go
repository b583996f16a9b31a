package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestClock() *testenv.Clock {
	return testenv.NewClock(time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC))
}

// lockedBuffer is a log that may be written and read at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) lines(containing string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(slices.DeleteFunc(strings.Split(b.b.String(), "\n"), func(l string) bool {
		return l == "" || !strings.Contains(l, containing)
	}))
}

func (b *lockedBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// issue makes a key with its token.
func issue(t testing.TB, change ...func(*Key)) (string, Key) {
	t.Helper()
	token := newToken()
	k := Key{ID: token.id(), Name: "ci", Scope: Write, Namespace: "shop", Digest: token.digest()}
	for _, c := range change {
		c(&k)
	}
	return token.Reveal(), k
}

// newKeys makes keys that have read the stored ones.
func newKeys(t testing.TB, o Options) *Keys {
	t.Helper()
	if o.Namespace == "" {
		o.Namespace = "shop"
	}
	if o.Store == nil {
		o.Store = testenv.NewDocuments(t)
	}
	k, err := New(o)
	must.OK(t, err)
	must.OK(t, k.stored.Load(t.Context()))
	return k
}

func bearer(token string) string { return "Bearer " + token }

// mustAuthenticate fails the test when the token is not accepted.
func mustAuthenticate(t testing.TB, k *Keys, token string) Principal {
	t.Helper()
	p, err := k.Authenticate(bearer(token))
	if err != nil {
		t.Fatalf("Authenticate: %v", err)
	}
	return p
}

// secretOf is the part of a token that must not be seen.
func secretOf(token string) string {
	return token[len(tokenPrefix)+idLength+1:]
}

func show(vs ...any) string { return fmt.Sprintln(vs...) }

// encodeKey returns the document of a key.
func encodeKey(k *Key) store.Document {
	data, err := json.Marshal(k)
	if err != nil {
		panic(err)
	}
	return store.Document{Kind: documentKind, Name: k.ID, Data: data}
}

func decodeKey(raw store.Document) (Key, error) {
	d := documents.New(stored(nil, nil, 0)).Decode(raw)
	return d.Value, d.Err
}
