package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
	"github.com/duehook/duehook/internal/job"
)

// punctuality is received − due of several rounds, in milliseconds.
type punctuality struct{ p50, p99, most, earliest stats.Sample }

func (p *punctuality) cells() []string {
	return []string{p.p50.String(), p.p99.String(), p.most.String(), p.earliest.String()}
}

// late registers so many jobs a second at a contender that runs, and measures
// received − due.
func (r *runner) late(ctx context.Context, c contender.Contender, rate int, into *punctuality) error {
	jobs := int(r.Size.Span.Seconds() * float64(rate))
	if err := r.receiver.Expect(ctx, jobs, false); err != nil {
		return err
	}
	if err := r.stream(ctx, c, jobs, rate); err != nil {
		return err
	}
	return r.arrived(ctx, jobs, into)
}

// arrived waits for jobs, and adds received − due.
func (r *runner) arrived(ctx context.Context, jobs int, into *punctuality) error {
	got, err := r.receiver.Report(ctx, r.Size.MaxAhead+time.Minute)
	if err != nil {
		return err
	}
	if got.Accepted != jobs {
		return fmt.Errorf("of %d jobs %d arrived", jobs, got.Accepted)
	}
	for sample, d := range map[*stats.Sample]time.Duration{
		&into.p50: got.P50, &into.p99: got.P99, &into.most: got.Max, &into.earliest: got.Earliest,
	} {
		*sample = append(*sample, float64(d.Microseconds())/1000)
	}
	return nil
}

// stream registers jobs at an even pace, each due at a random time later.
func (r *runner) stream(ctx context.Context, c contender.Contender, jobs, rate int) error {
	// So that the ids of one round are not those of another.
	round := strconv.FormatInt(r.clock.Now().UnixNano(), 36)
	begin := r.clock.Now()
	load := &contender.Load{
		Jobs: jobs, URL: r.receiver.Base + "/hook", Topic: oneTopic,
		Due: func(n int) time.Time {
			ahead := r.Size.MinAhead + rand.N(r.Size.MaxAhead-r.Size.MinAhead) //nolint:gosec // no secret
			return begin.Add(time.Duration(n) * time.Second / time.Duration(rate)).Add(ahead).Truncate(time.Millisecond)
		},
	}
	clients, ctx := errgroup.WithContext(ctx)
	for first := range manyClients {
		clients.Go(func() error {
			for n := first; n < jobs; n += manyClients {
				at := begin.Add(time.Duration(n) * time.Second / time.Duration(rate))
				if wait := at.Sub(r.clock.Now()); wait > 0 {
					if err := job.Sleep(ctx, r.clock, wait); err != nil {
						return err
					}
				}
				j := load.Job(n)
				j.ID = round + j.ID[len(round):]
				if err := c.Register(ctx, j); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return clients.Wait()
}

// lateness compares how punctual contenders are.
func lateness(ctx context.Context, r *runner) (*result, error) {
	names := r.among(contender.Duehook, contender.Embedded, contender.OnSQL, contender.Limit)
	if r.Size.Long {
		names = append(names, r.among(contender.River, contender.Asynq)...)
	}
	found := map[string]*punctuality{}
	key := func(name string, rate int) string { return fmt.Sprint(name, rate) }
	err := r.rounds(names, func(name string) (err error) {
		c, err := r.contend(ctx, name, r.setup)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		if err := c.Start(ctx); err != nil {
			return err
		}
		for _, rate := range r.Size.Rates {
			p := found[key(name, rate)]
			if p == nil {
				p = &punctuality{}
				found[key(name, rate)] = p
			}
			if err := r.late(ctx, c, rate, p); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	table := report.Table{Header: []string{"received − due, ms", "jobs/s", "p50", "p99", "max", "earliest"}}
	for _, rate := range r.Size.Rates {
		for _, n := range names {
			table.Add(append([]string{contender.Title(n), stats.Count(rate)}, found[key(n, rate)].cells()...)...)
		}
	}
	return &result{tables: []report.Table{table}}, nil
}
