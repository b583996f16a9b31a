package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/receiver"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// arrivalLimit is how long the last job is waited for.
const arrivalLimit = 10 * time.Minute

const topic = "bench"

func oneTopic(int) string { return topic }

// backlog is jobs that are all due already.
func (r *runner) backlog(jobs int) *contender.Load {
	due := r.clock.Now().Add(-time.Second)
	return &contender.Load{
		Jobs: jobs, URL: r.receiver.Base + "/hook", Topic: oneTopic, Due: func(int) time.Time { return due },
	}
}

// waitingJobs are jobs that are due long after, and evenly so. Their numbers are
// none that the receiver expects.
func (r *runner) waitingJobs(jobs int) *contender.Load {
	first := r.clock.Now().Add(24 * time.Hour)
	return &contender.Load{
		First: 1_000_000_000, Jobs: jobs, URL: r.receiver.Base + "/hook",
		Topic: func(int) string { return "waiting" },
		Due:   func(n int) time.Time { return first.Add(time.Duration(n%86_400) * time.Second) },
	}
}

// drained is what draining a backlog took.
type drained struct {
	perSecond float64
	// Processor time per 10,000 jobs, in seconds.
	processes, store, receiver float64
}

// drain measures from the first request to the arrival of the last job. The
// jobs are there before anybody delivers.
func (r *runner) drain(ctx context.Context, name string, s contender.Setup, l *contender.Load, failFirst bool) (d drained, err error) {
	c, err := r.contend(ctx, name, s)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Load(ctx, l); err != nil {
		return d, err
	}
	requests := l.Jobs
	if l.Callback != nil {
		requests *= 2
	}
	return r.drainLoaded(ctx, c, requests, failFirst, fromStart)
}

// costs says from when on the cost of a drain counts.
type costs int

const (
	fromStart costs = iota
	// fromReady leaves out what an embedded node takes to put back its waiting jobs,
	// and the few that are delivered until it is seen to be ready.
	fromReady
)

// drainLoaded starts a contender that has been loaded.
func (r *runner) drainLoaded(ctx context.Context, c contender.Contender, jobs int, failFirst bool, from costs) (d drained, err error) {
	if err := r.receiver.Expect(ctx, jobs, failFirst); err != nil {
		return d, err
	}
	if from == fromReady {
		if err := c.Start(ctx); err != nil {
			return d, err
		}
	}
	before, err := c.Cost()
	if err != nil {
		return d, err
	}
	receiverBefore, err := testenv.CPUTime(r.process.PID())
	if err != nil {
		return d, err
	}
	if from == fromStart {
		if err := c.Start(ctx); err != nil {
			return d, err
		}
	}
	got, err := r.receiver.Report(ctx, arrivalLimit)
	if err != nil {
		return d, err
	}
	if got.Accepted != jobs || got.Strange > 0 {
		return d, fmt.Errorf("of %d jobs %d arrived, and %d strange ones", jobs, got.Accepted, got.Strange)
	}
	after, err := c.Cost()
	if err != nil {
		return d, err
	}
	receiverAfter, err := testenv.CPUTime(r.process.PID())
	if err != nil {
		return d, err
	}
	cost, per := after.Sub(before), 10_000/float64(jobs)
	return drained{
		perSecond: float64(jobs) / got.Last.Sub(got.First).Seconds(),
		processes: cost.Processes.Seconds() * per, store: cost.Store.Seconds() * per,
		receiver: (receiverAfter - receiverBefore).Seconds() * per,
	}, nil
}

// drainTable compares contenders by their rates.
type drainTable struct {
	rates                      map[string]stats.Sample
	processes, store, receiver map[string]stats.Sample
}

func newDrainTable() *drainTable {
	return &drainTable{
		rates: map[string]stats.Sample{}, processes: map[string]stats.Sample{},
		store: map[string]stats.Sample{}, receiver: map[string]stats.Sample{},
	}
}

func (t *drainTable) add(key string, d drained) {
	t.rates[key] = append(t.rates[key], d.perSecond)
	t.processes[key] = append(t.processes[key], d.processes)
	t.store[key] = append(t.store[key], d.store)
	t.receiver[key] = append(t.receiver[key], d.receiver)
}

// table has a column for the ratio of each own contender to the others.
func (t *drainTable) table(names []string) report.Table {
	table := report.Table{Header: []string{"", "jobs/s"}}
	var own []string
	for _, n := range names {
		if contender.Own(n) {
			own = append(own, n)
			table.Header = append(table.Header, contender.Title(n)+" ÷ it")
		}
	}
	table.Header = append(table.Header, "CPU s per 10,000: its processes", "its store", "the receiver", "all")
	for _, n := range names {
		row := []string{contender.Title(n), t.rates[n].String()}
		for _, o := range own {
			ratio := "1"
			if o != n {
				ratio = t.rates[o].Over(t.rates[n]).String()
			}
			row = append(row, ratio)
		}
		table.Add(append(row, t.cpu(n)...)...)
	}
	return table
}

// cpu is the columns of processor time.
func (t *drainTable) cpu(key string) []string {
	store := "–"
	if t.store[key].Median() > 0 {
		store = stats.Number(t.store[key].Median())
	}
	processes, receiver := t.processes[key].Median(), t.receiver[key].Median()
	sum := processes + t.store[key].Median() + receiver
	return []string{stats.Number(processes), store, stats.Number(receiver), stats.Number(sum)}
}

func (t *drainTable) chart(name, title string, names []string) chart {
	bars := report.Bars{Title: title, Unit: "jobs/s; the line is the range"}
	for _, n := range names {
		low, high := t.rates[n].Range()
		bars.Bars = append(bars.Bars, report.Bar{
			Label: contender.Title(n), Value: t.rates[n].Median(), Low: low, High: high,
			Text: stats.Number(t.rates[n].Median()), Own: contender.Own(n),
		})
	}
	return chart{name: name, title: title, svg: bars.SVG()}
}

// drains compares all contenders.
func drains(ctx context.Context, r *runner) (*result, error) {
	names := r.among(contender.Limit, contender.Duehook, contender.Embedded, contender.OnSQL, contender.River, contender.Asynq)
	t, err := r.compareDrains(ctx, names, r.setup, r.receiver.Base, false)
	if err != nil {
		return nil, err
	}
	title := fmt.Sprintf("Draining a backlog of %s jobs", stats.Count(r.Size.Backlog))
	return &result{tables: []report.Table{t.table(names)}, charts: []chart{t.chart("drain", title, names)}, sizing: t.sizing()}, nil
}

// sizing is what a processor carries, if it does nothing else.
func (t *drainTable) sizing() *report.Table {
	table := &report.Table{Header: []string{"", "deliveries/s for each processor of the node", "for the one processor of Redis"}}
	for _, n := range []string{contender.Duehook, contender.Embedded} {
		table.Add(contender.Title(n), perProcessor(t.processes[n]), perProcessor(t.store[n]))
	}
	return table
}

// perProcessor is how many jobs a processor does in a second that takes so many
// seconds for 10,000.
func perProcessor(seconds stats.Sample) string {
	if seconds.Median() <= 0 {
		return "–"
	}
	return stats.Number(10_000 / seconds.Median())
}

func (r *runner) compareDrains(ctx context.Context, names []string, s contender.Setup, base string, failFirst bool) (*drainTable, error) {
	t := newDrainTable()
	return t, r.rounds(names, func(name string) error {
		load := r.backlog(r.Size.Backlog)
		load.URL = base + "/hook"
		d, err := r.drain(ctx, name, s, load, failFirst)
		if err == nil {
			t.add(name, d)
			r.printf("  %s: %s jobs/s\n", contender.Title(name), stats.Number(d.perSecond))
		}
		return err
	})
}

// secure drains to a receiver that speaks TLS.
func secure(ctx context.Context, r *runner) (*result, error) {
	names := r.among(contender.Limit, contender.Duehook, contender.Embedded, contender.Asynq)
	t, err := r.compareDrains(ctx, names, r.setup, r.receiver.SecureBase, false)
	if err != nil {
		return nil, err
	}
	return &result{tables: []report.Table{t.table(names)}}, nil
}

// failing drains to a receiver that fails each job once.
func failing(ctx context.Context, r *runner) (*result, error) {
	names := r.among(contender.Limit, contender.Duehook, contender.Embedded, contender.OnSQL, contender.River, contender.Asynq)
	s := r.setup
	s.Again = time.Second
	t, err := r.compareDrains(ctx, names, s, r.receiver.Base, true)
	if err != nil {
		return nil, err
	}
	return &result{tables: []report.Table{t.table(names)}}, nil
}

// lanes drains one lane, and as many jobs in a lane each.
func lanes(ctx context.Context, r *runner) (*result, error) {
	each := func(n int) string { return fmt.Sprintf("lane-%d", n) }
	table := report.Table{Header: []string{"", "one lane, jobs/s", stats.Count(r.Size.Lanes) + " lanes, jobs/s", "ratio"}}
	names := r.among(contender.Duehook, contender.Embedded)
	one, many := map[string]stats.Sample{}, map[string]stats.Sample{}
	err := r.rounds(names, func(name string) error {
		for _, kind := range []struct {
			topic func(int) string
			into  map[string]stats.Sample
		}{{oneTopic, one}, {each, many}} {
			load := r.backlog(r.Size.Lanes)
			load.Topic = kind.topic
			d, err := r.drain(ctx, name, r.setup, load, false)
			if err != nil {
				return err
			}
			kind.into[name] = append(kind.into[name], d.perSecond)
		}
		return nil
	})
	for _, n := range names {
		table.Add(contender.Title(n), one[n].String(), many[n].String(), many[n].Over(one[n]).String())
	}
	return &result{tables: []report.Table{table}}, err
}

// nodes drains with one node and with four on one Redis.
func nodes(ctx context.Context, r *runner) (*result, error) {
	const several = 4
	counts := map[string]int{"1 node": 1, "4 nodes": several}
	names := []string{"1 node", "4 nodes"}
	t := newDrainTable()
	err := r.rounds(names, func(name string) error {
		s := r.setup
		s.Nodes = counts[name]
		d, err := r.drain(ctx, contender.Duehook, s, r.backlog(r.Size.Backlog), false)
		if err == nil {
			t.add(name, d)
		}
		return err
	})
	table := report.Table{Header: []string{"", "jobs/s", "÷ 1 node", "CPU s per 10,000: nodes", "Redis", "the receiver", "all"}}
	for _, n := range names {
		table.Add(append([]string{n, t.rates[n].String(), t.rates[n].Over(t.rates[names[0]]).String()}, t.cpu(n)...)...)
	}
	return &result{tables: []report.Table{table}}, err
}

// callbacks drains plain jobs, and as many with a callback each.
func callbacks(ctx context.Context, r *runner) (*result, error) {
	return r.besidePlain(ctx, 2, func(l *contender.Load) {
		l.Callback = func(n int) string {
			return r.receiver.Base + receiver.CallbackPath + strconv.Itoa(r.Size.Backlog+n)
		}
	}, "with a callback each, jobs/s", "plain ÷ with callbacks", "with callbacks", func(plain, other stats.Sample) stats.Sample {
		return plain.Over(other)
	})
}

// ordered drains plain jobs, and as many of many order keys.
func ordered(ctx context.Context, r *runner) (*result, error) {
	return r.besidePlain(ctx, 1, func(l *contender.Load) {
		l.OrderKey = func(n int) string { return strconv.Itoa(n % r.Size.Lanes) }
	}, stats.Count(r.Size.Lanes)+" order keys, jobs/s", "ratio", "with order keys", func(plain, other stats.Sample) stats.Sample {
		return other.Over(plain)
	})
}

// besidePlain drains plain jobs, and as many of another kind with so many requests each. The
// table names the rate, the ratio and the cost of the other jobs.
func (r *runner) besidePlain(
	ctx context.Context, requests float64, alter func(*contender.Load), rate, ratio, cost string, over func(plain, other stats.Sample) stats.Sample,
) (*result, error) {
	names := r.among(contender.Duehook, contender.Embedded)
	plain, other := newDrainTable(), newDrainTable()
	err := r.rounds(names, func(name string) error {
		d, err := r.drain(ctx, name, r.setup, r.backlog(r.Size.Backlog), false)
		if err != nil {
			return err
		}
		plain.add(name, d)
		load := r.backlog(r.Size.Backlog)
		alter(load)
		if d, err = r.drain(ctx, name, r.setup, load, false); err != nil {
			return err
		}
		other.add(name, d.perJob(requests))
		return nil
	})
	table := report.Table{Header: []string{"", "plain, jobs/s", rate, ratio, "CPU s per 10,000 jobs: plain", cost}}
	for _, n := range names {
		table.Add(contender.Title(n), plain.rates[n].String(), other.rates[n].String(), over(plain.rates[n], other.rates[n]).String(),
			plain.own(n), other.own(n))
	}
	return &result{tables: []report.Table{table}}, err
}

// perJob are the figures of jobs that are delivered with so many requests each.
func (d drained) perJob(requests float64) drained {
	return drained{d.perSecond / requests, d.processes * requests, d.store * requests, d.receiver * requests}
}

// own is the processor time of a contender and its store.
func (t *drainTable) own(key string) string {
	return stats.Number(t.processes[key].Median() + t.store[key].Median())
}
