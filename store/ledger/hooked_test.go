package ledger_test

import (
	"context"
	"errors"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// hooked is a store whose calls a test can watch, replace or spoil. A nil hook leaves
// the call as it is.
type hooked struct {
	store.Restorable
	OnRegister func(call func() ([]store.Registered, error)) ([]store.Registered, error)
	OnClaim    func(call func() ([]store.Claimed, error)) ([]store.Claimed, error)
	OnSettle   func(call func() ([]store.Settled, error)) ([]store.Settled, error)
	OnChange   func() // before an update's change is called, with what was read
}

// hook returns an option that wraps the store, and the wrapper.
func hook() (*hooked, with) {
	h := &hooked{}
	return h, wrapped(func(s store.Restorable) store.Restorable {
		h.Restorable = s
		return h
	})
}

func through[T any](hook func(func() (T, error)) (T, error), call func() (T, error)) (T, error) {
	if hook == nil {
		return call()
	}
	return hook(call)
}

// Register calls the store through OnRegister.
func (h *hooked) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	return through(h.OnRegister, func() ([]store.Registered, error) { return h.Restorable.Register(ctx, regs) })
}

// Claim calls the store through OnClaim.
func (h *hooked) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	return through(h.OnClaim, func() ([]store.Claimed, error) { return h.Restorable.Claim(ctx, shard, hints, o) })
}

// Settle calls the store through OnSettle.
func (h *hooked) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	return through(h.OnSettle, func() ([]store.Settled, error) { return h.Restorable.Settle(ctx, settlements) })
}

// Update calls the store, and OnChange before each change.
func (h *hooked) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	return h.Restorable.Update(ctx, key, func(j *job.Job, now job.Instant) error {
		if h.OnChange != nil {
			h.OnChange()
		}
		return change(j, now)
	})
}

// errLost is the error of a call whose answer was lost.
var errLost = errors.Join(store.ErrUnavailable, errors.New("the answer was lost"))

// lost makes the call and loses its answer.
func lost[T any](call func() (T, error)) (T, error) {
	_, err := call()
	var none T
	return none, errors.Join(errLost, err)
}

// unsent loses the call itself.
func unsent[T any](func() (T, error)) (T, error) {
	var none T
	return none, errLost
}
