package scenario

import (
	"context"
	"errors"
	"fmt"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
	"github.com/duehook/duehook/internal/job"
)

// idle measures what waiting costs.
func idle(ctx context.Context, r *runner) (*result, error) {
	names := r.among(contender.Duehook, contender.Embedded, contender.OnSQL, contender.Limit, contender.River, contender.Asynq)
	table := report.Table{Header: []string{
		stats.Count(r.Size.Idle) + " waiting jobs", "Redis commands/s, or transactions/s of PostgreSQL", "CPU ms/s: its processes", "its store",
	}}
	for _, name := range names {
		row, err := r.watch(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		table.Add(append([]string{contender.Title(name)}, row...)...)
	}
	return &result{tables: []report.Table{table}}, nil
}

func (r *runner) watch(ctx context.Context, name string) (row []string, err error) {
	c, err := r.contend(ctx, name, r.setup)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Load(ctx, r.waitingJobs(r.Size.Idle)); err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	q, err := r.quiet(ctx, c)
	if err != nil {
		return nil, err
	}
	commands := "–"
	if q.counted {
		commands = stats.Number(q.commands)
	}
	return []string{commands, stats.Number(q.processes), stats.Number(q.store)}, nil
}

// quietness is what happens by the second while nothing is to be done.
type quietness struct {
	commands, processes, store float64
	counted                    bool // the commands are
}

// quiet watches a contender that has nothing to do.
func (r *runner) quiet(ctx context.Context, c contender.Contender) (q quietness, err error) {
	if err := job.Sleep(ctx, r.clock, r.Size.Watch/2); err != nil { // what the start brings
		return q, err
	}
	const redisOwn, postgresOwn = 3, 1 // of the question itself, at least: HELLO, CLIENT SETINFO and INFO; a statement
	ours := 0.0
	commands := func() (float64, error) { return 0, nil }
	if server, err := redisOf(c); err == nil {
		ours = redisOwn
		commands = func() (float64, error) { return info(ctx, server, "total_commands_processed") }
	} else if served, is := c.(contender.Served); is {
		ours = postgresOwn
		commands = func() (float64, error) { return served.Served(ctx) }
	}
	before, err := c.Cost()
	if err != nil {
		return q, err
	}
	commandsBefore, err := commands()
	if err != nil {
		return q, err
	}
	if err := job.Sleep(ctx, r.clock, r.Size.Watch); err != nil {
		return q, err
	}
	commandsAfter, err := commands()
	if err != nil {
		return q, err
	}
	after, err := c.Cost()
	if err != nil {
		return q, err
	}
	seconds := r.Size.Watch.Seconds()
	cost := after.Sub(before)
	return quietness{
		counted: ours > 0, commands: max(0, commandsAfter-commandsBefore-ours) / seconds,
		processes: cost.Processes.Seconds() * 1000 / seconds, store: cost.Store.Seconds() * 1000 / seconds,
	}, nil
}
