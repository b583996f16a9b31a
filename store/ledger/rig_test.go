package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/journaltest"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
	"github.com/duehook/duehook/store/ledger"
)

// Short names of helpers.
type (
	backend = journaltest.Backend
	hooked  = journaltest.Hooked
)

const retention = journaltest.Retention

var (
	backends                       = journaltest.Backends
	sqliteBackend, postgresBackend = journaltest.SQLite, journaltest.Postgres

	onEach, onEachOf, inBubble = journaltest.OnEach, journaltest.OnEachOf, journaltest.InBubble

	key, reg, replacing                  = journaltest.Key, journaltest.Reg, journaltest.Replacing
	cancel, replay, runAt                = journaltest.Cancel, journaltest.Replay, journaltest.RunAt
	settlement, carryAll                 = journaltest.Settlement, journaltest.CarryAll
	noError, equal, isError, unavailable = journaltest.NoError, journaltest.Equal, journaltest.IsError, journaltest.Unavailable
	newName, errLost                     = journaltest.NewName, journaltest.ErrLost
)

// options are those of a rig.
type options struct {
	ledger.Options
	Shared bool // the store is one that nodes share
}

// rig is a store with a journal and a reconciler.
type rig struct {
	*journaltest.Rig
	*ledger.Reconciler
	shared *ledger.Store // nil: the store is this process's own
	o      options
	// lease is that of takeAny; zero: a minute.
	lease time.Duration
}

// with alters the options of a rig.
type with func(*options)

// only returns an option of the journal as one of a rig.
func only(w journaltest.With) with { return func(o *options) { w(&o.Options.Options) } }

// wrapped puts a wrapper around the store.
func wrapped(w func(store.Restorable) store.Restorable) with { return only(journaltest.Wrapped(w)) }

func hook() (*hooked, with) {
	h, option := journaltest.Hook()
	return h, only(option)
}

func open(ctx context.Context, o options) (*rig, error) {
	if o.Shared {
		s, err := ledger.Open(ctx, o.Options)
		if err != nil {
			return nil, err
		}
		return &rig{Rig: &journaltest.Rig{Opened: journaltest.Opened{Store: s, J: s.Journal}}, Reconciler: s.Reconciler, shared: s}, nil
	}
	s, err := journal.Open(ctx, o.Options.Options)
	if err != nil {
		return nil, err
	}
	r, err := ledger.NewReconciler(s, o.Reconciling)
	return &rig{Rig: &journaltest.Rig{Opened: journaltest.Opened{Store: s, J: s.Journal}}, Reconciler: r}, err
}

// newRig opens the journal at url, which is closed when the test ends.
func newRig(t testing.TB, b *backend, url string, retention time.Duration, alter ...with) *rig {
	t.Helper()
	r, err := tryRig(t, b, url, retention, alter...)
	noError(t, "Open", err)
	return r
}

// freshRig opens a new journal, which does not wait for the disk.
func freshRig(t testing.TB, b *backend, retention time.Duration, alter ...with) *rig {
	t.Helper()
	return newRig(t, b, b.Empty(t), retention, append([]with{only(journaltest.Unsynced)}, alter...)...)
}

func tryRig(t testing.TB, b *backend, url string, retention time.Duration, alter ...with) (*rig, error) {
	t.Helper()
	o := options{Options: ledger.Options{Options: journaltest.Options(t, url, retention)}}
	for _, a := range alter {
		a(&o)
	}
	r, err := open(t.Context(), o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = r.Close() }) // most have closed it
	r.T, r.B, r.URL, r.o = t, b, url, o
	return r, nil
}
