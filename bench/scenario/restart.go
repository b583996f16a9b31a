package scenario

import (
	"context"
	"errors"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
	"github.com/duehook/duehook/bench/system"
)

// restart measures how long an embedded node takes to serve beside waiting jobs,
// and the memory it has then.
func restart(ctx context.Context, r *runner) (*result, error) {
	table := report.Table{Header: []string{"waiting jobs", "seconds until it serves", "CPU s until then", "bytes of RAM per job then"}}
	sizing := &report.Table{Header: []string{"waiting jobs of that size", "memory of the node", "until it serves"}}
	for _, waiting := range r.Size.Restart {
		began, err := r.restartWith(ctx, waiting)
		if err != nil {
			return nil, err
		}
		table.Add(stats.Count(waiting), began.seconds.String(), began.cpu.String(), began.memory.String())
		sizing.Add(stats.Count(waiting), stats.Number(began.memory.Median()*float64(waiting)/megabyte)+" MB", stats.Number(began.seconds.Median())+" s")
	}
	return &result{tables: []report.Table{table}, sizing: sizing}, nil
}

// begun is what starting a node took; memory is per job.
type begun struct{ seconds, cpu, memory stats.Sample }

func (r *runner) restartWith(ctx context.Context, waiting int) (of begun, err error) {
	c, err := r.contend(ctx, contender.Embedded, r.setup)
	if err != nil {
		return of, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Load(ctx, r.waitingJobs(waiting)); err != nil {
		return of, err
	}
	node, ok := c.(contender.Node)
	if !ok {
		return of, errors.New("the embedded duehook is no node")
	}
	err = r.rounds([]string{contender.Embedded}, func(string) error {
		began := r.clock.Now()
		if err := node.Start(ctx); err != nil {
			return err
		}
		of.seconds = append(of.seconds, r.clock.Now().Sub(began).Seconds())
		cost, err := node.Cost()
		if err != nil {
			return err
		}
		of.cpu = append(of.cpu, cost.Processes.Seconds())
		resident, err := system.Resident(node.Processes()[0].PID())
		if err != nil {
			return err
		}
		of.memory = append(of.memory, float64(resident)/float64(waiting))
		return node.Stop()
	})
	return of, err
}
