package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
	"github.com/duehook/duehook/internal/job"
)

// countRate is the counts per second towards one job.
const countRate = 5000

// counts compares how punctual jobs are without and beside counts towards one other job.
func counts(ctx context.Context, r *runner) (*result, error) {
	names := r.among(contender.Duehook, contender.Embedded)
	alone, beside := map[string]*punctuality{}, map[string]*punctuality{}
	reached := map[string]stats.Sample{}
	for _, name := range names {
		alone[name], beside[name] = &punctuality{}, &punctuality{}
	}
	rate := r.Size.Rates[0]
	err := r.rounds(names, func(name string) (err error) {
		c, err := r.contend(ctx, name, r.setup)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		if err := c.Start(ctx); err != nil {
			return err
		}
		if err := r.late(ctx, c, rate, alone[name]); err != nil {
			return err
		}
		api, ok := c.(contender.API)
		if !ok {
			return fmt.Errorf("%s has no API", name)
		}
		perSecond, err := r.counting(ctx, api.Base(), func() error { return r.late(ctx, c, rate, beside[name]) })
		reached[name] = append(reached[name], perSecond)
		return err
	})
	if err != nil {
		return nil, err
	}
	table := report.Table{Header: []string{"received − due, ms", "counts/s", "p50", "p99", "max", "earliest"}}
	for _, name := range names {
		table.Add(append([]string{contender.Title(name), "0"}, alone[name].cells()...)...)
		table.Add(append([]string{contender.Title(name), reached[name].String()}, beside[name].cells()...)...)
	}
	return &result{tables: []report.Table{table}}, nil
}

// counting counts towards one job at countRate while do runs, and returns the counts per
// second that were answered.
func (r *runner) counting(ctx context.Context, base string, do func() error) (perSecond float64, err error) {
	client := &fasthttp.Client{MaxConnsPerHost: manyClients}
	defer client.CloseIdleConnections()
	body := fmt.Sprintf(`{"topic":"counted","id":"one","url":"%s/hook","count":{"target":1000000000}}`, r.receiver.Base)
	if err := post(client, base+"/v1/jobs", body, http.StatusCreated); err != nil {
		return 0, err
	}
	var answered atomic.Int64
	began := r.clock.Now()
	over, stop := context.WithCancel(ctx)
	clients, counting := errgroup.WithContext(over)
	for first := range manyClients {
		clients.Go(func() error {
			until := func(n int) time.Duration {
				return began.Add(time.Duration(n) * time.Second / countRate).Sub(r.clock.Now())
			}
			for n := first; job.Sleep(counting, r.clock, until(n)) == nil; n += manyClients {
				if err := post(client, base+"/v1/jobs/counted/one/count", `{"add":1}`, http.StatusOK); err != nil {
					return err
				}
				answered.Add(1)
			}
			return nil
		})
	}
	err = do()
	took := r.clock.Now().Sub(began)
	stop()
	return float64(answered.Load()) / took.Seconds(), errors.Join(err, clients.Wait())
}

func post(client *fasthttp.Client, url, body string, want int) error {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(url)
	req.Header.SetMethod(http.MethodPost)
	req.Header.SetContentType("application/json")
	req.SetBodyString(body)
	if err := client.Do(req, resp); err != nil {
		return err
	}
	if resp.StatusCode() != want {
		return fmt.Errorf("%s is answered %d %s", url, resp.StatusCode(), resp.Body())
	}
	return nil
}
