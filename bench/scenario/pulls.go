package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
	"github.com/duehook/duehook/internal/job"
)

const (
	pullers   = 64 // consumers that drain a backlog: with 16, node and Redis wait for them more
	pullBatch = 32
	// waitingConsumers wait at pullNodes for jobs that become due one after the other.
	waitingConsumers = 1000
	pullNodes        = 2
	pulledJobs       = 500 // at most
)

// puller calls nodes as a consumer.
type puller struct{ client fasthttp.Client }

func newPuller() *puller {
	return &puller{fasthttp.Client{MaxConnsPerHost: waitingConsumers, ReadBufferSize: 16 << 10}}
}

// call returns the values at a path of the answer. Like the receiver of deliveries, it reads no more than
// that: the consumers share the machine with what is measured.
func (p *puller) call(url, body, path string) ([]gjson.Result, error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(url)
	req.Header.SetMethod(http.MethodPost)
	req.Header.SetContentType("application/json")
	req.SetBodyString(body)
	if err := p.client.Do(req, resp); err != nil {
		return nil, err
	}
	if resp.StatusCode() != http.StatusOK {
		return nil, fmt.Errorf("%s is answered %d %s", url, resp.StatusCode(), resp.Body())
	}
	return gjson.Get(string(resp.Body()), path).Array(), nil
}

// consume pulls up to most jobs, and acknowledges them.
func (p *puller) consume(base string, most int, wait string, got func(jobs []gjson.Result)) (jobs int, err error) {
	pulled, err := p.call(base+"/v1/topics/"+topic+"/pull", fmt.Sprintf(`{"max":%d,"wait":%q}`, most, wait), "jobs")
	if err != nil || len(pulled) == 0 {
		return 0, err
	}
	got(pulled)
	receipts := make([]string, len(pulled))
	for i := range pulled {
		receipts[i] = pulled[i].Get("receipt").Raw
	}
	results, err := p.call(base+"/v1/pull/ack", `{"receipts":[`+strings.Join(receipts, ",")+`]}`, "results.#.result")
	if err != nil {
		return 0, err
	}
	for _, r := range results {
		if r.String() != "ok" {
			return 0, fmt.Errorf("a receipt is %s", r)
		}
	}
	if len(results) != len(pulled) {
		return 0, fmt.Errorf("of %d receipts %d are answered", len(pulled), len(results))
	}
	return len(pulled), nil
}

// pulls compares draining a backlog by consumers with deliveries.
func pulls(ctx context.Context, r *runner) (*result, error) {
	names := r.among(contender.Duehook, contender.Embedded)
	pushed, fetched := map[string]stats.Sample{}, map[string]stats.Sample{}
	err := r.rounds(names, func(name string) error {
		d, err := r.drain(ctx, name, r.setup, r.backlog(r.Size.Backlog), false)
		if err != nil {
			return err
		}
		perSecond, err := r.drainByPull(ctx, name)
		if err != nil {
			return err
		}
		pushed[name], fetched[name] = append(pushed[name], d.perSecond), append(fetched[name], perSecond)
		r.printf("  %s: delivered %s jobs/s, fetched %s jobs/s\n", contender.Title(name), stats.Number(d.perSecond), stats.Number(perSecond))
		return nil
	})
	if err != nil {
		return nil, err
	}
	table := report.Table{Header: []string{fmt.Sprintf("%s jobs, jobs/s", stats.Count(r.Size.Backlog)), "delivered", "fetched and acknowledged", "ratio"}}
	for _, name := range names {
		table.Add(contender.Title(name), pushed[name].String(), fetched[name].String(), fetched[name].Over(pushed[name]).String())
	}
	return &result{tables: []report.Table{table}}, nil
}

// drainByPull measures from the first call to the last acknowledgement.
func (r *runner) drainByPull(ctx context.Context, name string) (perSecond float64, err error) {
	c, err := r.contend(ctx, name, r.setup)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	load := r.backlog(r.Size.Backlog)
	load.URL = string(job.PullQueue)
	if err := c.Load(ctx, load); err != nil {
		return 0, err
	}
	if err := c.Start(ctx); err != nil {
		return 0, err
	}
	api, ok := c.(contender.API)
	if !ok {
		return 0, fmt.Errorf("%s has no API", name)
	}
	p := newPuller()
	defer p.client.CloseIdleConnections()
	var done atomic.Int64
	began := r.clock.Now()
	consumers, ctx := errgroup.WithContext(ctx)
	for range pullers {
		consumers.Go(func() error {
			for done.Load() < int64(load.Jobs) && ctx.Err() == nil {
				n, err := p.consume(api.Base(), pullBatch, "0s", func([]gjson.Result) {})
				if err != nil {
					return err
				}
				done.Add(int64(n))
			}
			return ctx.Err()
		})
	}
	if err := consumers.Wait(); err != nil {
		return 0, err
	}
	return float64(load.Jobs) / r.clock.Now().Sub(began).Seconds(), nil
}

// consumers measures how soon one of many waiting consumers has a job, and what they cost while there is none.
func consumers(ctx context.Context, r *runner) (*result, error) {
	found, commands := &punctuality{}, stats.Sample{}
	names := r.among(contender.Duehook)
	err := r.rounds(names, func(string) error { return r.waitForJobs(ctx, found, &commands) })
	if err != nil {
		return nil, err
	}
	table := report.Table{Header: []string{"fetched − due, ms", "p50", "p99", "max", "earliest", "idle Redis commands/s"}}
	if len(names) > 0 {
		table.Add(append(append([]string{fmt.Sprintf("%s consumers at %d nodes", stats.Count(waitingConsumers), pullNodes)}, found.cells()...), commands.String())...)
	}
	return &result{tables: []report.Table{table}}, nil
}

func (r *runner) waitForJobs(ctx context.Context, found *punctuality, commands *stats.Sample) (err error) {
	s := r.setup
	s.Nodes = pullNodes
	c, err := r.contend(ctx, contender.Duehook, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Start(ctx); err != nil {
		return err
	}
	nodes, ok := c.(interface {
		contender.Node
		Bases() []string
	})
	if !ok {
		return errors.New("its nodes are unknown")
	}
	p := newPuller()
	var mu sync.Mutex
	var late []float64 // ms
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	for i := range waitingConsumers {
		base := nodes.Bases()[i%pullNodes]
		wait := fmt.Sprint(30+i%30, "s") // not all of them at the same time
		group.Go(func() error {
			for waiting.Err() == nil {
				_, err := p.consume(base, 1, wait, func(got []gjson.Result) {
					now := r.clock.Now()
					mu.Lock()
					defer mu.Unlock()
					for i := range got {
						late = append(late, float64(now.Sub(got[i].Get("job.due_at").Time()).Microseconds())/1000)
					}
				})
				if err != nil && waiting.Err() == nil {
					return err
				}
			}
			return nil
		})
	}
	q, err := r.quiet(ctx, c)
	if err == nil {
		*commands = append(*commands, q.commands)
		err = r.fetchAll(ctx, nodes.Base(), func() int { mu.Lock(); defer mu.Unlock(); return len(late) })
	}
	stop()
	if err := errors.Join(err, nodes.Stop(), group.Wait()); err != nil { // calls that wait end with the nodes
		return err
	}
	p.client.CloseIdleConnections()
	slices.Sort(late)
	found.p50, found.p99 = append(found.p50, stats.Quantile(late, 0.5)), append(found.p99, stats.Quantile(late, 0.99))
	found.most, found.earliest = append(found.most, late[len(late)-1]), append(found.earliest, late[0])
	return nil
}

// fetchAll registers jobs that become due one after the other, and waits until consumers have had them.
func (r *runner) fetchAll(ctx context.Context, base string, fetched func() int) error {
	client := &fasthttp.Client{}
	defer client.CloseIdleConnections()
	jobs := min(pulledJobs, r.Size.Backlog)
	first := r.clock.Now().Add(3 * time.Second)
	for n := range jobs {
		at := first.Add(time.Duration(n) * 20 * time.Millisecond).UTC().Format(job.TimeFormat)
		if err := post(client, base+"/v1/jobs", fmt.Sprintf(`{"topic":%q,"id":"%d","pull":true,"at":%q}`, topic, n, at), http.StatusCreated); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for fetched() < jobs {
		if err := job.Sleep(limited, r.clock, 100*time.Millisecond); err != nil {
			return fmt.Errorf("of %d jobs %d were fetched: %w", jobs, fetched(), err)
		}
	}
	return nil
}
