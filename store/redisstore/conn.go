package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxPopWait bounds how long a pop blocks, and with it the wait for a server that vanished
// silently.
const maxPopWait = 2 * time.Second

const (
	// callTimeout is how long a server may take to answer.
	callTimeout = 3 * time.Second
	// clusterCallTimeout is the same in a Cluster, where a call is tried at a
	// frozen node twice before it goes to the one that took over.
	clusterCallTimeout = 2 * time.Second
	// lookEvery is how often the client reloads the state of a Cluster.
	lookEvery = time.Second
)

// connect makes a client; it connects when it is first used.
func connect(o *redis.UniversalOptions) redis.UniversalClient {
	if !o.IsClusterMode {
		return redis.NewUniversalClient(o)
	}
	cluster := o.Cluster()
	cluster.ClusterStateReloadInterval = lookEvery
	c := redis.NewClusterClient(cluster)
	c.OnNewNode(func(node *redis.Client) { node.AddHook(lookAgain{c}) })
	return c
}

func popOptions(o *redis.UniversalOptions, shards int) *redis.UniversalOptions {
	p := *o
	// A retried pop would lose the hint that the first one took.
	p.MaxRetries = -1
	p.PoolSize, p.MinIdleConns = shards+2, 0
	p.ReadTimeout = maxPopWait + time.Second
	return &p
}

// masterOf is the client of the server in charge of a key.
func masterOf(ctx context.Context, client redis.UniversalClient, key string) (*redis.Client, error) {
	switch c := client.(type) {
	case *redis.Client:
		return c, nil
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	}
	return nil, fmt.Errorf("redisstore: no single server behind a %T", client)
}

// lookAgain makes a Cluster's client reload the masters as soon as a node fails or reports
// that it is no master. The library waits too long, and for commands sent to a node
// directly it never reloads them.
type lookAgain struct{ cluster *redis.ClusterClient }

func (l lookAgain) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		l.after(ctx, err)
		return conn, err
	}
}

func (l lookAgain) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		l.after(ctx, err)
		return err
	}
}

func (l lookAgain) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		l.after(ctx, err)
		return err
	}
}

// after reloads the masters in the background, at most five times a second.
func (l lookAgain) after(ctx context.Context, err error) {
	if err != nil && (elsewhere(err) || !isReply(err) && !errors.Is(err, context.Canceled)) {
		l.cluster.ReloadState(ctx)
	}
}

// elsewhere reports whether a server says that another one is in charge.
func elsewhere(err error) bool {
	for _, prefix := range []string{"MOVED", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "UNBLOCKED"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// isReply reports whether a server answered, if only with an error.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
