package carrier

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/duehook/duehook/internal/kit/outage"
)

const (
	// purgeBatch is the most jobs of one call of Purge: the size of the
	// batches in which duehook writes to a store.
	purgeBatch = 500
	// purgeBatches bounds one run to half a million jobs.
	purgeBatches = 1000
)

// chore is a piece of housekeeping, and when to do it.
type chore struct {
	name     string
	schedule cron.Schedule
	do       func(ctx context.Context) error
}

func (c *Carrier) newChores() ([]chore, error) {
	purge, err := c.parseSchedule(c.opts.PurgeSchedule)
	if err != nil {
		return nil, fmt.Errorf("carrier: purge schedule: %w", err)
	}
	depth, err := c.parseSchedule(c.opts.DepthSchedule)
	if err != nil {
		return nil, fmt.Errorf("carrier: depth schedule: %w", err)
	}
	return []chore{
		{"sampling the store's depth", depth, c.sampleDepth},
		{"purging ended jobs", purge, c.purge},
	}, nil
}

// parseSchedule refuses what cron would panic on, change silently or never run.
func (c *Carrier) parseSchedule(spec string) (cron.Schedule, error) {
	if strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=") {
		if !strings.Contains(spec, " ") {
			return nil, fmt.Errorf("%q names a time zone but no time", spec)
		}
	}
	schedule, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, fmt.Errorf("%q is no schedule: %w", spec, err)
	}
	if _, every, ok := strings.Cut(spec, "@every "); ok {
		if d, err := time.ParseDuration(every); err != nil || d < time.Second {
			return nil, fmt.Errorf("%q: the shortest interval is 1s", spec)
		}
	}
	if schedule.Next(c.clock.Now()).IsZero() {
		return nil, fmt.Errorf("%q never comes", spec)
	}
	return schedule, nil
}

// keepHouse does the chores when their time comes, and all of them once at
// the start, until ctx ends.
func (c *Carrier) keepHouse(ctx context.Context) {
	runner := cron.New(cron.WithLogger(cronLog{c.log, slog.LevelDebug}))
	var entries []cron.EntryID
	for _, ch := range c.chores {
		log := c.log.With("chore", ch.name)
		health := outage.New(ch.name, c.clock, log, c.opts.Random)
		// A panic would keep SkipIfStillRunning's place for ever if Recover
		// were not inside it.
		guarded := cron.NewChain(
			cron.SkipIfStillRunning(cronLog{log, slog.LevelWarn}),
			cron.Recover(cronLog{log, slog.LevelError}),
		).Then(cron.FuncJob(func() {
			if err := ch.do(ctx); err != nil {
				health.Note(ctx, err)
				return
			}
			health.Worked()
		}))
		entries = append(entries, runner.Schedule(ch.schedule, guarded))
	}
	runner.Start()
	for _, id := range entries {
		runner.Entry(id).WrappedJob.Run()
	}
	<-ctx.Done()
	<-runner.Stop().Done()
}

// purge forgets ended jobs past their retention.
func (c *Carrier) purge(ctx context.Context) error {
	for range purgeBatches {
		n, err := c.store.Purge(ctx, purgeBatch)
		if err != nil {
			return err
		}
		c.metrics.purged.Add(float64(n))
		if n == 0 {
			return nil
		}
	}
	return nil
}

func (c *Carrier) sampleDepth(ctx context.Context) error {
	d, err := c.store.Depth(ctx)
	if err != nil {
		c.metrics.depth.last.Store(nil)
		return err
	}
	c.metrics.depth.last.Store(&d)
	return nil
}

// cronLog passes what cron logs on to slog, at a level of its own.
type cronLog struct {
	log  *slog.Logger
	info slog.Level
}

func (l cronLog) Info(msg string, keysAndValues ...any) {
	l.log.Log(context.Background(), l.info, "housekeeping", append([]any{"event", msg}, keysAndValues...)...)
}

func (l cronLog) Error(err error, msg string, keysAndValues ...any) {
	l.log.Error("housekeeping", append([]any{"event", msg, "error", err}, keysAndValues...)...)
}
