package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// client is a user of the API. It owns its jobs: nobody else touches them.
type client struct {
	w    *world
	name string
	rand *rand.Rand
	jobs []*owned
}

// owned is a job that a client registered, with what the client may rely on.
type owned struct {
	key   job.Key
	text  string // the registration, to be repeated word for word
	due   time.Duration
	begun bool // a registration was tried, after which due counts from the start of the world
	// acked are the uids that were acknowledged for it.
	acked []string
	// touched: something else than registering was tried, so that due need
	// not hold any more.
	touched bool
	bans    []*ban
	// counts: it fires at a count. Each add has a key of its own: asked are those that
	// were tried, counted those that were acknowledged.
	counts         bool
	asked, counted int
}

// ban is a cancel that was acknowledged: from then on no attempt may follow.
type ban struct {
	uid      string
	from     time.Duration
	inFlight bool // one that was under way may still arrive
	lifted   time.Duration
}

// tries is how often a client tries the same thing.
const tries = 20

func (c *client) run(over context.Context) {
	for job.Sleep(over, clock, between(c.rand, 10*time.Millisecond, 15*time.Second)) == nil {
		switch n := c.rand.IntN(20); {
		case n < 10 || len(c.jobs) == 0:
			o := c.newJob()
			c.register(over, o)
			if c.rand.IntN(5) == 0 && job.Sleep(over, clock, between(c.rand, 0, 2*time.Second)) == nil {
				c.cancel(over, o) // perhaps in the middle of its first attempt
			}
		case n < 11:
			c.registerBatch(over)
		case n < 13:
			c.register(over, c.any()) // again, the same
		case n < 15:
			c.cancel(over, c.any())
		case n < 16:
			c.patch(over, c.any())
		case n < 17:
			c.touch(over, c.any(), "run")
		case n < 18:
			c.touch(over, c.any(), "replay")
		case n < 19:
			c.count(over)
		default:
			c.look(over, c.any())
		}
	}
}

func (c *client) any() *owned { return c.jobs[c.rand.IntN(len(c.jobs))] }

// newJob makes up a job.
func (c *client) newJob() *owned {
	r := c.rand
	o := &owned{key: job.Key{Topic: oneOf(r, topics...), ID: fmt.Sprintf("%s-%d", c.name, len(c.jobs)+1)}}
	delay := oneOf(r, 0, 0, between(r, 0, 90*time.Second), between(r, 0, 3*time.Hour)).Truncate(time.Millisecond)
	if r.IntN(10) > 0 {
		delay = min(delay, 2*time.Minute)
	}
	spec := map[string]any{
		"topic": o.key.Topic, "id": o.key.ID, "url": oneOf(r, endpoints...) + "/hook", "body": map[string]int{"n": len(c.jobs)},
		"delay": fmt.Sprintf("%dms", delay.Milliseconds()),
	}
	o.due = delay
	if r.IntN(3) == 0 {
		due := clock.Now().Add(delay)
		delete(spec, "delay")
		spec["at"] = due.UTC().Format("2006-01-02T15:04:05.000Z07:00")
		o.due = -due.Truncate(time.Millisecond).Sub(c.w.start) // from the start of the world, not from the registration
	}
	if len(c.jobs)%5 == 0 {
		const spread = 20 * time.Second
		spec["spread"] = spread.String()
		if share := job.Share(o.key.String(), spread); o.due < 0 {
			o.due -= share
		} else {
			o.due += share
		}
	}
	if len(c.jobs)%3 == 0 {
		spec["callbacks"] = callbacks(oneOf(r, endpoints...) + "/callback")
	}
	if r.IntN(3) == 0 {
		spec["retry"] = map[string]any{"steps": []string{"1s", "7s", "31s"}, "limit": r.IntN(5)}
	}
	if r.IntN(4) == 0 {
		spec["timeout"] = fmt.Sprintf("%ds", 1+r.IntN(9))
	}
	if r.IntN(6) == 0 {
		spec["ttl"] = fmt.Sprintf("%ds", 1+r.IntN(200))
	}
	if r.IntN(6) == 0 {
		spec["expect"] = map[string]string{"body": "success"}
	}
	if r.IntN(3) == 0 {
		spec["order_key"] = oneOf(r, "k1", "k2", "k3")
	}
	if _, ordered := spec["order_key"]; len(c.jobs)%4 == 1 && !ordered {
		spec["count"] = map[string]any{"target": 1 + len(c.jobs)%7, "at_deadline": oneOf(r, "fire", "expire")}
		o.counts = true
	}
	if c.w.priorities && r.IntN(2) == 0 {
		spec["priority"] = job.MinPriority + r.IntN(job.MaxPriority)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	o.text = string(text)
	c.jobs = append(c.jobs, o)
	return o
}

// callbacks are requests for all events of a job.
func callbacks(url string) map[string]any {
	all := map[string]any{"retry": map[string]any{"steps": []string{"1s", "10s"}}}
	for _, e := range job.CallbackEvents {
		all[string(e)] = map[string]string{"url": url}
	}
	return all
}

// view is what a client reads of answers.
type view struct {
	UID    string `json:"uid"`
	Result string `json:"result"`
	Code   string `json:"code"`
	Late   bool   `json:"late"`

	Results []struct {
		Status int   `json:"status"`
		Job    *view `json:"job"`
		Error  struct {
			Code string `json:"code"`
		} `json:"error"`
	} `json:"results"`
}

// register repeats a registration until it is acknowledged. The same job again is
// one job for as long as that is kept.
func (c *client) register(over context.Context, o *owned) {
	c.lift(o)
	c.begins(o)
	switch status, v := c.insist(over, http.MethodPost, "/v1/jobs", o.text); status {
	case http.StatusCreated, http.StatusOK:
		c.acked(o, v.UID)
	case 0, http.StatusServiceUnavailable:
	case http.StatusTooManyRequests:
		c.full(o.key)
	case http.StatusConflict:
		if v.Code == drainingCode {
			c.draining(o.key)
			return
		}
		// It was patched, so the content is another now.
		if !o.touched {
			c.w.Errorf("%s: registering it again: %d %s", o.key, status, v.Code)
		}
	default:
		c.w.Errorf("%s: registering: %d %s", o.key, status, v.Code)
	}
}

func (c *client) registerBatch(over context.Context) {
	jobs := make([]*owned, 2+c.rand.IntN(4))
	texts := make([]string, len(jobs))
	for i := range jobs {
		jobs[i] = c.newJob()
		c.begins(jobs[i])
		texts[i] = jobs[i].text
	}
	status, v := c.insist(over, http.MethodPost, "/v1/jobs/batch", `{"jobs":[`+strings.Join(texts, ",")+`]}`)
	if status == 0 || status == http.StatusServiceUnavailable {
		return
	}
	if status != http.StatusOK || len(v.Results) != len(jobs) {
		c.w.Errorf("a batch of %d: %d %s, %d results", len(jobs), status, v.Code, len(v.Results))
		return
	}
	for i, r := range v.Results {
		switch {
		case r.Job != nil:
		case r.Status == http.StatusTooManyRequests:
			c.full(jobs[i].key)
			continue
		case r.Status == http.StatusConflict && r.Error.Code == drainingCode:
			c.draining(jobs[i].key)
			continue
		default:
			c.w.Errorf("%s: in a batch: %d", jobs[i].key, r.Status)
			continue
		}
		c.acked(jobs[i], r.Job.UID)
	}
}

// begins notes when a job was registered first: a call that was not answered may have made it.
func (c *client) begins(o *owned) {
	switch {
	case o.begun:
	case o.due < 0:
		o.due = -o.due
	default:
		o.due += c.w.now()
	}
	o.begun = true
}

func (c *client) acked(o *owned, uid string) {
	o.acked = append(o.acked, uid)
	c.w.history.count("registrations acknowledged")
}

func (c *client) cancel(over context.Context, o *owned) {
	if len(o.acked) == 0 {
		return
	}
	o.touched = true
	switch status, v := c.insist(over, http.MethodDelete, path(o, ""), ""); status {
	case http.StatusOK:
		o.bans = append(o.bans, &ban{uid: o.acked[len(o.acked)-1], from: c.w.now(), lifted: never})
		c.w.history.count("cancels that said cancelled")
	case http.StatusAccepted:
		o.bans = append(o.bans, &ban{uid: o.acked[len(o.acked)-1], from: c.w.now(), lifted: never, inFlight: true})
		c.w.history.count("cancels that said in_flight")
	case 0, http.StatusServiceUnavailable, http.StatusConflict, http.StatusNotFound:
	default:
		c.w.Errorf("%s: cancelling: %d %s", o.key, status, v.Code)
	}
}

const never = 1 << 62

// lift notes that from now on the job may be sent again, if the call that
// follows has an effect.
func (c *client) lift(o *owned) {
	for _, b := range o.bans {
		b.lifted = min(b.lifted, c.w.now())
	}
}

func (c *client) patch(over context.Context, o *owned) {
	o.touched = true
	change := oneOf(c.rand, `{"delay":"5s"}`, `{"delay":"100s"}`, `{"url":"`+endpoints[0]+`/hook"}`,
		`{"body":"other"}`, `{"retry":{"limit":1}}`, `{"ttl":"60s"}`, `{"priority":9}`)
	c.expect(over, o, http.MethodPatch, "", change)
}

// count adds to the count of a job, some times. Each key is repeated until it is answered.
func (c *client) count(over context.Context) {
	var all []*owned
	for _, o := range c.jobs {
		if o.counts && len(o.acked) > 0 {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return
	}
	o := oneOf(c.rand, all...)
	o.touched = true
	for range 1 + c.rand.IntN(4) {
		o.asked++
		switch status, v := c.insist(over, http.MethodPost, path(o, "/count"), fmt.Sprintf(`{"key":"k%d"}`, o.asked)); status {
		case http.StatusOK:
			if !v.Late {
				o.counted++
				c.w.history.count("counts acknowledged")
			}
		case 0, http.StatusServiceUnavailable, http.StatusConflict, http.StatusNotFound:
		default:
			c.w.Errorf("%s: counting: %d %s", o.key, status, v.Code)
		}
	}
}

func (c *client) touch(over context.Context, o *owned, command string) {
	o.touched = true
	if command == "replay" {
		c.lift(o)
	}
	c.expect(over, o, http.MethodPost, "/"+command, "")
}

func (c *client) look(over context.Context, o *owned) {
	c.expect(over, o, http.MethodGet, oneOf(c.rand, "", "/attempts"), "")
}

// expect makes a call whose answer promises nothing.
func (c *client) expect(over context.Context, o *owned, method, call, body string) {
	switch status, v := c.insist(over, method, path(o, call), body); status {
	case 0, http.StatusOK, http.StatusConflict, http.StatusNotFound, http.StatusServiceUnavailable:
	case http.StatusTooManyRequests: // a replay
		c.full(o.key)
	default:
		c.w.Errorf("%s %s: %d %s", method, path(o, call), status, v.Code)
	}
}

func path(o *owned, call string) string { return "/v1/jobs/" + o.key.String() + call }

// insist makes a call until it is answered with something else than 503, each
// time to some node. It gives up in the end, with zero or 503.
func (c *client) insist(over context.Context, method, path, body string) (status int, v view) {
	for range tries {
		status, v = c.call(oneOf(c.rand, c.w.nodes...), method, path, body)
		if status != 0 && status != http.StatusServiceUnavailable {
			break
		}
		if job.Sleep(over, clock, between(c.rand, 50*time.Millisecond, 3*time.Second)) != nil {
			break
		}
	}
	c.w.note("%s %s %s: %d", c.name, method, path, status)
	return status, v
}

// call makes a call of a node's API; zero means that there was no answer.
func (c *client) call(n *node, method, path, body string) (status int, v view) {
	l := n.process()
	if !l.up() {
		return 0, v
	}
	var content *strings.Reader
	r := httptest.NewRequestWithContext(l.alive, method, path, http.NoBody)
	if body != "" {
		content = strings.NewReader(body)
		r = httptest.NewRequestWithContext(l.alive, method, path, content)
		r.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	apis[n.number].handler.ServeHTTP(rec, r)
	if l.alive.Err() != nil {
		return 0, v
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
		c.w.Errorf("%s %s answered %d with %q: %v", method, path, rec.Code, rec.Body, err)
	}
	return rec.Code, v
}
