package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
	"github.com/duehook/duehook/internal/job"
)

const (
	// A node rests after restFor in which it used no more than restShare of a processor.
	restFor, restShare = 5 * time.Second, 0.02
	// restLimit is how long the debt of a load may last.
	restLimit = time.Hour
)

// debt measures a delivery of the embedded store in an empty store, right after a load of waiting jobs and a start, and once the
// engine has paid the debt of the load.
func debt(ctx context.Context, r *runner) (*result, error) {
	table := report.Table{Header: []string{"waiting jobs", "CPU µs per delivery: empty store", "after load and start", "debt paid", "÷ empty", "seconds until paid"}}
	for _, waiting := range r.Size.Restart {
		d, err := r.debtOf(ctx, waiting)
		if err != nil {
			return nil, err
		}
		table.Add(stats.Count(waiting), d.alone.String(), d.loaded.String(), d.paid.String(), d.paid.Over(d.alone).String(), stats.Number(d.seconds))
	}
	return &result{tables: []report.Table{table}}, nil
}

// debts are figures of a store with waiting jobs, in µs for each delivery.
type debts struct {
	alone, loaded, paid stats.Sample
	seconds             float64
}

func (r *runner) debtOf(ctx context.Context, waiting int) (d debts, err error) {
	c, err := r.contend(ctx, contender.Embedded, r.setup)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	node, ok := c.(contender.Node)
	if !ok {
		return d, errors.New("the embedded duehook is no node")
	}
	jobs, drains := r.Size.Backlog/scaleBacklog, 0
	// drain starts the node and delivers some jobs.
	drain := func(into *stats.Sample) error {
		load, topic := r.backlog(jobs), fmt.Sprint("debt-", drains)
		drains++
		load.Topic = func(int) string { return topic }
		if err := c.Load(ctx, load); err != nil {
			return err
		}
		took, err := r.drainLoaded(ctx, c, jobs, false, fromReady)
		*into = append(*into, took.processes*microsecondsPerJob)
		return err
	}
	for range r.Size.Rounds {
		if err := errors.Join(drain(&d.alone), node.Stop()); err != nil {
			return d, err
		}
	}
	if err := c.Load(ctx, r.waitingJobs(waiting)); err != nil {
		return d, err
	}
	began := r.clock.Now()
	if err := drain(&d.loaded); err != nil {
		return d, err
	}
	if err := r.rest(ctx, c); err != nil {
		return d, err
	}
	d.seconds = (r.clock.Now().Sub(began) - restFor).Seconds()
	for range r.Size.Rounds {
		if err := errors.Join(node.Stop(), drain(&d.paid)); err != nil {
			return d, err
		}
	}
	return d, nil
}

// rest waits until the processes of a contender rest.
func (r *runner) rest(ctx context.Context, c contender.Contender) error {
	before, err := c.Cost()
	if err != nil {
		return err
	}
	for until := r.clock.Now().Add(restLimit); r.clock.Now().Before(until); {
		if err := job.Sleep(ctx, r.clock, restFor); err != nil {
			return err
		}
		now, err := c.Cost()
		if err != nil || now.Sub(before).Processes.Seconds() <= restShare*restFor.Seconds() {
			return err
		}
		before = now
	}
	return fmt.Errorf("the node does not rest within %v", restLimit)
}
