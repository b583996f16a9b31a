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
	// inboxPace is the mean time between transactions of one row each, whose way to the receiver is measured.
	inboxPace = 50 * time.Millisecond
	// inboxInsert is how many rows of the backlog a transaction has.
	inboxInsert = 500
)

// inboxes measures how fast a backlog of rows becomes jobs, and how long a row of an idle inbox takes from before its commit to
// the receiver.
func inboxes(ctx context.Context, r *runner) (*result, error) {
	in := map[string]stats.Sample{}
	arrived := map[string]*punctuality{}
	for _, way := range inboxWays {
		arrived[way.title] = &punctuality{}
	}
	names := []string{contender.InboxPostgres, contender.InboxMariaDB}
	err := r.rounds(names, func(name string) (err error) {
		box, err := contender.NewInbox(ctx, name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, box.Close()) }()
		setup := r.setup
		setup.Flags = []string{"--inbox-url", "shop=" + box.URL}
		c, err := r.contend(ctx, contender.Embedded, setup)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		perSecond, err := r.readBacklog(ctx, c, box)
		if err != nil {
			return err
		}
		in[name] = append(in[name], perSecond)
		for _, way := range inboxWays {
			if way.name == name && err == nil {
				err = r.passInbox(ctx, box, way.notify, arrived[way.title])
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	rates := report.Table{Header: []string{"inbox in", "rows/s"}}
	for _, name := range names {
		rates.Add(name, in[name].String())
	}
	delays := report.Table{Header: []string{"received − before the commit, ms", "p50", "p99", "max"}}
	for _, way := range inboxWays {
		delays.Add(append([]string{way.title}, arrived[way.title].cells()[:3]...)...)
	}
	return &result{tables: []report.Table{rates, delays}}, nil
}

// inboxWays are those in which duehook learns of rows.
var inboxWays = []struct {
	name, title string
	notify      bool
}{
	{contender.InboxPostgres, "PostgreSQL, NOTIFY", true},
	{contender.InboxPostgres, "PostgreSQL, polled", false},
	{contender.InboxMariaDB, "MariaDB, polled", false},
}

// readBacklog writes rows while no node runs, starts one, and returns the rows per second that become jobs.
func (r *runner) readBacklog(ctx context.Context, c contender.Contender, box *contender.Inbox) (perSecond float64, err error) {
	later := r.clock.Now().Add(24 * time.Hour)
	load := &contender.Load{Jobs: r.Size.Backlog, URL: r.receiver.Base + "/hook", Topic: oneTopic, Due: func(int) time.Time { return later }}
	if err := load.Batches(inboxInsert, func(jobs []contender.Job) error { return box.Insert(ctx, false, jobs...) }); err != nil {
		return 0, err
	}
	if err := c.Start(ctx); err != nil {
		return 0, err
	}
	began := r.clock.Now()
	for {
		n, err := box.Rows(ctx)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return float64(load.Jobs) / r.clock.Now().Sub(began).Seconds(), nil
		}
		if err := job.Sleep(ctx, r.clock, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// passInbox writes rows whose jobs are due at once, one after the other, and measures how long each takes to the receiver.
func (r *runner) passInbox(ctx context.Context, box *contender.Inbox, notify bool, into *punctuality) error {
	jobs := max(2, int(r.Size.Span/inboxPace))
	if err := r.receiver.Expect(ctx, jobs, false); err != nil {
		return err
	}
	round := fmt.Sprint(r.clock.Now().UnixNano(), "-")
	load := &contender.Load{URL: r.receiver.Base + "/hook", Topic: oneTopic, Due: func(int) time.Time { return r.clock.Now().Truncate(time.Millisecond) }}
	for n := range jobs {
		if err := job.Sleep(ctx, r.clock, inboxPace); err != nil {
			return err
		}
		j := load.Job(n)
		j.ID = round + j.ID
		if err := box.Insert(ctx, notify, j); err != nil {
			return err
		}
	}
	return r.arrived(ctx, jobs, into)
}
