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

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// failpoints are the steps of a job's way at which a node of the fault harness
// can be killed. All of them lie between a node and its store.
var failpoints = []string{
	"accepted", // registered; the client has no answer yet
	"carried",  // on the ready list
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
func withFailpoints(s store.Store, lists store.ReadyList) (store.Store, store.ReadyList, error) {
	spec := os.Getenv("FAILPOINT")
	if spec == "" {
		return s, lists, nil
	}
	point, times, _ := strings.Cut(spec, ":")
	n, err := strconv.Atoi(times)
	if err != nil || n < 1 || !slices.Contains(failpoints, point) {
		return nil, nil, fmt.Errorf("FAILPOINT %q: write point:n with one of %s", spec, strings.Join(failpoints, ", "))
	}
	f := &failing{Store: s, point: point}
	f.left.Store(int64(n))
	if lists == nil {
		return f, nil, nil
	}
	return f, failingLists{lists, f}, nil
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

// failingLists are the ready lists of a failing store.
type failingLists struct {
	store.ReadyList
	f *failing
}

func (l failingLists) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	result, err := l.ReadyList.Carry(ctx, shard, o)
	l.f.reach("carried", len(result.Carried), err)
	return result, err
}

func (f *failing) Take(ctx context.Context, shard int, o store.TakeOptions) (store.Taken, error) {
	taken, err := f.Store.Take(ctx, shard, o)
	f.reach("claimed", len(taken.Claims), err)
	return taken, err
}

func (f *failing) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	f.reach("posted", len(settlements), nil)
	settled, err := f.Store.Settle(ctx, settlements)
	f.reach("settled", len(settled), err)
	return settled, err
}
