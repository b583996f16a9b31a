package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// VerifyOptions configure Verify. URL and Store are required.
type VerifyOptions struct {
	// URL is where the journal is, as in Options.
	URL string
	// Store is what to hold it against; it stays the caller's.
	Store store.Store
	// Namespace is as in Options.
	Namespace string
	// Shared: nodes may be at work on both. Not set, the store is empty, and the
	// journal is first put back into it, as a node does that starts.
	Shared bool
	// Clock is used for waiting; nil is the machine's.
	Clock job.Clock
	// SecondLook is how long a difference must last to count. Default 2 s.
	SecondLook time.Duration
	// StoreRetention is as in Options.
	StoreRetention time.Duration
	// Found is called for each difference.
	Found func(Disagreement)
}

// Disagreement is a job that the journal and the store have differently.
type Disagreement struct {
	Difference Difference
	Key        job.Key
	// Journal is nil when the journal has no such job, or none that counts.
	Journal *store.Standing
	Store   store.Standing
	Err     error // why it cannot be read, of UnreadableInJournal
}

// Verified counts what Verify found.
type Verified struct {
	Checked     int64 // jobs of the journal and of the store that were compared
	Differences int64
}

// Verify compares a journal with a store and changes neither. What differs only
// for a moment, because nodes are at work, is not told.
func Verify(ctx context.Context, o VerifyOptions) (Verified, error) {
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	o.SecondLook = cmp.Or(o.SecondLook, 2*time.Second)
	d, err := dialectFor(o.URL)
	if err != nil {
		return Verified{}, fmt.Errorf("ledger: %w", err)
	}
	p, err := openToRead(ctx, d, cmp.Or(o.Namespace, DefaultNamespace))
	if err != nil {
		return Verified{}, fmt.Errorf("ledger: %w", err)
	}
	v := &verification{o: o}
	err = v.run(ctx, p, d)
	if err = errors.Join(err, p.close()); err != nil {
		err = fmt.Errorf("ledger: %w", err)
	}
	return v.Verified, err
}

// openToRead opens a journal that is there, and neither makes nor changes it.
func openToRead(ctx context.Context, d dialect, namespace string) (*pools, error) {
	if file, is := d.(*sqlite); is {
		if _, err := os.Stat(file.path); err != nil {
			return nil, fmt.Errorf("there is no journal: %w", err)
		}
	}
	p, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	err = checkVersion(ctx, p, d)
	if err == nil {
		err = checkNamespace(ctx, p, d, namespace)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// checkVersion refuses a journal whose tables are not those of this version.
func checkVersion(ctx context.Context, p *pools, d dialect) error {
	rows, err := p.read.QueryContext(ctx, "SELECT 1 FROM message WHERE 1 = 0")
	if err != nil {
		return fmt.Errorf("there is no journal: %w", err)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	dir, name := d.dir()
	files, err := fs.Sub(migrations, dir)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(name, p.write, files)
	if err != nil {
		return err
	}
	has, knows, err := provider.GetVersions(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read the journal's version: %w", err)
	case has != knows:
		return fmt.Errorf("the journal was written by another version of duehook: its tables have version %d, this one wants %d", has, knows)
	}
	return nil
}

// verification is a run of Verify.
type verification struct {
	Verified
	o       VerifyOptions
	compare *comparer
	bad     unreadables
}

func (v *verification) run(ctx context.Context, p *pools, d dialect) (err error) {
	if v.compare, err = newComparer(ctx, p.read, d, v.o.Store); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.compare.close()) }()
	if err := v.read(ctx, p); err != nil {
		return err
	}
	w := walkers{
		compare: v.compare, checked: func(n int) { v.Checked += int64(n) }, settle: v.settle,
		bad: func(...unreadable) {}, // they are known
	}
	if err := w.journal(ctx); err != nil {
		return err
	}
	return w.store(ctx)
}

// read reads the whole journal, into the store if that is empty, and tells what
// cannot be read.
func (v *verification) read(ctx context.Context, p *pools) error {
	s := &Store{inner: v.o.Store, read: p.read, st: v.compare.st, compare: v.compare, metrics: newMetrics(), o: Options{
		Clock: v.o.Clock, Logger: slog.New(slog.DiscardHandler), StoreRetention: v.o.StoreRetention,
	}}
	if v.o.Shared {
		bad, err := s.readable(ctx)
		if err != nil {
			return err
		}
		v.bad.add(bad...)
	} else {
		if err := s.restore(ctx); err != nil {
			return err
		}
		v.bad.add(s.bad.all()...)
	}
	for _, u := range v.bad.all() {
		v.tell(Disagreement{
			Difference: UnreadableInJournal, Key: u.key, Journal: &store.Standing{UID: u.uid, State: u.state}, Err: u.err,
		})
	}
	return nil
}

func (v *verification) tell(d Disagreement) {
	v.Differences++
	if v.o.Found != nil {
		v.o.Found(d)
	}
}

// settle looks a second time at what was found, and tells what is left of it.
func (v *verification) settle(ctx context.Context, found []finding) error {
	if err := job.Sleep(ctx, v.o.Clock, v.o.SecondLook); err != nil {
		return err
	}
	for len(found) > 0 {
		n := min(len(found), repairPage)
		still, _, err := v.compare.again(ctx, found[:n])
		if err != nil {
			return err
		}
		found = found[n:]
		for i := range still {
			if e := still[i].entry; e == nil || !v.bad.has(e.seq) {
				v.tell(still[i].disagreement())
			}
		}
	}
	return nil
}

func (f *finding) disagreement() Disagreement {
	d := Disagreement{Difference: f.difference, Key: f.key, Store: f.standing}
	if e := f.entry; e != nil {
		d.Journal = &store.Standing{UID: e.uid, State: e.state, Version: e.version, Token: e.token, CreatedAt: e.created}
	}
	return d
}
