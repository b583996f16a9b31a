package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/job"
)

const (
	// callTimeout bounds one try of a call: a client of a frozen node goes to
	// another one.
	callTimeout = 2 * time.Second
	retryPause  = 30 * time.Millisecond
	// clientLimit is how long a client tries in all.
	clientLimit = 90 * time.Second
)

// told has the answers that a client got about its job.
type told struct {
	*planned
	uid string // empty: it was never acknowledged
	// done is the answer to what the client did then.
	done op
	// finished is set when the client had done all that was planned.
	finished bool
	problems []string
}

func (o *told) key() job.Key { return job.Key{Topic: o.Topic, ID: o.ID} }

// op is one call until it was answered for certain.
type op struct {
	began, ended time.Time
	tries        int
	inDoubt      bool // an earlier try may have gone through
	status       int
	result       string // of a cancel
}

// jobView is a job as the API shows it, as far as the audit looks at it.
type jobView struct {
	UID      string `json:"uid"`
	Topic    string `json:"topic"`
	ID       string `json:"id"`
	State    string `json:"state"`
	Reason   string `json:"reason"`
	Attempts int    `json:"attempts"`
	Version  uint64 `json:"version"`
}

// clients are the users of a run's API: careful ones, who make a call again,
// at another node, until they know what came of it.
type clients struct {
	nodes     []*rig.Node
	lossy     bool // see row
	endpoints *endpoints
	jobs      []*told

	mu  sync.Mutex
	rnd *rand.Rand
}

// node is the address of a random node that is up, or empty.
func (c *clients) node() string {
	c.mu.Lock()
	first := c.rnd.IntN(len(c.nodes))
	c.mu.Unlock()
	for i := range c.nodes {
		if base := c.nodes[(first+i)%len(c.nodes)].Base(); base != "" {
			return base
		}
	}
	return ""
}

// run returns when all clients have completed their plan or given up.
func (c *clients) run(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, clientLimit)
	defer stop()
	began := clock.Now()
	var all sync.WaitGroup
	batches := map[int][]*told{}
	for _, j := range c.jobs {
		if j.batch == 0 {
			all.Go(func() { c.life(ctx, began, j, c.register) })
			continue
		}
		batches[j.batch] = append(batches[j.batch], j)
	}
	for _, jobs := range batches {
		all.Go(func() { c.batch(ctx, began, jobs) })
	}
	all.Wait()
}

// life is one job's: it is registered at its time, and what its client does
// afterwards.
func (c *clients) life(ctx context.Context, began time.Time, j *told, register func(context.Context, *told) error) {
	err := sleepUntil(ctx, began.Add(j.at))
	if err == nil {
		err = register(ctx, j)
	}
	if err == nil {
		err = job.Sleep(ctx, clock, j.after)
	}
	if err == nil {
		err = c.followUp(ctx, j)
	}
	if err != nil {
		j.problems = append(j.problems, err.Error())
		return
	}
	j.finished = true
}

func sleepUntil(ctx context.Context, at time.Time) error {
	return job.Sleep(ctx, clock, max(0, at.Sub(clock.Now())))
}

// until makes a call until it is answered, and not with 503. Only statuses that are
// expected end it well.
func (c *clients) until(ctx context.Context, method, path string, body any, expected ...int) (rig.Answer, op, error) {
	o := op{began: clock.Now()}
	var last error
	for {
		if base := c.node(); base != "" {
			o.tries++
			try, stop := context.WithTimeout(ctx, callTimeout)
			a, err := rig.Call(try, method, base+path, nil, body)
			stop()
			o.inDoubt = c.lossy || o.tries > 1
			o.ended, o.status, last = clock.Now(), a.Status, err
			switch {
			case err != nil:
			case slices.Contains(expected, a.Status):
				return a, o, nil
			case a.Status == http.StatusServiceUnavailable:
				last = fmt.Errorf("503 %s", a.Body)
			default:
				return a, o, fmt.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
			}
		}
		if err := job.Sleep(ctx, clock, retryPause); err != nil {
			return rig.Answer{}, o, fmt.Errorf("%s %s after %d tries: %w; the last: %w", method, path, o.tries, err, last)
		}
	}
}

// allJobs is where jobs are registered.
const allJobs = "/v1/jobs"

func (c *clients) register(ctx context.Context, j *told) error {
	a, _, err := c.until(ctx, "POST", allJobs, j.registration, http.StatusCreated, http.StatusOK)
	if err != nil {
		return err
	}
	return j.acknowledge(a)
}

// acknowledge records the uid of an answer; it must always be the same.
func (o *told) acknowledge(a rig.Answer) error {
	var v jobView
	if err := a.Decode(&v); err != nil {
		return err
	}
	if v.ID != o.ID || o.uid != "" && v.UID != o.uid {
		return fmt.Errorf("%s with uid %q was acknowledged as %s with uid %q", o.key(), o.uid, v.ID, v.UID)
	}
	o.uid = v.UID
	return nil
}

// batch registers jobs with one call. When its outcome is unknown they are
// registered again one by one, though they may have been delivered.
func (c *clients) batch(ctx context.Context, began time.Time, jobs []*told) {
	register := c.register
	if sleepUntil(ctx, began.Add(jobs[0].at)) == nil && c.tryBatch(ctx, jobs) == nil {
		register = func(context.Context, *told) error { return nil }
	}
	var each sync.WaitGroup
	for _, j := range jobs {
		each.Go(func() { c.life(ctx, began, j, register) })
	}
	each.Wait()
}

func (c *clients) tryBatch(ctx context.Context, jobs []*told) error {
	base := c.node()
	if base == "" {
		return errors.New("no node is up")
	}
	var body struct {
		Jobs []registration `json:"jobs"`
	}
	for _, j := range jobs {
		body.Jobs = append(body.Jobs, j.registration)
	}
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	a, err := rig.Call(ctx, "POST", base+"/v1/jobs/batch", nil, body)
	if err != nil {
		return err
	}
	var answer struct {
		Results []struct {
			Status int     `json:"status"`
			Job    jobView `json:"job"`
		} `json:"results"`
	}
	if a.Status != http.StatusOK {
		return fmt.Errorf("batch: %d", a.Status)
	}
	if err := a.Decode(&answer); err != nil {
		return err
	}
	for i, r := range answer.Results {
		if r.Status != http.StatusCreated && r.Status != http.StatusOK {
			return fmt.Errorf("batch: job %d: %d", i, r.Status)
		}
		jobs[i].uid = r.Job.UID
	}
	return nil
}

// followUp makes the calls planned for after the acknowledgement.
func (c *clients) followUp(ctx context.Context, j *told) (err error) {
	path := allJobs + "/" + j.Topic + "/" + j.ID
	var a rig.Answer
	switch j.then {
	case again:
		a, j.done, err = c.until(ctx, "POST", allJobs, j.registration, http.StatusOK)
		if err == nil {
			err = j.acknowledge(a)
		}
	case lookOnly:
		if a, j.done, err = c.until(ctx, "GET", path, nil, http.StatusOK); err == nil {
			err = j.acknowledge(a)
		}
	case cancel:
		a, j.done, err = c.until(ctx, "DELETE", path, nil, http.StatusOK, http.StatusAccepted, http.StatusConflict)
		if err == nil && j.done.status != http.StatusConflict {
			var v struct{ Result string }
			err = a.Decode(&v)
			j.done.result = v.Result
		}
	case patch:
		change := map[string]any{"delay": "100ms", "body": behaviour{Patched: true}}
		_, j.done, err = c.until(ctx, "PATCH", path, change, http.StatusOK, http.StatusConflict)
	case runNow:
		_, j.done, err = c.until(ctx, "POST", path+"/run", nil, http.StatusOK, http.StatusConflict)
	case replay:
		err = c.replay(ctx, j, path)
	}
	if err == nil && (j.then == patch || j.then == runNow) && j.done.status == http.StatusConflict && !j.done.inDoubt {
		return fmt.Errorf("%s was not due, but a change met a conflict", j.key())
	}
	return err
}

// replay waits until the job is dead, and replays it.
func (c *clients) replay(ctx context.Context, j *told, path string) error {
	for {
		a, _, err := c.until(ctx, "GET", path, nil, http.StatusOK)
		if err != nil {
			return err
		}
		var v jobView
		if err := a.Decode(&v); err != nil {
			return err
		}
		if v.State == "dead" {
			break
		}
		if err := job.Sleep(ctx, clock, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%s did not die: %w", j.key(), err)
		}
	}
	c.endpoints.recover(j.key())
	var err error
	// A conflict after the first try: an earlier one went through.
	_, j.done, err = c.until(ctx, "POST", path+"/replay", nil, http.StatusOK, http.StatusConflict)
	if err == nil && j.done.status == http.StatusConflict && !j.done.inDoubt {
		err = fmt.Errorf("%s is dead, but its replay met a conflict", j.key())
	}
	return err
}
