package scenario

import (
	"context"
	"errors"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
	"github.com/duehook/duehook/bench/system"
)

// restart measures how long an embedded node takes to restore waiting jobs.
func restart(ctx context.Context, r *runner) (res *result, err error) {
	c, err := r.contend(ctx, contender.Embedded, r.setup)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Load(ctx, r.waitingJobs(r.Size.Restart)); err != nil {
		return nil, err
	}
	node, ok := c.(contender.Node)
	if !ok {
		return nil, errors.New("the embedded duehook is no node")
	}
	var seconds, cpu, memory stats.Sample
	err = r.rounds([]string{contender.Embedded}, func(string) error {
		began := r.clock.Now()
		if err := node.Start(ctx); err != nil {
			return err
		}
		seconds = append(seconds, r.clock.Now().Sub(began).Seconds())
		cost, err := node.Cost()
		if err != nil {
			return err
		}
		cpu = append(cpu, cost.Processes.Seconds())
		resident, err := system.Resident(node.Processes()[0].PID())
		if err != nil {
			return err
		}
		memory = append(memory, float64(resident)/float64(r.Size.Restart))
		return node.Stop()
	})
	table := report.Table{Header: []string{"waiting jobs", "seconds until it serves", "CPU s until then", "bytes of RAM per job then"}}
	table.Add(stats.Count(r.Size.Restart), seconds.String(), cpu.String(), memory.String())
	sizing := &report.Table{Header: []string{"waiting jobs of that size", "memory of the node", "until it serves"}}
	sizing.Add(stats.Count(r.Size.Restart), stats.Number(memory.Median()*float64(r.Size.Restart)/megabyte)+" MB", stats.Number(seconds.Median())+" s")
	return &result{tables: []report.Table{table}, sizing: sizing}, err
}
