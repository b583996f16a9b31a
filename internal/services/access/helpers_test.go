package access

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestClock() *testenv.Clock {
	return testenv.NewClock(time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC))
}

// shared is a store.Documents in memory that can be told to fail, and how
// long a listing takes.
type shared struct {
	store.Documents // for calls that keys do not need

	mu    sync.Mutex
	docs  map[string]store.Document
	fail  map[string]error // by method
	takes time.Duration    // of a listing, after it has read
	lists int
}

func newDocuments() *shared {
	return &shared{docs: map[string]store.Document{}, fail: map[string]error{}}
}

func (d *shared) failing(method string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail[method] = err
}

func (d *shared) slow(takes time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.takes = takes
}

func (d *shared) listed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lists
}

func (d *shared) put(name, data string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.docs[name] = store.Document{Kind: documentKind, Name: name, Data: []byte(data), Version: d.docs[name].Version + 1}
}

func (d *shared) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	if q.Name != "" {
		return d.document(q)
	}
	d.mu.Lock()
	d.lists++
	takes, err := d.takes, d.fail["ListDocuments"]
	var found []store.Document
	for _, doc := range d.docs {
		if doc.Kind == q.Kind && doc.Name > q.After {
			found = append(found, doc)
		}
	}
	d.mu.Unlock()
	slices.SortFunc(found, func(a, b store.Document) int { return strings.Compare(a.Name, b.Name) })
	if q.Limit > 0 {
		found = found[:min(len(found), q.Limit)]
	}
	if takes > 0 {
		if err := job.Sleep(ctx, job.SystemClock(), takes); err != nil {
			return nil, err
		}
	}
	return found, err
}

func (d *shared) document(q store.DocumentQuery) ([]store.Document, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	doc, ok := d.docs[q.Name]
	if !ok || q.Kind != documentKind {
		return nil, d.fail["Document"]
	}
	return []store.Document{doc}, d.fail["Document"]
}

func (d *shared) PutDocuments(_ context.Context, docs []store.Document) ([]uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	doc, call := docs[0], "PutDocuments"
	if doc.Deleted {
		call = "DeleteDocument"
	}
	if err := d.fail[call]; err != nil {
		return nil, err
	}
	switch {
	case d.docs[doc.Name].Version != doc.Version:
		return []uint64{0}, nil
	case doc.Deleted:
		delete(d.docs, doc.Name)
	default:
		doc.Version++
		d.docs[doc.Name] = doc
	}
	return []uint64{doc.Version}, nil
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

func newKeyring(t testing.TB, o Options) *Keyring {
	t.Helper()
	if o.Namespace == "" {
		o.Namespace = "shop"
	}
	k, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func bearer(token string) string { return "Bearer " + token }

// mustAuthenticate fails the test when the token is not accepted.
func mustAuthenticate(t testing.TB, k *Keyring, token string) Principal {
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
	d := collection(nil, nil, 0).Decode(raw)
	return d.Value, d.Err
}
