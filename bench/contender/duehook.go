package contender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/valyala/fasthttp"

	"github.com/duehook/duehook/bench/system"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/redisstore"
	"github.com/duehook/duehook/store/sqlstore"
)

// Node is a Contender whose process may end and start again.
type Node interface {
	Contender
	API
	Processes() []*system.Process
	Stop() error
}

// duehookNodes are processes of `duehook serve`.
type duehookNodes struct {
	setup     *Setup
	storage   []string // the flags that say where jobs are kept
	processes []*system.Process
	bases     []string // of the APIs
	client    fasthttp.Client
}

// flags are those that differ from the defaults. As many requests may be under
// way as with the others, although all jobs go to one endpoint; and what of a
// batch waits for its turn must find room beside them.
func (d *duehookNodes) flags() []string {
	flags := []string{
		"serve", "--addr", "127.0.0.1:0", "--allow-cidrs", "127.0.0.0/8", "--log-format", "json",
		"--workers", strconv.Itoa(d.setup.Workers),
		"--endpoint-concurrency", strconv.Itoa(EndpointConcurrency),
	}
	if d.setup.Again > 0 {
		// A breaker would take a receiver that fails every job at first for dead.
		flags = append(flags, "--retry-steps", d.setup.Again.String(), "--retry-jitter", "0", "--breaker-failures", "0")
	}
	return append(append(flags, d.storage...), d.setup.Flags...)
}

// EndpointConcurrency is duehook's setting of that name.
const EndpointConcurrency = 2000

func (d *duehookNodes) Start(ctx context.Context) error {
	for range max(1, d.setup.Nodes) {
		cmd := exec.Command(d.setup.Binary, d.flags()...) //nolint:gosec,noctx // built by us; Stop ends it
		cmd.Env = d.setup.environ()
		p, err := system.Start(ctx, "duehook", cmd, func(line string) bool {
			var l struct{ API string }
			if json.Unmarshal([]byte(line), &l) != nil || l.API == "" {
				return false
			}
			d.bases = append(d.bases, l.API)
			return true
		})
		if err != nil {
			return err
		}
		d.processes = append(d.processes, p)
	}
	return nil
}

// Base is the URL of a node's API.
func (d *duehookNodes) Base() string { return d.bases[0] }

// Bases are the URLs of all nodes' APIs.
func (d *duehookNodes) Bases() []string { return d.bases }

// Processes are the running nodes.
func (d *duehookNodes) Processes() []*system.Process { return d.processes }

// Register registers over HTTP.
func (d *duehookNodes) Register(_ context.Context, j Job) error {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(d.Base() + "/v1/jobs")
	req.Header.SetMethod(http.MethodPost)
	req.Header.SetContentType("application/json")
	req.SetBody(j.JSON())
	if err := d.client.Do(req, resp); err != nil {
		return err
	}
	if resp.StatusCode() != http.StatusCreated {
		return fmt.Errorf("registering is answered %d %s", resp.StatusCode(), resp.Body())
	}
	return nil
}

// JSON is the job as duehook's API takes it. Nothing in it needs escapes.
func (j *Job) JSON() []byte { return j.AppendJSON(nil) }

// AppendJSON appends it to b. It is quick, for the generator of loads shares a
// machine with what is measured.
func (j *Job) AppendJSON(b []byte) []byte {
	b = append(append(b, `{"topic":"`...), j.Topic...)
	b = append(append(b, `","id":"`...), j.ID...)
	b = append(append(b, `","url":"`...), j.URL...)
	b = j.Due.UTC().AppendFormat(append(b, `","at":"`...), "2006-01-02T15:04:05.000Z")
	b = append(append(b, `","body":`...), j.Body...)
	if j.Callback != "" {
		b = append(append(b, `,"callbacks":{"delivered":{"url":"`...), j.Callback...)
		b = append(b, `"}}`...)
	}
	if j.OrderKey != "" {
		b = append(append(append(b, `,"order_key":"`...), j.OrderKey...), '"')
	}
	return append(b, '}')
}

// Stop ends the processes in good order; Start may follow.
func (d *duehookNodes) Stop() error {
	var errs []error
	for _, p := range d.processes {
		errs = append(errs, p.Stop())
	}
	d.processes, d.bases = nil, nil
	d.client.CloseIdleConnections()
	return errors.Join(errs...)
}

// registrations are jobs as stores take them.
func registrations(jobs []Job) []store.Registration {
	regs := make([]store.Registration, len(jobs))
	for i, j := range jobs {
		regs[i] = store.Registration{
			Key: job.Key{Topic: j.Topic, ID: j.ID}, UID: store.OrderUID(ulid.Make().String(), j.Topic, j.OrderKey),
			Spec: job.Spec{
				OrderKey:    j.OrderKey,
				Destination: job.Destination(j.URL), Body: j.Body, BodyForm: job.BodyJSON, ContentType: "application/json",
				When: job.When{At: job.InstantOf(j.Due)},
			},
		}
		if j.Callback != "" {
			regs[i].Spec.Callbacks = &job.Callbacks{By: map[job.CallbackEvent]*job.Callback{job.CallbackDelivered: {Destination: job.Destination(j.Callback)}}}
		}
	}
	return regs
}

func fill(ctx context.Context, s store.Registrar, l *Load) error {
	return l.Batches(batchSize, func(jobs []Job) error {
		_, err := s.Register(ctx, registrations(jobs))
		return err
	})
}

// onRedis is duehook with its jobs in Redis.
type onRedis struct {
	duehookNodes
	redis *system.Redis
	dir   string // of what the nodes share besides: the master key
}

func newOnRedis(ctx context.Context, s *Setup) (Contender, error) {
	r, err := system.StartRedis(ctx, s.Persistence)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.Dir, "data-")
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &onRedis{duehookNodes{setup: s, storage: []string{"--redis-url", r.URL(), "--data-dir", dir}}, r, dir}, nil
}

func (c *onRedis) Load(ctx context.Context, l *Load) error {
	s, err := redisstore.Open(ctx, redisstore.Options{URL: c.redis.URL()})
	if err != nil {
		return err
	}
	return errors.Join(fill(ctx, s, l), s.Close())
}

func (c *onRedis) Redis() *system.Redis { return c.redis }

func (c *onRedis) Cost() (Cost, error) { return redisCost(c.processes, c.redis) }

func (c *onRedis) Close() error { return errors.Join(c.Stop(), c.redis.Close(), os.RemoveAll(c.dir)) }

// onPostgres is duehook with its jobs in PostgreSQL.
type onPostgres struct {
	duehookNodes
	postgres *Postgres
	url, dir string
}

func newOnPostgres(ctx context.Context, s *Setup) (Contender, error) {
	url, err := s.Postgres.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.Dir, "data-")
	if err != nil {
		return nil, err
	}
	return &onPostgres{duehookNodes{setup: s, storage: []string{"--postgres-url", url, "--data-dir", dir}}, s.Postgres, url, dir}, nil
}

func (c *onPostgres) Load(ctx context.Context, l *Load) error {
	s, err := sqlstore.Open(ctx, sqlstore.Options{URL: c.url})
	if err != nil {
		return err
	}
	return errors.Join(fill(ctx, s, l), s.Close())
}

// Served implements Served.
func (c *onPostgres) Served(ctx context.Context) (float64, error) {
	return c.postgres.transactions(ctx, c.url)
}

func (c *onPostgres) Cost() (Cost, error) { return c.postgres.cost(c.processes) }

func (c *onPostgres) Close() error { return errors.Join(c.Stop(), os.RemoveAll(c.dir)) }

// embedded is duehook with its jobs on its disk.
type embedded struct {
	duehookNodes
	dir string
}

func newEmbedded(s *Setup) (Contender, error) {
	dir, err := os.MkdirTemp(s.Dir, "data-")
	if err != nil {
		return nil, err
	}
	return &embedded{duehookNodes{setup: s, storage: []string{"--data-dir", dir}}, dir}, nil
}

func (c *embedded) Load(ctx context.Context, l *Load) error {
	s, err := diskstore.Open(diskstore.Options{Dir: c.dir})
	if err != nil {
		return err
	}
	return errors.Join(fill(ctx, s, l), s.Close())
}

func (c *embedded) Cost() (Cost, error) {
	own, err := costOf(c.processes)
	return Cost{Processes: own}, err
}

func (c *embedded) Close() error { return errors.Join(c.Stop(), os.RemoveAll(c.dir)) }

// cleanEnviron removes settings of the caller's environment.
func cleanEnviron() []string {
	var kept []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "DUEHOOK_") {
			kept = append(kept, e)
		}
	}
	return kept
}
