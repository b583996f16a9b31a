//go:build failpoints

package node

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// failpoints are the steps of a job's way at which a node of the fault harness
// can be killed. All of them lie between a node and its store.
var failpoints = []string{
	"accepted", // registered; the client has no answer yet
	"carried",  // on the ready list
	"popped",   // taken off the ready list
	"claimed",  // claimed; no request was made yet
	"posted",   // its attempt has ended; nothing is written down yet
	"settled",  // written down; the worker does not know it yet
}

// failing is a store whose process dies when it reaches a step for the n-th time: at once,
// without cleaning up, as in a power failure.
type failing struct {
	store.Store
	point string
	left  atomic.Int64
}

// withFailpoints reads $FAILPOINT, such as "claimed:3".
func withFailpoints(s store.Store) (store.Store, error) {
	spec := os.Getenv("FAILPOINT")
	if spec == "" {
		return s, nil
	}
	point, times, _ := strings.Cut(spec, ":")
	n, err := strconv.Atoi(times)
	if err != nil || n < 1 || !slices.Contains(failpoints, point) {
		return nil, fmt.Errorf("FAILPOINT %q: write point:n with one of %s", spec, strings.Join(failpoints, ", "))
	}
	f := &failing{Store: s, point: point}
	f.left.Store(int64(n))
	return f, nil
}

// reach is called at a point with the number of jobs that reached it.
func (f *failing) reach(point string, jobs int, err error) {
	if err != nil || jobs == 0 || point != f.point || f.left.Add(-1) != 0 {
		return
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {} // until the signal is there
}

func (f *failing) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	registered, err := f.Store.Register(ctx, regs)
	f.reach("accepted", len(registered), err)
	return registered, err
}

func (f *failing) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	result, err := f.Store.Carry(ctx, shard, o)
	f.reach("carried", len(result.Carried), err)
	return result, err
}

func (f *failing) Pop(ctx context.Context, shard, limit int, wait time.Duration) ([]store.Hint, error) {
	hints, err := f.Store.Pop(ctx, shard, limit, wait)
	f.reach("popped", len(hints), err)
	return hints, err
}

func (f *failing) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	claimed, err := f.Store.Claim(ctx, shard, hints, o)
	f.reach("claimed", len(claimed), err)
	return claimed, err
}

func (f *failing) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	f.reach("posted", len(settlements), nil)
	settled, err := f.Store.Settle(ctx, settlements)
	f.reach("settled", len(settled), err)
	return settled, err
}
