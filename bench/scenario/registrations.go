package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
)

// manyClients is how many clients register at a time where there are many.
const manyClients = 32

// manner is a way of registering.
type manner struct {
	clients, batch int
	title          string
}

var manners = []manner{
	{clients: 1, batch: 1, title: "1 client, single"},
	{clients: manyClients, batch: 1, title: "32 clients, single"},
	{clients: 1, batch: 100, title: "1 client, batches of 100"},
	{clients: manyClients, batch: 100, title: "32 clients, batches of 100"},
}

// api starts what takes registrations under that name.
func (r *runner) api(ctx context.Context, name string) (contender.API, error) {
	if name == contender.Echo {
		return contender.NewEcho(ctx, &r.setup)
	}
	c, err := r.contend(ctx, name, r.setup)
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	api, ok := c.(contender.API)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s has no API", name), c.Close())
	}
	return api, nil
}

// register counts registrations, in all and per second, by so many clients at a
// time.
func (r *runner) register(ctx context.Context, base string, m manner, first int) (n int, perSecond float64, err error) {
	var last atomic.Int64
	last.Store(int64(first))
	load := r.waitingJobs(0)
	client := &fasthttp.Client{MaxConnsPerHost: manyClients}
	defer client.CloseIdleConnections()
	began := r.clock.Now()
	end := began.Add(r.Size.Registering)
	clients, ctx := errgroup.WithContext(ctx)
	for range m.clients {
		clients.Go(func() error {
			for ctx.Err() == nil && r.clock.Now().Before(end) {
				from := int(last.Add(int64(m.batch))) - m.batch
				if err := m.send(client, base, load, from); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	if err := clients.Wait(); err != nil {
		return 0, 0, err
	}
	n = int(last.Load()) - first
	return n, float64(n) / r.clock.Now().Sub(began).Seconds(), nil
}

// send registers a batch.
func (m *manner) send(client *fasthttp.Client, base string, l *contender.Load, from int) error {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod(http.MethodPost)
	req.Header.SetContentType("application/json")
	if m.batch == 1 {
		j := l.Job(from)
		req.SetRequestURI(base + "/v1/jobs")
		req.SetBody(j.JSON())
	} else {
		req.SetRequestURI(base + "/v1/jobs/batch")
		req.SetBody(m.body(l, from))
	}
	if err := client.Do(req, resp); err != nil {
		return err
	}
	// A batch is answered as one, so each of its jobs is to be looked at.
	created := resp.StatusCode() == http.StatusCreated
	if m.batch > 1 {
		created = resp.StatusCode() == http.StatusOK && bytes.Count(resp.Body(), []byte(`"status":201`)) == m.batch
	}
	if !created {
		return fmt.Errorf("registering is answered %d %.500s", resp.StatusCode(), resp.Body())
	}
	return nil
}

func (m *manner) body(l *contender.Load, from int) []byte {
	b := []byte(`{"jobs":[`)
	for i := range m.batch {
		if i > 0 {
			b = append(b, ',')
		}
		j := l.Job(from + i)
		b = j.AppendJSON(b)
	}
	return append(b, "]}"...)
}

// registrations compares duehook with an echo handler that does one EVALSHA.
func registrations(ctx context.Context, r *runner) (*result, error) {
	names := r.among(contender.Echo, contender.Duehook, contender.Embedded, contender.OnSQL)
	t := newRegistrationTable()
	err := r.rounds(names, func(name string) (err error) {
		api, err := r.api(ctx, name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, api.Close()) }()
		for i, m := range manners {
			if name == contender.Echo && m.batch > 1 {
				continue
			}
			const apart = 100_000_000 // no id is to come twice
			before, err := api.Cost()
			if err != nil {
				return err
			}
			n, rate, err := r.register(ctx, api.Base(), m, i*apart)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", name, m.title, err)
			}
			after, err := api.Cost()
			if err != nil {
				return err
			}
			t.add(name+m.title, n, rate, after.Sub(before))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &result{
		tables: []report.Table{t.table(names)},
		charts: []chart{t.chart(names)},
		sizing: t.sizing(),
	}, nil
}

// copies is the fast way of River in inserts.
const copies = "copies"

// inserts compares loads in batches through the Go packages of those on PostgreSQL.
func inserts(ctx context.Context, r *runner) (*result, error) {
	names := r.among(contender.OnSQL, contender.River)
	titles := map[string]string{copies: "River, InsertManyFast"}
	for _, n := range names {
		if titles[n] = contender.Title(n); n == contender.River {
			titles[n] += ", InsertMany"
			names = append(names, copies)
		}
	}
	rates, store := map[string]stats.Sample{}, map[string]stats.Sample{}
	err := r.rounds(names, func(name string) error {
		rate, cost, err := r.insert(ctx, name)
		rates[name], store[name] = append(rates[name], rate), append(store[name], cost)
		return err
	})
	if err != nil {
		return nil, err
	}
	table := report.Table{Header: []string{"batches of 500 by one client", "jobs/s", "duehook ÷ it", "CPU s per 10,000: its store"}}
	for _, n := range names {
		table.Add(titles[n], rates[n].String(), rates[contender.OnSQL].Over(rates[n]).String(), stats.Number(store[n].Median()))
	}
	return &result{tables: []report.Table{table}}, nil
}

// insert loads a backlog. It returns the jobs per second, and the seconds of the store's processor time per 10,000 jobs.
func (r *runner) insert(ctx context.Context, name string) (rate, cost float64, err error) {
	load := r.waitingJobs(r.Size.Backlog)
	if name == copies {
		name, load.Fast = contender.River, true
	}
	c, err := r.contend(ctx, name, r.setup)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	before, err := c.Cost()
	if err != nil {
		return 0, 0, err
	}
	began := r.clock.Now()
	if err := c.Load(ctx, load); err != nil {
		return 0, 0, err
	}
	jobs, took := float64(r.Size.Backlog), r.clock.Now().Sub(began)
	after, err := c.Cost()
	return jobs / took.Seconds(), after.Sub(before).Store.Seconds() * 10_000 / jobs, err
}

// titleOf is what the document calls it.
func titleOf(name string) string {
	if name == contender.Echo {
		return "echo + one EVALSHA"
	}
	return contender.Title(name)
}

// registrationTable compares ways of registering, by contender and manner.
type registrationTable struct {
	rates            map[string]stats.Sample
	processes, store map[string]stats.Sample // processor time per 10,000 jobs, in seconds
}

func newRegistrationTable() *registrationTable {
	return &registrationTable{rates: map[string]stats.Sample{}, processes: map[string]stats.Sample{}, store: map[string]stats.Sample{}}
}

func (t *registrationTable) add(key string, jobs int, rate float64, c contender.Cost) {
	per := 10_000 / float64(jobs)
	t.rates[key] = append(t.rates[key], rate)
	t.processes[key] = append(t.processes[key], c.Processes.Seconds()*per)
	t.store[key] = append(t.store[key], c.Store.Seconds()*per)
}

func (t *registrationTable) table(names []string) report.Table {
	table := report.Table{Header: []string{"", "", "jobs/s", "÷ echo, single", "÷ single", "CPU s per 10,000: its processes", "its store"}}
	for _, m := range manners {
		for _, n := range names {
			rate := t.rates[n+m.title]
			if len(rate) == 0 {
				continue
			}
			single := manners[1]
			if m.clients == 1 {
				single = manners[0]
			}
			toEcho, toSingle, store := "–", "–", "–"
			if n != contender.Echo && m.batch == 1 {
				toEcho = rate.Over(t.rates[contender.Echo+m.title]).String()
			}
			if m.batch > 1 {
				toSingle = rate.Over(t.rates[n+single.title]).String()
			}
			if cost := t.store[n+m.title].Median(); cost > 0 {
				store = stats.Number(cost)
			}
			table.Add(m.title, titleOf(n), rate.String(), toEcho, toSingle, stats.Number(t.processes[n+m.title].Median()), store)
		}
	}
	return table
}

// sizing is what a processor carries, if it does nothing else.
func (t *registrationTable) sizing() *report.Table {
	table := &report.Table{Header: []string{"", "", "registrations/s for each processor of the node", "for the one processor of Redis"}}
	for _, m := range manners[1:] {
		for _, n := range []string{contender.Duehook, contender.Embedded} {
			table.Add(m.title, contender.Title(n), perProcessor(t.processes[n+m.title]), perProcessor(t.store[n+m.title]))
		}
	}
	return table
}

func (t *registrationTable) chart(names []string) chart {
	const title = "Registrations over HTTP, 32 clients, one job a request"
	bars := report.Bars{Title: title, Unit: "jobs/s; the line is the range"}
	for _, n := range names {
		rate := t.rates[n+manners[1].title]
		low, high := rate.Range()
		bars.Bars = append(bars.Bars, report.Bar{
			Label: titleOf(n), Value: rate.Median(), Low: low, High: high,
			Text: stats.Number(rate.Median()), Own: contender.Own(n),
		})
	}
	return chart{name: "registrations", title: title, svg: bars.SVG()}
}
