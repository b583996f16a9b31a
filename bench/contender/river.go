package contender

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// How River is tuned.
const (
	riverWorkers  = 1000
	riverCooldown = 5 * time.Millisecond
)

// callback is River's form of a job.
type callback struct {
	ID   string `json:"id"`
	URL  string `json:"url"`
	Body string `json:"body"`
}

// Kind names the kind of job.
func (callback) Kind() string { return "callback" }

type riverContender struct {
	child
	url      string
	pool     *pgxpool.Pool
	client   *river.Client[pgx.Tx]
	postgres *Postgres
}

func newRiver(ctx context.Context, s *Setup) (Contender, error) {
	if s.Postgres == nil {
		return nil, errors.New("river needs PostgreSQL")
	}
	url, err := s.Postgres.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := openPool(ctx, url)
	if err != nil {
		return nil, err
	}
	c := &riverContender{child: child{setup: s}, url: url, pool: pool, postgres: s.Postgres}
	if c.client, err = prepareRiver(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return c, nil
}

// prepareRiver makes River's tables, and a client that only inserts.
func prepareRiver(ctx context.Context, pool *pgxpool.Pool) (*river.Client[pgx.Tx], error) {
	driver := riverpgxv5.New(pool)
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	return river.NewClient(driver, &river.Config{Logger: quiet})
}

func (c *riverContender) Load(ctx context.Context, l *Load) error {
	return l.Batches(batchSize, func(jobs []Job) error {
		params := make([]river.InsertManyParams, len(jobs))
		for i, j := range jobs {
			params[i] = river.InsertManyParams{Args: callbackOf(j), InsertOpts: &river.InsertOpts{ScheduledAt: j.Due}}
		}
		if l.Fast {
			_, err := c.client.InsertManyFast(ctx, params)
			return err
		}
		_, err := c.client.InsertMany(ctx, params)
		return err
	})
}

func (c *riverContender) Register(ctx context.Context, j Job) error {
	_, err := c.client.Insert(ctx, callbackOf(j), &river.InsertOpts{ScheduledAt: j.Due})
	return err
}

func callbackOf(j Job) callback { return callback{ID: j.ID, URL: j.URL, Body: string(j.Body)} }

func (c *riverContender) Start(ctx context.Context) error { return c.start(ctx, River, c.url) }

// Served implements Served.
func (c *riverContender) Served(ctx context.Context) (float64, error) {
	return c.postgres.transactions(ctx, c.url)
}

func (c *riverContender) Cost() (Cost, error) { return c.postgres.cost(c.processes) }

func (c *riverContender) Close() error {
	err := c.stop()
	c.pool.Close()
	return err
}

// riverWorker delivers.
type riverWorker struct {
	river.WorkerDefaults[callback]
	poster *poster
	again  time.Duration
}

func (w *riverWorker) Work(ctx context.Context, j *river.Job[callback]) error {
	return w.poster.post(ctx, j.Args.URL, []byte(j.Args.Body))
}

// NextRetry is when a failed job is tried again; the zero time leaves that to River.
func (w *riverWorker) NextRetry(j *river.Job[callback]) time.Time {
	if w.again == 0 {
		return time.Time{}
	}
	return j.AttemptedAt.Add(w.again)
}

// runRiver is the process.
func runRiver(ctx context.Context, o *options) error {
	pool, err := openPool(ctx, o.storeURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{poster: newPoster(riverWorkers), again: o.again})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		Workers:       workers,
		FetchCooldown: riverCooldown, FetchPollInterval: 10 * riverCooldown,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := o.ready(); err != nil {
		return err
	}
	<-ctx.Done()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	return client.Stop(limit)
}
