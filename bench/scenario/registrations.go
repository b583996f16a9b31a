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

// register counts registrations: jobs per second, by so many clients at a time.
func (r *runner) register(ctx context.Context, base string, m manner, first int) (perSecond float64, err error) {
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
		return 0, err
	}
	return float64(int(last.Load())-first) / r.clock.Now().Sub(began).Seconds(), nil
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
	var b bytes.Buffer
	b.WriteString(`{"jobs":[`)
	for i := range m.batch {
		if i > 0 {
			b.WriteByte(',')
		}
		j := l.Job(from + i)
		b.Write(j.JSON())
	}
	b.WriteString("]}")
	return b.Bytes()
}

// registrations compares duehook with an echo handler that does one EVALSHA.
func registrations(ctx context.Context, r *runner) (*result, error) {
	names := r.among(contender.Echo, contender.Duehook, contender.Embedded)
	rates := map[string]stats.Sample{} // by contender and manner
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
			rate, err := r.register(ctx, api.Base(), m, i*apart)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", name, m.title, err)
			}
			rates[name+m.title] = append(rates[name+m.title], rate)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &result{
		tables: []report.Table{registrationTable(names, rates)},
		charts: []chart{registrationChart(names, rates)},
	}, nil
}

// titleOf is what the document calls it.
func titleOf(name string) string {
	if name == contender.Echo {
		return "echo + one EVALSHA"
	}
	return contender.Title(name)
}

func registrationTable(names []string, rates map[string]stats.Sample) report.Table {
	table := report.Table{Header: []string{"", "", "jobs/s", "÷ echo, single", "÷ single"}}
	for _, m := range manners {
		for _, n := range names {
			rate := rates[n+m.title]
			if len(rate) == 0 {
				continue
			}
			single := manner{clients: m.clients, batch: 1, title: fmt.Sprintf("%d clients, single", m.clients)}
			if m.clients == 1 {
				single.title = "1 client, single"
			}
			toEcho, toSingle := "–", "–"
			if n != contender.Echo && m.batch == 1 {
				toEcho = rate.Over(rates[contender.Echo+m.title]).String()
			}
			if m.batch > 1 {
				toSingle = rate.Over(rates[n+single.title]).String()
			}
			table.Add(m.title, titleOf(n), rate.String(), toEcho, toSingle)
		}
	}
	return table
}

func registrationChart(names []string, rates map[string]stats.Sample) chart {
	const title = "Registrations over HTTP, 32 clients, one job a request"
	bars := report.Bars{Title: title, Unit: "jobs/s; the line is the range"}
	for _, n := range names {
		rate := rates[n+manners[1].title]
		low, high := rate.Range()
		bars.Bars = append(bars.Bars, report.Bar{
			Label: titleOf(n), Value: rate.Median(), Low: low, High: high,
			Text: stats.Number(rate.Median()), Own: contender.Own(n),
		})
	}
	return chart{name: "registrations", title: title, svg: bars.SVG()}
}
