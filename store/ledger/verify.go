package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// VerifyOptions configure Verify. URL and Store are required.
type VerifyOptions struct {
	// URL locates the ledger, as in Options.
	URL string
	// Store is compared with the ledger. The caller closes it.
	Store store.Restorable
	// Namespace is as in Options.
	Namespace string
	// SecondLook is how long a difference must last to count. Default 2 s.
	SecondLook time.Duration
	// Found is called for each difference.
	Found func(Disagreement)
}

// Disagreement is a job that differs between the ledger and the store.
type Disagreement struct {
	Difference Difference
	Key        job.Key
	// Ledger is nil when the ledger has no such job, or none that counts.
	Ledger *store.Standing
	Store  store.Standing
	Err    error // of UnreadableInLedger: why it cannot be read
}

// Verified counts what Verify found.
type Verified struct {
	Checked     int64 // jobs of the ledger and of the store that were compared
	Differences int64
}

// Verify compares a ledger with a store and changes neither. It does not report
// short-lived differences, which running nodes cause.
func Verify(ctx context.Context, o VerifyOptions) (Verified, error) {
	o.SecondLook = cmp.Or(o.SecondLook, 2*time.Second)
	r, err := openReader(ctx, o.URL, o.Namespace)
	if err != nil {
		return Verified{}, fmt.Errorf("ledger: %w", err)
	}
	v := &verification{o: o, compare: comparer{r, o.Store}}
	err = v.run(ctx)
	if err = errors.Join(err, r.close()); err != nil {
		err = fmt.Errorf("ledger: %w", err)
	}
	return v.Verified, err
}

// verification is a run of Verify.
type verification struct {
	Verified
	o       VerifyOptions
	compare comparer
}

func (v *verification) run(ctx context.Context) error {
	w := walkers{
		compare: v.compare, decode: true, checked: func(n int) { v.Checked += int64(n) }, settle: v.settle,
		pause: func(context.Context) error { return nil },
	}
	if err := w.ledger(ctx); err != nil {
		return err
	}
	return w.store(ctx)
}

func (v *verification) report(f finding) {
	v.Differences++
	d := Disagreement{Difference: f.difference, Key: f.key, Store: f.standing}
	if e := f.entry; e != nil {
		d.Ledger = &store.Standing{UID: e.uid, State: e.state, Version: e.version, Token: e.token, CreatedAt: e.created}
		d.Err = e.bad
	}
	if v.o.Found != nil {
		v.o.Found(d)
	}
}

// settle checks findings again and reports the remaining ones. What cannot be read stays so.
func (v *verification) settle(ctx context.Context, found []finding) error {
	found = slices.DeleteFunc(found, func(f finding) bool {
		if f.difference == UnreadableInLedger {
			v.report(f)
		}
		return f.difference == UnreadableInLedger
	})
	if len(found) == 0 {
		return nil
	}
	if err := job.Sleep(ctx, job.SystemClock(), v.o.SecondLook); err != nil {
		return err
	}
	for page := range slices.Chunk(found, repairPage) {
		still, _, err := v.compare.again(ctx, page)
		if err != nil {
			return err
		}
		for _, f := range still {
			v.report(f)
		}
	}
	return nil
}
