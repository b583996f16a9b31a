package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/journaltest"
	"github.com/duehook/duehook/store/journal"
	"github.com/duehook/duehook/store/ledger"
)

func of(namespace string) with { return func(o *options) { o.Namespace = namespace } }

// Two namespaces on one journal would each have the jobs of the other put back,
// and deliver all of them twice.
func TestOneNamespaceForAJournal(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			refused := func(r *rig, namespace string, alter ...with) {
				t.Helper()
				_, err := tryRig(t, b, r.URL, retention, append([]with{of(namespace)}, alter...)...)
				if !errors.Is(err, journal.ErrOtherNamespace) {
					t.Fatalf("Open for %s: %v", namespace, err)
				}
				for _, part := range []string{`"shop"`, `"` + namespace + `"`, "--ledger-url"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("the error does not name %s: %v", part, err)
					}
				}
			}
			_, option := shared()
			r := newRig(t, b, b.Fresh(t), retention, option, of("shop"))
			r.Add(reg("a", time.Hour))
			if b != sqliteBackend {
				refused(r, "other", func(o *options) { o.Shared = true })
				newRig(t, b, r.URL, retention, of("shop"), func(o *options) { o.Shared = true })
			}
			noError(t, "Close", r.Close())

			verify := func(namespace string) error {
				inner := journaltest.NewStore(t, 0)
				_, err := ledger.Verify(t.Context(), ledger.VerifyOptions{URL: r.URL, Store: inner, Namespace: namespace})
				return err
			}
			isError(t, "Verify for another", verify("other"), journal.ErrOtherNamespace)
		})
	}
}

// A process by itself keeps off a journal that nodes on Redis use: both would
// deliver its jobs.
func TestNodesKeepAProcessOut(t *testing.T) {
	t.Parallel()
	for _, b := range journaltest.Servers {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			_, option := shared()
			r := newRig(t, b, b.Fresh(t), retention, option, quick)
			r.Add(reg("a", time.Hour))
			_, err := tryRig(t, b, r.URL, retention)
			isError(t, "Open beside the nodes", err, journal.ErrInUse)
			r.Add(reg("b", time.Hour)) // they have not been overtaken
			noError(t, "Close", r.Close())
			alone := newRig(t, b, r.URL, retention)
			alone.Job("a")
			alone.Job("b")
		})
	}
}
