package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/store"
)

// popper takes hints off one shard's ready list. A client cannot end its own blocked read.
// So each shard blocks on a connection of its own, and another connection asks the server
// to end the pop when the caller's context ends.
type popper struct {
	client redis.UniversalClient
	key    string

	mu   sync.Mutex // one pop at a time
	node *redis.Client
	conn *redis.Conn
	id   int64 // the connection's, on its server
	hot  bool  // the last pop found something, so look before blocking
}

// Pop takes up to limit hints, waiting up to wait (at most 2 s) for the first.
func (s *Store) Pop(ctx context.Context, n, limit int, wait time.Duration) ([]store.Hint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	raw, err := s.shards[n].pop.pop(ctx, limit, min(wait, maxPopWait))
	switch {
	case len(raw) > 0: // also if ctx has just ended: the caller claims and releases them
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, s.wrap(err)
	}
	hints := make([]store.Hint, 0, len(raw))
	for _, r := range raw {
		h, err := parseHint(r)
		if err != nil {
			s.log.Error("the ready list contains an invalid entry; it is skipped", "error", err)
			continue
		}
		hints = append(hints, h)
	}
	return hints, nil
}

// Return puts popped hints back on the ready list, before the others.
func (s *Store) Return(ctx context.Context, n int, hints []store.Hint) error {
	raw := make([]any, len(hints))
	for i, h := range hints {
		raw[len(raw)-1-i] = h.Lane.String() + "|" + h.ID
	}
	return s.wrap(s.db.LPush(ctx, s.shards[n].ready, raw...).Err())
}

// Take takes jobs whose hints are on the shard's ready list, or carries them from pull queues.
func (s *Store) Take(ctx context.Context, n int, o store.TakeOptions) (store.Taken, error) {
	return s.shards[n].taker.Take(ctx, o)
}

func (p *popper) pop(ctx context.Context, limit int, wait time.Duration) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.connect(ctx); err != nil {
		return nil, err
	}
	if p.hot || wait <= 0 {
		hints, err := p.take(ctx, limit)
		if err != nil || len(hints) > 0 || wait <= 0 {
			return hints, err
		}
	}
	hint, err := p.block(ctx, wait)
	if err != nil || hint == "" {
		return nil, err
	}
	if limit == 1 || ctx.Err() != nil {
		return []string{hint}, nil
	}
	// The hints that arrived with it. A failure here must not lose the first one.
	more, _ := p.take(ctx, limit-1)
	return append([]string{hint}, more...), nil
}

// take takes hints without waiting.
func (p *popper) take(ctx context.Context, limit int) ([]string, error) {
	hints, err := p.conn.LPopCount(ctx, p.key, limit).Result()
	if err != nil && !isNil(err) {
		p.drop()
		return nil, err
	}
	p.hot = len(hints) > 0
	return hints, nil
}

// block waits for one hint; empty when none came.
func (p *popper) block(ctx context.Context, wait time.Duration) (string, error) {
	detached := context.WithoutCancel(ctx)
	unblocked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(unblocked)
		c, cancel := context.WithTimeout(detached, time.Second)
		defer cancel()
		// When this fails the pop ends by itself, after wait.
		_ = p.node.ClientUnblock(c, p.id).Err()
	})
	// The caller's context could close the connection just when the pop takes a hint. The
	// command is spelled out because the library's own rounds waits up to whole seconds.
	v, err := p.conn.Do(detached, "blpop", p.key, strconv.FormatFloat(wait.Seconds(), 'f', 3, 64)).StringSlice()
	if !stop() {
		<-unblocked
	}
	switch {
	case isNil(err):
		return "", nil
	case err != nil:
		p.drop()
		return "", err
	case len(v) != 2:
		p.drop()
		return "", fmt.Errorf("blpop answered %d values", len(v))
	}
	return v[1], nil
}

func (p *popper) connect(ctx context.Context) error {
	if p.conn != nil {
		return nil
	}
	node, err := masterOf(ctx, p.client, p.key)
	if err != nil {
		return err
	}
	p.node, p.conn = node, node.Conn()
	id, err := p.conn.ClientID(ctx).Result()
	if err != nil {
		p.drop()
		return err
	}
	p.id = id
	return nil
}

// drop closes the connection. The next pop opens one to the current master.
func (p *popper) drop() {
	_ = p.conn.Close()
	p.conn, p.hot = nil, false
}
