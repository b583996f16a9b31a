// Package memory bounds the bytes that a node holds for callers: one budget, with a share of it for each connection and
// for each key.
package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Shares of a budget.
const (
	ofConnection = 8 // a connection may have an eighth
	ofKey        = 2 // a key may have a half
)

// Bounds of waiting for room.
const (
	// Patience is how long a caller waits for room.
	Patience   = time.Second
	maxWaiting = 1024
)

// Least is the smallest budget that serves requests.
const Least = 8 << 20

var (
	// ErrNoRoom means that others hold the memory, and did not give it back in time.
	ErrNoRoom = errors.New("memory: no room now")
	// ErrTooLarge means that a share of the budget would never hold as much.
	ErrTooLarge = errors.New("memory: larger than a share")
)

// Budget is the memory that callers share. It is safe for concurrent use.
type Budget struct {
	clock   job.Clock
	mu      sync.Mutex
	all     account
	keys    map[string]*account
	waiting []*waiter
}

// account is what somebody holds.
type account struct {
	most, held      int64
	waiting, queued int // callers that wait, and how many may
	holds           int // that name the account
}

func (a *account) fits(n int64) bool { return a == nil || a.held+n <= a.most }

// New returns a budget of so many bytes.
func New(bytes int64, clock job.Clock) *Budget {
	return &Budget{clock: clock, all: account{most: bytes, queued: maxWaiting}, keys: map[string]*account{}}
}

// Total is the budget in bytes.
func (b *Budget) Total() int64 { return b.all.most }

// Share is the most that a caller can hold: the share of a connection.
func (b *Budget) Share() int64 { return b.all.most / ofConnection }

// Held is what all callers hold.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.held
}

// Waiting is how many callers wait for room.
func (b *Budget) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// Connection is the share of one connection.
type Connection struct{ account }

// Connect returns the share of a connection.
func (b *Budget) Connect() *Connection {
	return &Connection{account{most: b.Share(), queued: maxWaiting / ofConnection}}
}

// Hold is what one call holds, until Free. Its methods must not be called at the same time. A nil Hold holds nothing.
type Hold struct {
	budget    *Budget
	conn, key *account
	name      string // of key
	held      int64
}

// Hold returns a hold of nothing yet, on a connection; nil: of none.
func (b *Budget) Hold(on *Connection) *Hold {
	h := &Hold{budget: b}
	if on != nil {
		h.conn = &on.account
	}
	return h
}

// Share is the most that it can hold.
func (h *Hold) Share() int64 {
	if h == nil {
		return math.MaxInt64
	}
	return h.budget.Share()
}

// Bytes is what the call holds.
func (h *Hold) Bytes() int64 {
	if h == nil {
		return 0
	}
	return h.held
}

// As counts what the call holds for a key, from now on. Errors: ErrNoRoom, if the key has no room for that now.
func (h *Hold) As(key string) error {
	if h == nil || h.key != nil {
		return nil
	}
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.keys[key]
	if a == nil {
		a = &account{most: b.all.most / ofKey, queued: maxWaiting / ofKey}
	}
	if !a.fits(h.held) {
		return ErrNoRoom
	}
	b.keys[key], h.key, h.name = a, a, key
	a.holds++
	a.held += h.held
	return nil
}

// Add counts n more bytes, which are there already. Errors: ErrNoRoom and ErrTooLarge.
func (h *Hold) Add(n int64) error {
	if h == nil || n <= 0 {
		return nil
	}
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	return h.add(n)
}

func (h *Hold) add(n int64) error {
	switch {
	case h.held+n > h.budget.Share():
		return ErrTooLarge
	case !h.fits(n):
		return ErrNoRoom
	}
	h.move(n)
	return nil
}

func (h *Hold) fits(n int64) bool {
	return h.budget.all.fits(n) && h.conn.fits(n) && h.key.fits(n)
}

func (h *Hold) move(n int64) {
	h.held += n
	for _, a := range []*account{&h.budget.all, h.conn, h.key} {
		if a != nil {
			a.held += n
		}
	}
}

// waiter waits for room for n bytes.
type waiter struct {
	*Hold
	n       int64
	granted chan struct{}
}

// Take counts n more bytes that the call is about to use. It waits for room, at most for Patience. Errors: ErrNoRoom,
// also if ctx ended before, and ErrTooLarge.
func (h *Hold) Take(ctx context.Context, n int64) error {
	if h == nil || n <= 0 {
		return nil
	}
	b := h.budget
	b.mu.Lock()
	if err := h.add(n); !errors.Is(err, ErrNoRoom) {
		b.mu.Unlock()
		return err
	}
	w := &waiter{Hold: h, n: n, granted: make(chan struct{})}
	if !w.queue(1) {
		b.mu.Unlock()
		return ErrNoRoom
	}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	timer := b.clock.NewTimer(Patience)
	defer timer.Stop()
	err := ErrNoRoom
	select {
	case <-w.granted:
		return nil
	case <-timer.C():
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", ErrNoRoom, context.Cause(ctx))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, w)
	if i < 0 { // it was granted meanwhile
		return nil
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	w.queue(-1)
	return err
}

// queue counts the waiter. It reports false if too many wait.
func (w *waiter) queue(n int) bool {
	accounts := []*account{&w.budget.all, w.conn, w.key}
	for _, a := range accounts {
		if a != nil && n > 0 && a.waiting >= a.queued {
			return false
		}
	}
	for _, a := range accounts {
		if a != nil {
			a.waiting += n
		}
	}
	return true
}

// Give gives n bytes back.
func (h *Hold) Give(n int64) {
	if h == nil || n <= 0 {
		return
	}
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	h.move(-min(n, h.held))
	b.grant()
}

// Free ends the hold.
func (h *Hold) Free() {
	if h == nil {
		return
	}
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	h.move(-h.held)
	if h.key != nil {
		if h.key.holds--; h.key.holds == 0 {
			delete(b.keys, h.name)
		}
		h.key = nil
	}
	b.grant()
}

// grant gives room to those who wait for it, the first ones first. A share that is used up does not hold up others.
func (b *Budget) grant() {
	left := b.waiting[:0]
	for _, w := range b.waiting {
		if !w.fits(w.n) {
			left = append(left, w)
			continue
		}
		w.move(w.n)
		w.queue(-1)
		close(w.granted)
	}
	clear(b.waiting[len(left):])
	b.waiting = left
}

// holdKey is the key of a call's Hold in its context.
type holdKey struct{}

// With returns a context with the hold.
func With(ctx context.Context, h *Hold) context.Context { return context.WithValue(ctx, holdKey{}, h) }

// Of returns the hold of a context, or nil.
func Of(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}
