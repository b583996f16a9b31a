package contender

import (
	"context"
	"errors"

	"github.com/duehook/duehook/bench/limit"
	"github.com/duehook/duehook/bench/system"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// batchSize is what the limit takes at a time, and what is loaded at a time.
const batchSize = 500

type limitContender struct {
	child
	redis *system.Redis
	queue *limit.Queue
}

func newLimit(ctx context.Context, s *Setup) (Contender, error) {
	r, err := system.StartRedis(ctx, s.Persistence)
	if err != nil {
		return nil, err
	}
	q, err := limit.Open(r.URL())
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &limitContender{child: child{setup: s}, redis: r, queue: q}, nil
}

func (c *limitContender) Load(ctx context.Context, l *Load) error {
	return l.Batches(batchSize, func(jobs []Job) error { return c.add(ctx, jobs) })
}

func (c *limitContender) Register(ctx context.Context, j Job) error { return c.add(ctx, []Job{j}) }

func (c *limitContender) add(ctx context.Context, jobs []Job) error {
	batch := make([]limit.Job, len(jobs))
	for i, j := range jobs {
		batch[i] = limit.Job{ID: j.ID, URL: j.URL, Body: j.Body, Due: j.Due}
	}
	return c.queue.Add(ctx, batch)
}

func (c *limitContender) Start(ctx context.Context) error { return c.start(ctx, Limit, c.redis.URL()) }

func (c *limitContender) Redis() *system.Redis { return c.redis }

func (c *limitContender) Cost() (Cost, error) { return redisCost(c.processes, c.redis) }

func (c *limitContender) Close() error {
	return errors.Join(c.stop(), c.queue.Close(), c.redis.Close())
}

// OnRedis is a Contender whose jobs are in Redis.
type OnRedis interface {
	Contender
	Redis() *system.Redis
}

func redisCost(processes []*system.Process, r *system.Redis) (Cost, error) {
	own, err := costOf(processes)
	if err != nil {
		return Cost{}, err
	}
	store, err := testenv.CPUTime(r.PID())
	return Cost{own, store}, err
}

// runLimit is the process.
func runLimit(ctx context.Context, o *options) error {
	q, err := limit.Open(o.storeURL)
	if err != nil {
		return err
	}
	if err := o.ready(); err != nil {
		return errors.Join(err, q.Close())
	}
	p := limit.Pipeline{
		Queue: q, Workers: o.workers, Batch: batchSize, Again: o.again,
		Clock: job.SystemClock(), Post: newPoster(o.workers).post,
	}
	return errors.Join(p.Run(ctx), q.Close())
}
