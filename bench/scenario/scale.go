package scenario

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
)

// scaled is a contender beside so many waiting jobs.
type scaled struct {
	name    string
	waiting int
	contender.Contender

	drained  drained
	late     punctuality
	register float64
	quiet    quietness
}

// scaleBacklog is the share of the backlog that is drained beside waiting jobs.
const scaleBacklog = 5

// scale measures again with more and more jobs waiting. The nodes of all sizes
// run at the same time, so that rounds can alternate: waiting costs nothing.
func scale(ctx context.Context, r *runner) (res *result, err error) {
	var of []*scaled
	defer func() {
		for _, s := range of {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, name := range r.among(contender.Duehook, contender.Embedded, contender.OnSQL) {
		for _, waiting := range r.Size.Waiting {
			s := &scaled{name: name, waiting: waiting}
			if s.Contender, err = r.contend(ctx, name, r.setup); err != nil {
				return nil, err
			}
			of = append(of, s)
			if err := r.scaleUp(ctx, s); err != nil {
				return nil, fmt.Errorf("%s with %d waiting: %w", name, waiting, err)
			}
		}
	}
	if err := r.compareScaled(ctx, of); err != nil {
		return nil, err
	}
	return &result{
		tables: []report.Table{scaleTable(of)},
		charts: []chart{scaleChart(r, of)},
		sizing: scaleSizing(of), sizingChart: true,
	}, nil
}

// scaleUp fills a contender, and measures what needs no comparison by rounds.
func (r *runner) scaleUp(ctx context.Context, s *scaled) error {
	if err := s.Load(ctx, r.waitingJobs(s.waiting)); err != nil {
		return err
	}
	jobs := r.Size.Backlog / scaleBacklog
	if err := s.Load(ctx, r.backlog(jobs)); err != nil {
		return err
	}
	var err error
	if s.drained, err = r.drainLoaded(ctx, s, jobs, false, fromReady); err != nil {
		return err
	}
	s.quiet, err = r.quiet(ctx, s.Contender)
	return err
}

// compareScaled measures lateness in turn, and in the end registrations, which
// add to the waiting.
func (r *runner) compareScaled(ctx context.Context, of []*scaled) error {
	names, byName := make([]string, len(of)), map[string]*scaled{}
	for i, s := range of {
		names[i] = fmt.Sprint(s.name, s.waiting)
		byName[names[i]] = s
	}
	rate := r.Size.Rates[len(r.Size.Rates)/2]
	err := r.rounds(names, func(name string) error {
		s := byName[name]
		return r.late(ctx, s, rate, &s.late)
	})
	if err != nil {
		return err
	}
	for _, s := range of {
		api, ok := s.Contender.(contender.API)
		if !ok {
			return fmt.Errorf("%s has no API", s.name)
		}
		if _, s.register, err = r.register(ctx, api.Base(), manners[1], s.waiting); err != nil {
			return err
		}
	}
	return nil
}

func scaleTable(of []*scaled) report.Table {
	table := report.Table{Header: []string{
		"", "waiting", "registrations/s", "drain, jobs/s", "CPU s per 10,000: node", "server",
		"lateness p50, ms", "p99", "p99 ÷ with the fewest", "idle commands/s",
	}}
	fewest := map[string]*scaled{}
	for _, s := range of {
		if fewest[s.name] == nil {
			fewest[s.name] = s
		}
		store, commands := "–", "–"
		if s.drained.store > 0 {
			store, commands = stats.Number(s.drained.store), stats.Number(s.quiet.commands)
		}
		table.Add(contender.Title(s.name), stats.Count(s.waiting), stats.Number(s.register),
			stats.Number(s.drained.perSecond), stats.Number(s.drained.processes), store,
			s.late.p50.String(), s.late.p99.String(), s.late.p99.Over(fewest[s.name].late.p99).String(), commands)
	}
	return table
}

// microsecondsPerJob turns seconds for 10,000 jobs.
const microsecondsPerJob = 1_000_000 / 10_000

func scaleSizing(of []*scaled) *report.Table {
	table := &report.Table{Header: []string{"", "waiting", "µs of processors for a delivery: node", "server"}}
	for _, s := range of {
		store := "–"
		if s.drained.store > 0 {
			store = stats.Number(s.drained.store * microsecondsPerJob)
		}
		table.Add(contender.Title(s.name), stats.Count(s.waiting), stats.Number(s.drained.processes*microsecondsPerJob), store)
	}
	return table
}

// scaleChart shows what a delivery costs beside more and more waiting jobs.
func scaleChart(r *runner, of []*scaled) chart {
	const title = "CPU time of a delivery, node and store, beside waiting jobs"
	curves := report.Curves{Title: title, Unit: "µs per job"}
	for _, n := range r.Size.Waiting {
		curves.Sizes = append(curves.Sizes, stats.Count(n))
	}
	for _, name := range r.among(contender.Duehook, contender.Embedded, contender.OnSQL) {
		curve := report.Curve{Label: contender.Title(name)}
		for _, n := range r.Size.Waiting {
			value := math.NaN()
			for _, s := range of {
				if s.name == name && s.waiting == n {
					value = (s.drained.processes + s.drained.store) * microsecondsPerJob
				}
			}
			curve.Values = append(curve.Values, value)
		}
		curves.Lines = append(curves.Lines, curve)
	}
	return chart{name: "scale", title: title, svg: curves.SVG()}
}
