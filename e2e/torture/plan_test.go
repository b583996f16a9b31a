package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	jobsPerRun = 240
	// loadTime is the time that registrations are spread over.
	loadTime = 3 * time.Second
	topics   = 3
	// distantDelay is that of jobs which must still wait after the run, more
	// than clocks are stepped.
	distantDelay = "24h"
	batchSize    = 12
	// ownTimeout is that of jobs whose receiver answers too late.
	ownTimeout = 1200 * time.Millisecond
)

// behaviour is the body of a job: instructions for the receiver.
type behaviour struct {
	// Fail is how many attempts fail, by their numbers, with Status, or without
	// an answer in time if that is zero.
	Fail   int `json:"fail,omitempty"`
	Status int `json:"status,omitempty"`
	// Hold is the delay of the answer in milliseconds.
	Hold    int  `json:"hold,omitempty"`
	Snooze  bool `json:"snooze,omitempty"`  // the first time, ask to come again
	Patched bool `json:"patched,omitempty"` // the client has changed the body
	// Reschedule asks for the next attempt rescheduleAfter the arrival instead of failing.
	Reschedule bool `json:"reschedule,omitempty"`
}

// registration is the body of POST /v1/jobs.
type registration struct {
	Topic   string    `json:"topic"`
	ID      string    `json:"id"`
	URL     string    `json:"url"`
	Delay   string    `json:"delay,omitempty"`
	Body    behaviour `json:"body"`
	Retry   *retry    `json:"retry,omitempty"`
	TTL     string    `json:"ttl,omitempty"`
	Timeout string    `json:"timeout,omitempty"`

	OrderKey  string     `json:"order_key,omitempty"`
	Callbacks *callbacks `json:"callbacks,omitempty"`
}

type retry struct {
	Steps []string `json:"steps"`
	Limit int      `json:"limit"`
}

// step is what a client does once its job is acknowledged.
type step int

const (
	nothing  step = iota
	again         // register it again, with the same key
	cancel        // some time before, at or after its due time
	patch         // change body and delay
	runNow        // make it due
	replay        // once it is dead; the receiver has recovered by then
	lookOnly      // read it from another node
)

// planned is one job of a run.
type planned struct {
	registration
	kind  string
	at    time.Duration // when it is registered
	batch int           // number of the batch that it is registered with; 0: alone
	then  step
	after time.Duration // from the acknowledgement to then
	end   string        // the state in which it ends if its client does nothing
	// attempts are the attempts charged in the end.
	attempts int
}

// recipe makes one kind of job.
type recipe struct {
	kind   string
	weight int
	make   func(p *planned, rnd *rand.Rand)
}

var recipes = []recipe{
	{"plain", 26, func(p *planned, rnd *rand.Rand) {
		if rnd.IntN(4) == 0 {
			p.then, p.after = again, time.Duration(rnd.IntN(3000))*time.Millisecond // before or after its end
		} else if rnd.IntN(3) == 0 {
			p.then = lookOnly
		}
	}},
	{"slow", 14, func(p *planned, rnd *rand.Rand) { p.Body.Hold = 30 + rnd.IntN(800) }},
	{"ordered", 12, func(p *planned, rnd *rand.Rand) {
		p.OrderKey = fmt.Sprint("k", rnd.IntN(2))
		p.Body.Hold = 30 + rnd.IntN(300)
	}},
	{"flaky", 12, func(p *planned, rnd *rand.Rand) {
		p.Body.Fail, p.Body.Status = 1+rnd.IntN(2), 500
		p.Body.Hold = rnd.IntN(100)
		p.Retry = &retry{Steps: []string{"100ms", "200ms", "300ms"}, Limit: 3}
		p.attempts = p.Body.Fail + 1
	}},
	{"late", 3, func(p *planned, _ *rand.Rand) {
		p.Body.Fail = 1
		p.Timeout = fmt.Sprint(ownTimeout)
		p.Retry = &retry{Steps: []string{"100ms"}, Limit: 3}
		p.attempts = 2
	}},
	{"doomed", 5, func(p *planned, rnd *rand.Rand) {
		p.Body.Fail, p.Body.Status = 99, 500
		p.Retry = &retry{Steps: []string{"150ms"}, Limit: rnd.IntN(3)}
		p.end, p.attempts = "dead", p.Retry.Limit+1
		if rnd.IntN(2) == 0 {
			p.then, p.after = replay, 0
		}
	}},
	{"gone", 4, func(p *planned, rnd *rand.Rand) {
		p.Body.Fail, p.Body.Status = 99, 410
		p.end = "dead"
		if rnd.IntN(2) == 0 {
			p.then, p.after = replay, 0
		}
	}},
	{"snoozer", 2, func(p *planned, _ *rand.Rand) { p.Body.Snooze = true }},
	{"rescheduled", 6, func(p *planned, _ *rand.Rand) {
		p.Body.Fail, p.Body.Status, p.Body.Reschedule = 1, 503, true
		p.attempts = 2
	}},
	{"short-lived", 2, func(p *planned, _ *rand.Rand) {
		p.Body.Fail, p.Body.Status = 99, 503
		p.Retry = &retry{Steps: []string{"300ms"}, Limit: 1000}
		p.Delay, p.TTL = "0s", "800ms"
		p.end, p.attempts = "expired", -1
	}},
	{"withdrawn", 10, func(p *planned, rnd *rand.Rand) {
		// About half of the cancels meet a job that is due or in flight.
		p.Body.Hold = rnd.IntN(200)
		p.then, p.after = cancel, time.Duration(rnd.IntN(1500))*time.Millisecond
	}},
	{"distant", 10, func(p *planned, rnd *rand.Rand) {
		p.Delay, p.end, p.attempts = distantDelay, "waiting", 0
		p.then = []step{nothing, patch, patch, runNow}[rnd.IntN(4)]
		p.after = time.Duration(rnd.IntN(1500)) * time.Millisecond
	}},
}

// newPlan is the load of a run: a function of its seed.
func newPlan(rnd *rand.Rand, urls []string) []*planned {
	total := 0
	for _, r := range recipes {
		total += r.weight
	}
	jobs := make([]*planned, jobsPerRun)
	for i := range jobs {
		topic := fmt.Sprintf("topic-%d", rnd.IntN(topics))
		p := &planned{
			registration: registration{
				Topic: topic, ID: fmt.Sprintf("job-%03d", i), URL: urls[rnd.IntN(len(urls))],
				Delay: fmt.Sprintf("%dms", rnd.IntN(1500)),
			},
			at:  loadTime * time.Duration(i) / jobsPerRun,
			end: "delivered", attempts: 1,
		}
		pick := rnd.IntN(total)
		for _, r := range recipes {
			if pick -= r.weight; pick < 0 {
				p.kind = r.kind
				r.make(p, rnd)
				break
			}
		}
		if p.Callbacks = someCallbacks(rnd, urls); p.Body.Reschedule {
			p.Callbacks = nil // an attempt that was put off did not fail
		}
		jobs[i] = p
	}
	// Some of them come in batches.
	for b := 1; b*60 <= len(jobs); b++ {
		from := (b-1)*60 + rnd.IntN(60-batchSize)
		for _, p := range jobs[from : from+batchSize] {
			p.batch, p.at = b, jobs[from].at
		}
	}
	return jobs
}

func (b behaviour) bytes() []byte {
	content, err := json.Marshal(b)
	if err != nil {
		panic(err) // it has no fields that cannot be encoded
	}
	return content
}
