package pulls

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
)

// maxCarry bounds the jobs that calls carry together.
const maxCarry = 500

// gatherer carries for several calls at once: those that ask for the same topics while it carries are
// the next ones. Each on its own would read the same facts, and make the plans of the others old.
type gatherer struct {
	carry func(ctx context.Context, shard int, topics []string, most int) (store.CarryResult, error)

	mu sync.Mutex
	of map[string]*gathering
}

// gathering is the calls for some topics of a shard.
type gathering struct {
	calls   int
	batches *batch.Batcher[*share]
}

// share is what one call gets.
type share struct {
	most   int
	left   func() bool // the caller has left
	result store.CarryResult
	err    error
}

// get carries up to most jobs of a shard. Its error is that of carrying, or of ctx.
func (g *gatherer) get(ctx context.Context, shard int, topics []string, most int) (store.CarryResult, error) {
	name := strconv.Itoa(shard) + " " + strings.Join(topics, " ")
	batches := g.enter(name, shard, topics)
	defer g.leave(name)
	s := &share{most: most, left: func() bool { return ctx.Err() != nil }}
	if err := batches.Do(ctx, s); err != nil {
		return store.CarryResult{}, err
	}
	return s.result, s.err
}

func (g *gatherer) enter(name string, shard int, topics []string) *batch.Batcher[*share] {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.of[name]
	if of == nil {
		o := batch.Options[*share]{Workers: 1, MaxCount: maxCarry, Cost: func(s *share) (count, bytes int) { return s.most, 0 }}
		of = &gathering{batches: batch.New(o, func(ctx context.Context, shares []*share) { g.serve(ctx, shard, topics, shares) })}
		g.of[name] = of
	}
	of.calls++
	return of.batches
}

func (g *gatherer) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of[name].calls--; g.of[name].calls == 0 {
		delete(g.of, name)
	}
}

// serve carries for some calls, and divides the jobs in the order of the calls.
func (g *gatherer) serve(ctx context.Context, shard int, topics []string, shares []*share) {
	most := 0
	for _, s := range shares {
		most += s.most
	}
	r, err := g.carry(ctx, shard, topics, most)
	rest := r.Carried
	for _, s := range shares {
		s.result, s.err = r, err
		n := min(s.most, len(rest))
		if s.left() && len(shares) > 1 {
			n = 0
		}
		s.result.Carried, rest = rest[:n], rest[n:]
	}
}
