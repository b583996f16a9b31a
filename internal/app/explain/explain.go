// Package explain explains why a job has not been attempted yet, when its next attempt is
// expected, and what follows if it keeps failing. It is pure: its input is a store.Outlook,
// the hold of the store and the settings.
package explain

import (
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/hold"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
)

// Reason is something that delays a job's next attempt, or that has ended the job.
type Reason struct {
	// Code is one of the Code constants, or the reason for which the job ended.
	Code string
	// Sentences word the reason; there is at least one.
	Sentences []Sentence
	// Until is the latest end of the reason; zero: unknown.
	Until job.Instant
	// Node holds the lease, for CodeInFlight and CodeLeaseExpired.
	Node string

	// stops: no attempt is expected while the reason holds.
	stops bool
	// timeless: nobody knows when the reason ends. It may take any number of attempts of
	// other jobs.
	timeless bool
	// from is the earliest end of a reason without Until.
	from job.Instant
}

// Detail is the text of all sentences, in English.
func (r *Reason) Detail() string {
	texts := make([]string, len(r.Sentences))
	for i, s := range r.Sentences {
		texts[i] = s.String()
	}
	return strings.Join(texts, " ")
}

// The codes of reasons of jobs that have not ended.
const (
	CodeNotDue             = "not_due"             // it is not due yet
	CodeDeliveriesHeld     = "deliveries_held"     // the deliveries of all topics are held
	CodeCircuitOpen        = "circuit_open"        // the circuit of its endpoint is open
	CodeEndpointRecovering = "endpoint_recovering" // its endpoint gets few jobs at a time after an open circuit
	CodeEndpointLimit      = "endpoint_limit"      // the endpoint has as many jobs in flight as allowed
	CodeTopicLimit         = "topic_limit"         // the topic has as many at that endpoint as allowed
	CodeTopicPaused        = "topic_paused"        // its topic is paused
	CodeTopicRate          = "topic_rate"          // its topic's rate allows no more now
	CodeTopicConcurrency   = "topic_concurrency"   // the topic has as many jobs in flight as allowed
	CodeHigherPriority     = "higher_priority"     // due jobs of its topic with a higher priority go first
	CodeOrderKey           = "order_key"           // another job of its order key goes first
	CodeReadyListFull      = "ready_list_full"     // dispatchers are behind
	CodeReady              = "ready"               // on the ready list of Redis; no dispatcher has claimed it yet
	CodeInFlight           = "in_flight"           // an attempt is in flight
	CodeLeaseExpired       = "lease_expired"       // its lease expired without an outcome
	CodeQuarantined        = "quarantined"         // its lease expired several times in a row: it waits to be sent alone
	CodeCancelNoted        = "cancel_noted"        // a cancel arrived during the attempt in flight
	CodeTTLFirst           = "ttl_first"           // it expires before its next attempt
	CodeCarrierBehind      = "carrier_behind"      // it is due, and only waits for the carrier
	CodeAwaitsConsumer     = "awaits_consumer"     // it is due, and waits for a consumer to fetch it
)

// Explanation explains a job.
type Explanation struct {
	// Reasons has at least one entry. All of them apply.
	Reasons []Reason
	// Expected is the earliest time of the next attempt as things stand; zero during an
	// attempt, if none follows, and if jobs of its order key go before it that are not the head.
	Expected job.Instant
	// Forecast is the rest of the job's ladder, without the attempt in flight. It is empty
	// without Expected.
	Forecast retrypolicy.Forecast
	// Expires is the end of the job's TTL, if it can still expire.
	Expires job.Instant
	// Notes say where the job comes from and which jobs it makes. Most jobs have none.
	Notes []Sentence
}

// view is the input of checks.
type view struct {
	*store.Outlook
	held   *hold.Held         // nil: the store is not held
	policy retrypolicy.Policy // the job's
	carry  store.CarryOptions
}

// check returns the reason that it looks for, or nil.
type check func(v *view) *Reason

// checks are all checks, in the order of the reasons.
var checks = []check{
	ended, cancelNoted, inFlight, leaseExpired, quarantined, notDue, deliveriesHeld, orderKey, circuitOpen,
	topicPaused, endpointRecovering, endpointLimit, topicLimit, topicRate, topicConcurrency, higherPriority, readyListFull, ready,
}

// Job explains the job of o in a store that is held as held says. policy and carry are those of the server.
func Job(o *store.Outlook, held *hold.Held, policy retrypolicy.Policy, carry store.CarryOptions) Explanation {
	v := &view{Outlook: o, held: held, policy: policy.For(o.Job.Spec.Retry), carry: carry}
	var e Explanation
	stopped, timeless, next := false, false, o.Now
	add := func(r *Reason) {
		if r != nil {
			e.Reasons = append(e.Reasons, *r)
			stopped = stopped || r.stops
			timeless = timeless || r.timeless
			next = max(next, r.Until, r.from)
		}
	}
	for _, c := range checks {
		add(c(v))
	}
	if !stopped {
		add(v.ttlFirst(next))
	}
	if len(e.Reasons) == 0 {
		if v.pulled() {
			add(v.awaitsConsumer())
		} else {
			add(v.carrierBehind())
		}
	}
	stopped = stopped || timeless
	if !stopped {
		e.Expected = next
	}
	for _, n := range notes {
		e.Notes = append(e.Notes, n(v)...)
	}
	if j := &o.Job; !j.State.Final() && !j.CancelRequested {
		e.Expires = j.ExpiresAt
		if !stopped || v.leased() {
			e.Forecast = v.forecast(next)
		}
	}
	return e
}

// forecast is the rest of the ladder if the next attempt begins at next.
func (v *view) forecast(next job.Instant) retrypolicy.Forecast {
	j := &v.Job
	if v.leased() {
		return v.policy.ForecastAfter(j.Attempts+1, retrypolicy.Window{Earliest: v.Now, Latest: v.At}, j.ExpiresAt)
	}
	return v.policy.Forecast(j.Attempts+1, retrypolicy.At(next), j.ExpiresAt)
}

// pulled reports whether consumers fetch the job.
func (v *view) pulled() bool { return v.Job.Spec.Destination.Pulled() }

// leased reports whether an attempt is in flight, as far as the store knows.
func (v *view) leased() bool { return v.Job.State == job.Running && v.At > v.Now }

// pending reports whether the job waits in its bucket to be carried.
func (v *view) pending() bool { return v.Job.State == job.Waiting || v.Job.State == job.Retrying }

// carriable reports whether the job is due and the circuit of its endpoint is not open.
func (v *view) carriable() bool {
	return v.pending() && v.Head == nil && v.Job.NextAt <= v.Now && v.Circuit.OpenUntil == 0
}
