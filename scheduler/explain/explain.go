// Package explain says why a job has not been attempted yet, when it is
// expected to be, and what follows if it goes on failing. It is pure: all that
// it knows is a store.Outlook and the settings.
package explain

import (
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
)

// Reason is one thing that keeps a job from its next attempt, or that has
// ended it.
type Reason struct {
	// Code is one of the Code constants, or the reason for which the job ended.
	Code string
	// Sentences say it for people; there is at least one.
	Sentences []Sentence
	// Until is when it ends at the latest; zero: nobody knows.
	Until job.Instant
	// Node is who leases the job, for CodeInFlight and CodeLeaseLapsed.
	Node string

	// stops: as long as it stands, no further attempt is to be expected.
	stops bool
	// from is the earliest time at which it can have ended, where Until is not known.
	from job.Instant
}

// Detail is all that the reason says, in English.
func (r *Reason) Detail() string {
	texts := make([]string, len(r.Sentences))
	for i, s := range r.Sentences {
		texts[i] = s.String()
	}
	return strings.Join(texts, " ")
}

// The codes of reasons of jobs that have not ended.
const (
	CodeNotDue             = "not_due"             // its time has not come
	CodeCircuitOpen        = "circuit_open"        // the endpoint's breaker is open
	CodeEndpointRecovering = "endpoint_recovering" // few jobs at once after an open circuit
	CodeEndpointLimit      = "endpoint_limit"      // as many jobs of the endpoint are under way as may be
	CodeTopicLimit         = "topic_limit"         // the same of the topic at that endpoint
	CodeTopicPaused        = "topic_paused"        // somebody paused its topic
	CodeTopicRate          = "topic_rate"          // its topic's rate lets no more go now
	CodeTopicConcurrency   = "topic_concurrency"   // as many jobs of the topic are under way as may be
	CodeHigherPriority     = "higher_priority"     // jobs of its topic that go first are due, too
	CodeOrderKey           = "order_key"           // another job of its order key goes first
	CodeReadyListFull      = "ready_list_full"     // dispatchers are behind
	CodeReady              = "ready"               // carried; nobody has taken it yet
	CodeInFlight           = "in_flight"           // an attempt is under way
	CodeLeaseLapsed        = "lease_lapsed"        // whoever took it gave no outcome
	CodeQuarantined        = "quarantined"         // that happened several times in a row: it waits to be sent alone
	CodeCancelNoted        = "cancel_noted"        // it ends with the attempt under way
	CodeTTLFirst           = "ttl_first"           // it expires before its next attempt
	CodeCarrierBehind      = "carrier_behind"      // due, and nothing else keeps it
)

// Explanation is what can be said of a job.
type Explanation struct {
	// Reasons has at least one entry; all of them hold.
	Reasons []Reason
	// Expected is the earliest time of the next attempt, as things stand; zero
	// when one is under way, or none follows.
	Expected job.Instant
	// Forecast is the rest of the job's ladder, behind the attempt under way if
	// there is one.
	Forecast retrypolicy.Forecast
	// Expires is the end of the job's TTL, if it can still expire.
	Expires job.Instant
	// Notes say where the job comes from and which jobs it makes. Most jobs have none.
	Notes []Sentence
}

// view is what checks look at.
type view struct {
	*store.Outlook
	policy retrypolicy.Policy // the job's
	carry  store.CarryOptions
}

// check gives the reason that it looks for, or nil.
type check func(v *view) *Reason

// checks are all of them, in the order in which reasons are told.
var checks = []check{
	ended, cancelNoted, inFlight, leaseLapsed, quarantined, notDue, orderKey, circuitOpen,
	topicPaused, endpointRecovering, endpointLimit, topicLimit, topicRate, topicConcurrency, higherPriority, readyListFull, ready,
}

// Job explains the job of o. policy is the server's, carry what its carriers
// are told.
func Job(o *store.Outlook, policy retrypolicy.Policy, carry store.CarryOptions) Explanation {
	v := &view{Outlook: o, policy: policy.For(o.Job.Spec.Retry), carry: carry}
	var e Explanation
	stopped, next := false, o.Now
	add := func(r *Reason) {
		if r != nil {
			e.Reasons = append(e.Reasons, *r)
			stopped = stopped || r.stops
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
		add(v.carrierBehind())
	}
	if !stopped {
		e.Expected = next
	}
	for _, n := range notes {
		e.Notes = append(e.Notes, n(v)...)
	}
	if j := &o.Job; !j.State.Final() && !j.CancelRequested {
		e.Forecast, e.Expires = v.forecast(next), j.ExpiresAt
	}
	return e
}

// forecast is the ladder that is left when the next attempt comes at next.
func (v *view) forecast(next job.Instant) retrypolicy.Forecast {
	j := &v.Job
	if v.leased() {
		return v.policy.ForecastAfter(j.Attempts+1, retrypolicy.Window{Earliest: v.Now, Latest: v.At}, j.ExpiresAt)
	}
	return v.policy.Forecast(j.Attempts+1, retrypolicy.At(next), j.ExpiresAt)
}

// leased: an attempt is under way, as far as the store knows.
func (v *view) leased() bool { return v.Job.State == job.Running && v.At > v.Now }

// pending: the job waits in its bucket to be carried.
func (v *view) pending() bool { return v.Job.State == job.Waiting || v.Job.State == job.Retrying }

// carriable: the job is due, and so is its endpoint.
func (v *view) carriable() bool {
	return v.pending() && v.Head == nil && v.Job.NextAt <= v.Now && v.Circuit.OpenUntil == 0
}
