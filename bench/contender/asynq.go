package contender

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/bench/system"
)

const (
	asynqTask = "callback"
	// asynqClients is how many goroutines load jobs, which asynq takes one by one.
	asynqClients = 32
	// asynqPoll is how often asynq looks for tasks that are due, and for tasks
	// after it found none: its defaults are 5 s and 1 s.
	asynqPoll = 20 * time.Millisecond
)

type asynqContender struct {
	child
	redis  *system.Redis
	client *asynq.Client
}

func newAsynq(ctx context.Context, s *Setup) (Contender, error) {
	r, err := system.StartRedis(ctx, s.Persistence)
	if err != nil {
		return nil, err
	}
	return &asynqContender{
		child: child{setup: s}, redis: r, client: asynq.NewClient(asynq.RedisClientOpt{Addr: r.Addr}),
	}, nil
}

func (c *asynqContender) Load(ctx context.Context, l *Load) error {
	var clients errgroup.Group
	for first := range asynqClients {
		clients.Go(func() error {
			for n := first; n < l.Jobs; n += asynqClients {
				if err := c.Register(ctx, l.Job(n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return clients.Wait()
}

func (c *asynqContender) Register(ctx context.Context, j Job) error {
	task := asynq.NewTask(asynqTask, append([]byte(j.URL+"\n"), j.Body...))
	_, err := c.client.EnqueueContext(ctx, task, asynq.TaskID(j.ID), asynq.ProcessAt(j.Due))
	return err
}

func (c *asynqContender) Start(ctx context.Context) error { return c.start(ctx, Asynq, c.redis.URL()) }

func (c *asynqContender) Redis() *system.Redis { return c.redis }

func (c *asynqContender) Cost() (Cost, error) { return redisCost(c.processes, c.redis) }

func (c *asynqContender) Close() error {
	return errors.Join(c.stop(), c.client.Close(), c.redis.Close())
}

// runAsynq is the process.
func runAsynq(ctx context.Context, o *options) error {
	where, err := asynq.ParseRedisURI(o.storeURL)
	if err != nil {
		return err
	}
	config := asynq.Config{
		Concurrency: o.workers, LogLevel: asynq.WarnLevel,
		TaskCheckInterval: asynqPoll, DelayedTaskCheckInterval: asynqPoll,
	}
	if o.again > 0 {
		config.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return o.again }
	}
	server := asynq.NewServer(where, config)
	p := newPoster(o.workers)
	err = server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		url, body, found := bytes.Cut(t.Payload(), []byte("\n"))
		if !found {
			return fmt.Errorf("a task of %d bytes is none of ours: %w", len(url), asynq.SkipRetry)
		}
		return p.post(ctx, string(url), body)
	}))
	if err != nil {
		return err
	}
	if err := o.ready(); err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}
