package scenario

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
	"github.com/duehook/duehook/bench/system"
	"github.com/duehook/duehook/internal/job"
)

// storm measures how fast jobs are carried that are due within one second, and
// how others fare on the same Redis meanwhile.
func storm(ctx context.Context, r *runner) (*result, error) {
	var seconds, p99, alone stats.Sample
	err := r.rounds([]string{contender.Duehook}, func(name string) (err error) {
		c, err := r.contend(ctx, name, r.setup)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		server, err := redisOf(c)
		if err != nil {
			return err
		}
		quiet, err := r.pings(ctx, server, func() error { return job.Sleep(ctx, r.clock, time.Second) })
		if err != nil {
			return err
		}
		alone = append(alone, quiet)
		// Loading takes longer than a second, so all are due when carrying begins.
		begin := r.clock.Now().Add(-time.Second)
		load := r.backlog(r.Size.Storm)
		load.Due = func(n int) time.Time {
			return begin.Add(time.Second * time.Duration(n) / time.Duration(r.Size.Storm))
		}
		if err := c.Load(ctx, load); err != nil {
			return err
		}
		busy, err := r.pings(ctx, server, func() error {
			began := r.clock.Now()
			last, err := contender.CarryAll(ctx, server, r.Size.Storm)
			seconds = append(seconds, last.Sub(began).Seconds())
			return err
		})
		p99 = append(p99, busy)
		return err
	})
	table := report.Table{Header: []string{"due within one second", "seconds until the last is carried", "other clients' PING p99, ms", "the same before"}}
	table.Add(stats.Count(r.Size.Storm), seconds.String(), p99.String(), alone.String())
	return &result{tables: []report.Table{table}}, err
}

// pings is the p99 of PING in milliseconds, once every millisecond, while do
// runs.
func (r *runner) pings(ctx context.Context, s *system.Redis, do func() error) (p99 float64, err error) {
	db := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer func() { _ = db.Close() }()
	done := make(chan error, 1)
	go func() { done <- do() }()
	var took []float64
	for {
		began := r.clock.Now()
		if err := db.Ping(ctx).Err(); err != nil {
			return 0, errors.Join(err, <-done)
		}
		took = append(took, float64(r.clock.Now().Sub(began).Microseconds())/1000)
		timer := r.clock.NewTimer(time.Millisecond)
		select {
		case err := <-done:
			timer.Stop()
			slices.Sort(took)
			return stats.Quantile(took, 0.99), err
		case <-timer.C():
		}
	}
}
