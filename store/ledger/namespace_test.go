package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/store/ledger"
)

func of(namespace string) with { return func(o *options) { o.Namespace = namespace } }

// Two namespaces on one ledger would each have the jobs of the other put back,
// and deliver all of them twice.
func TestOneNamespaceForALedger(t *testing.T) {
	onRealServers(t, func(t *testing.T, b *backend) {
		refused := func(r *rig, namespace string) {
			t.Helper()
			_, err := tryRig(t, b, r.URL, retention, of(namespace))
			if !errors.Is(err, ledger.ErrOtherNamespace) {
				t.Fatalf("Open for %s: %v", namespace, err)
			}
			for _, part := range []string{`"shop"`, `"` + namespace + `"`, "--ledger-url"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not name %s: %v", part, err)
				}
			}
		}
		r := newRig(t, b, b.Fresh(t), retention, of("shop"))
		r.Add(reg("a", time.Hour))
		refused(r, "other")
		newRig(t, b, r.URL, retention, of("shop"))
		noError(t, "Close", r.Close())

		verify := func(namespace string) error {
			inner := newStore(t, 0)
			_, err := ledger.Verify(t.Context(), ledger.VerifyOptions{URL: r.URL, Store: inner, Namespace: namespace})
			return err
		}
		isError(t, "Verify for another", verify("other"), ledger.ErrOtherNamespace)
	})
}
