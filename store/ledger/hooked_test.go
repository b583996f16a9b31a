package ledger_test

import (
	"context"
	"errors"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// hooked is a store whose calls a test can look at, replace, or spoil; a nil
// hook leaves the call as it is.
type hooked struct {
	store.Store
	register func(call func() ([]store.Registered, error)) ([]store.Registered, error)
	claim    func(call func() ([]store.Claimed, error)) ([]store.Claimed, error)
	settle   func(call func() ([]store.Settled, error)) ([]store.Settled, error)
	restore  func(call func() (int, error)) (int, error)
	get      func(call func() (job.Job, error)) (job.Job, error)
	change   func() // before an update's change is called, with what was read
}

// hook gives an option that wraps the memstore, and what it is wrapped in.
func hook() (*hooked, with) {
	h := &hooked{}
	return h, wrapped(func(s store.Store) store.Store {
		h.Store = s
		return h
	})
}

func through[T any](hook func(func() (T, error)) (T, error), call func() (T, error)) (T, error) {
	if hook == nil {
		return call()
	}
	return hook(call)
}

func (h *hooked) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	return through(h.register, func() ([]store.Registered, error) { return h.Store.Register(ctx, regs) })
}

func (h *hooked) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	return through(h.claim, func() ([]store.Claimed, error) { return h.Store.Claim(ctx, shard, hints, o) })
}

func (h *hooked) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	return through(h.settle, func() ([]store.Settled, error) { return h.Store.Settle(ctx, settlements) })
}

func (h *hooked) Restore(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	return through(h.restore, func() (int, error) { return h.Store.Restore(ctx, jobs) })
}

func (h *hooked) Get(ctx context.Context, key job.Key) (job.Job, error) {
	return through(h.get, func() (job.Job, error) { return h.Store.Get(ctx, key) })
}

func (h *hooked) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	return h.Store.Update(ctx, key, func(j *job.Job, now job.Instant) error {
		if h.change != nil {
			h.change()
		}
		return change(j, now)
	})
}

// errLost is what a call gives whose answer was lost.
var errLost = errors.Join(store.ErrUnavailable, errors.New("the answer was lost"))

// lost makes the call and loses its answer.
func lost[T any](call func() (T, error)) (T, error) {
	_, err := call()
	var none T
	return none, errors.Join(errLost, err)
}

// unsent does not make the call.
func unsent[T any](func() (T, error)) (T, error) {
	var none T
	return none, errLost
}
