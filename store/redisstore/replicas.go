package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// DefaultReplicaWait is Options.ReplicaWait when that is zero.
const DefaultReplicaWait = time.Second

// confirmTimeout is how long a server may take to answer, on top of the wait.
const confirmTimeout = time.Second

// confirming makes acknowledged changes survive a failover: a change is acknowledged when a
// number of replicas have it.
type confirming struct {
	// client has its own connections: waiting for replicas must not delay carrying and
	// delivery.
	client   redis.UniversalClient
	replicas int
	wait     time.Duration
}

func newConfirming(o *redis.UniversalOptions, replicas int, wait time.Duration) *confirming {
	c := *o
	// Clients wait for this call, and repeat it after a refusal, so it fails soon.
	c.ReadTimeout = confirmTimeout + wait
	c.MaxRetries = 1
	return &confirming{client: connect(&c), replicas: replicas, wait: wait}
}

// run runs a script on the server in charge of key and waits until enough replicas have its
// writes, on one connection: another server's replicas prove nothing. mark is a key in the
// slot.
func (c *confirming) run(ctx context.Context, key, mark string, script *redis.Script, keys []string, args []any) (*redis.Cmd, error) {
	cmd, err := c.send(ctx, key, mark, script.EvalSha, keys, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return c.send(ctx, key, mark, script.Eval, keys, args)
	}
	return cmd, err
}

type evaluate = func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

func (c *confirming) send(ctx context.Context, key, mark string, eval evaluate, keys []string, args []any) (*redis.Cmd, error) {
	node, err := masterOf(ctx, c.client, key)
	if err != nil {
		return nil, err
	}
	pipe := node.Pipeline()
	cmd := eval(ctx, pipe, keys, args...)
	// WAIT waits for the writes of its connection. A repeated script whose first run was
	// not confirmed writes nothing.
	marked := markScript.Eval(ctx, pipe, []string{mark})
	confirmed := pipe.Do(ctx, "wait", c.replicas, c.wait.Milliseconds())
	_, _ = pipe.Exec(ctx) // each command has its own error
	if err := cmd.Err(); err != nil {
		return nil, err
	}
	if err := cmp.Or(marked.Err(), confirmed.Err()); err != nil {
		return nil, &unconfirmedError{err}
	}
	n, err := confirmed.Int()
	if err != nil {
		return nil, err
	}
	if n < c.replicas {
		return nil, fmt.Errorf("%d of %d replicas confirmed within %v", n, c.replicas, c.wait)
	}
	return cmd, nil
}

// unconfirmedError reports that replicas may lack the writes of a script. It hides its
// cause, which does not concern the script.
type unconfirmedError struct{ cause error }

func (e *unconfirmedError) Error() string { return "wait for replicas: " + e.cause.Error() }

// run runs a script.
func (s *Store) run(ctx context.Context, _ *shard, script *redis.Script, keys []string, args []any) (*redis.Cmd, error) {
	cmd := script.Run(ctx, s.db, keys, args...)
	return cmd, s.wrap(cmd.Err())
}

// commit runs a script whose effect is acknowledged to a client, and waits for replicas if
// MinReplicas is set.
func (s *Store) commit(ctx context.Context, sh *shard, script *redis.Script, keys []string, args []any) (*redis.Cmd, error) {
	if s.confirm == nil {
		return s.run(ctx, sh, script, keys, args)
	}
	if s.guard != nil { // it is sent to a node of a Cluster directly
		if err := s.guard.check(ctx); err != nil {
			return nil, s.wrap(err)
		}
	}
	cmd, err := s.confirm.run(ctx, sh.lock, sh.mark, script, keys, args)
	return cmd, s.wrap(err)
}
