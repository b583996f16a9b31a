package explain

import (
	"net/http"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store/rules"
)

func notDue(v *view) *Reason {
	j := &v.Job
	if !v.pending() || j.NextAt <= v.Now || j.Suspect() {
		return nil
	}
	at, next := j.NextAt.RFC3339(), j.Attempts+1
	r := reason(CodeNotDue, says("attempt_due", Params{"attempt": next, "at": at}))
	r.Until = j.NextAt
	if c := j.Spec.Count; c != nil && !j.HasFired(v.Now) {
		more := Params{"count": max(c.Target-j.Counted, 0), "at": at}
		r.Sentences = []Sentence{says("count_or_deadline", more)}
		if !j.Spec.FiresAtDeadline() {
			r.Sentences = []Sentence{says("count_before_deadline", more)}
			r.stops = true
		}
		return r
	}
	last := j.LastAttempt
	if last == nil || last.NextAt != j.NextAt { // it was rescheduled, or released
		return r
	}
	failed := says("attempt_failed", Params{"attempt": last.Number, "outcome": outcome(last)})
	switch last.Reason {
	case job.ReasonLadder:
		r.Sentences = []Sentence{failed, says("due_by_ladder", Params{"attempt": next, "at": at})}
	case job.ReasonRetryAfter:
		r.Sentences = []Sentence{failed, says(v.or("due_by_receiver", "due_by_consumer"), Params{"attempt": next, "at": at})}
	case job.ReasonRescheduled:
		r.Sentences = []Sentence{says("due_by_receiver", Params{"attempt": next, "at": at})}
	case job.ReasonSnoozed:
		r.Sentences = []Sentence{says("snoozed", Params{"at": at})}
	}
	return r
}

// deliveriesHeld checks the hold of the store, which keeps jobs of all topics from being taken.
func deliveriesHeld(v *view) *Reason {
	if v.held == nil || v.Job.State.Final() || v.leased() {
		return nil
	}
	r := stop(CodeDeliveriesHeld)
	if v.held.Since != 0 || !v.held.Import {
		r.Sentences = append(r.Sentences, says("held_since_start", Params{"since": v.held.Since.RFC3339()}))
	}
	if v.held.Import {
		r.Sentences = append(r.Sentences, says("held_by_import", nil))
	}
	return r
}

// orderKey checks whether the job waits for the head of its order key.
func orderKey(v *view) *Reason {
	head := v.Head
	switch {
	case !v.pending() || v.Job.Spec.OrderKey == "":
		return nil
	case head == nil:
		return nil
	}
	p := Params{"key": v.Job.Spec.OrderKey, "job": head.ID}
	var r *Reason
	switch head.State {
	case job.Dead:
		r = stop(CodeOrderKey, says("order_key_stopped", p))
	case job.Running:
		r = reason(CodeOrderKey, says("order_key_in_flight", p))
	default:
		p["at"] = head.NextAt.RFC3339()
		r = reason(CodeOrderKey, says("order_key_waits", p))
		r.from = head.NextAt
	}
	if v.Before > 1 {
		r.Sentences = append(r.Sentences, says("order_key_behind", Params{"key": v.Job.Spec.OrderKey, "count": v.Before}))
		r.timeless = true
	}
	return r
}

// circuitOpen checks the circuit, which matters only if it stays open beyond the due time.
func circuitOpen(v *view) *Reason {
	until := v.Circuit.OpenUntil
	if until == 0 || !v.pending() && v.Job.State != job.Ready || v.pending() && until <= v.Job.NextAt {
		return nil
	}
	r := reason(CodeCircuitOpen, says("circuit_open", Params{"endpoint": v.endpoint(), "at": until.RFC3339()}))
	r.Until = until
	return r
}

func endpointRecovering(v *view) *Reason {
	return v.limited(CodeEndpointRecovering, v.EndpointInFlight, rules.CircuitLimit(v.Circuit, &v.carry.FlightLimits, v.Shards, v.Now), Params{"endpoint": v.endpoint()})
}

func endpointLimit(v *view) *Reason {
	if v.pulled() { // its queue is no endpoint
		return nil
	}
	p := Params{"endpoint": v.endpoint()}
	return v.limited(CodeEndpointLimit, v.EndpointInFlight, rules.EndpointLimit(&v.carry.FlightLimits, v.Job.Topic, v.Shards), p, v.line())
}

func topicLimit(v *view) *Reason {
	p := Params{"topic": v.Job.Topic}
	if !v.pulled() {
		p["endpoint"] = v.endpoint()
	}
	r := v.limited(CodeTopicLimit, v.LaneInFlight, rules.TopicLimit(&v.carry.FlightLimits, v.Job.Topic, v.Shards), p, v.line())
	if r != nil && v.pulled() {
		r.Sentences[0].Code = "queue_limit"
	}
	return r
}

func topicConcurrency(v *view) *Reason {
	limit := rules.Share(v.Limits.Concurrency, v.Shard, v.Shards)
	return v.limited(CodeTopicConcurrency, v.TopicInFlight, limit, Params{"topic": v.Job.Topic}, v.line())
}

// limited is the reason that as many jobs are in flight as a limit allows, if they are; 0 is
// no limit. The code is also that of its first sentence.
func (v *view) limited(code string, inFlight int64, limit int, p Params, more ...Sentence) *Reason {
	if !v.carriable() || limit <= 0 || inFlight < int64(limit) {
		return nil
	}
	p["count"], p["limit"] = inFlight, limit
	return v.inShard(reason(code, append([]Sentence{says(code, p)}, more...)...))
}

func topicPaused(v *view) *Reason {
	until := v.Limits.PausedUntil
	switch {
	case !v.Limits.PausedAt(v.Now) || !v.pending() && v.Job.State != job.Ready, v.pending() && until != 0 && until <= v.Job.NextAt:
		return nil
	case until != 0:
		r := reason(CodeTopicPaused, says("topic_paused_until", Params{"topic": v.Job.Topic, "at": until.RFC3339()}))
		r.Until = until
		return r
	}
	return stop(CodeTopicPaused, says("topic_paused", Params{"topic": v.Job.Topic}))
}

func topicRate(v *view) *Reason {
	rate := v.Limits.Rate
	if !v.carriable() || rate == 0 || v.NextByRate == 0 {
		return nil
	}
	ahead := time.Duration(float64(v.Ahead+v.Higher+v.Beside) * float64(time.Second) * float64(v.Shards) / rate)
	r := reason(CodeTopicRate, says("topic_rate", Params{"topic": v.Job.Topic, "rate": rate, "at": v.NextByRate.RFC3339()}), v.line())
	r.from = v.NextByRate.Add(ahead)
	return r
}

func (v *view) endpoint() string { return v.Job.Lane().Endpoint }

// inShard adds that the figures of a reason are those of one shard.
func (v *view) inShard(r *Reason) *Reason {
	if v.Shards > 1 {
		r.Sentences = append(r.Sentences, says("of_shard", nil))
	}
	return r
}

func higherPriority(v *view) *Reason {
	if !v.carriable() || v.Higher == 0 {
		return nil
	}
	return v.inShard(reason(CodeHigherPriority, says("higher_priority", Params{"count": v.Higher})))
}

// line is the job's place in its lane.
func (v *view) line() Sentence {
	switch {
	case v.Ahead > 0 && v.pulled():
		return says("behind_in_queue", Params{"count": v.Ahead})
	case v.Ahead > 0:
		return says("behind", Params{"count": v.Ahead})
	case v.Higher > 0:
		return says("first_of_priority", nil)
	}
	return says("first_in_line", nil)
}

func readyListFull(v *view) *Reason {
	if v.pulled() || !v.carriable() || v.carry.Cap <= 0 || rules.MoreHints(&v.Limits, &v.carry, int(v.TopicReady), int(v.Ready)) > 0 {
		return nil
	}
	return reason(CodeReadyListFull, says("ready_list_full", Params{"count": v.TopicReady}), v.line())
}

func ready(v *view) *Reason {
	if v.Job.State != job.Ready {
		return nil
	}
	if v.pulled() {
		return reason(CodeReady, says("reserved", Params{"at": v.At.RFC3339()}))
	}
	return reason(CodeReady, says("ready", Params{"at": v.At.RFC3339()}), says("ready_list", Params{"count": v.ReadyList}))
}

func inFlight(v *view) *Reason {
	if !v.leased() {
		return nil
	}
	r := stop(CodeInFlight, says(v.or("in_flight", "with_consumer"), Params{"attempt": v.Job.Attempts + 1, "at": v.At.RFC3339()}))
	r.Until = v.At
	return v.leasedBy(r)
}

func leaseExpired(v *view) *Reason {
	if v.Job.State != job.Running || v.leased() {
		return nil
	}
	if v.pulled() {
		return v.leasedBy(reason(CodeLeaseExpired, says("consumer_late", Params{"attempt": v.Job.Attempts + 1, "at": v.At.RFC3339()})))
	}
	expired := says("lease_expired", Params{"at": v.At.RFC3339(), "expiry": job.ExpiredLeasesAfter(v.Job.ExpiredLeases), "limit": job.MaxExpiredLeases})
	return v.leasedBy(reason(CodeLeaseExpired, expired))
}

func quarantined(v *view) *Reason {
	j := &v.Job
	if !v.pending() || j.NextAt <= v.Now || !j.Suspect() {
		return nil
	}
	r := reason(CodeQuarantined, says("quarantined", Params{"expiry": j.ExpiredLeases, "limit": job.MaxExpiredLeases, "at": j.NextAt.RFC3339()}))
	r.Until = j.NextAt
	return r
}

// leasedBy adds the holder of the lease, if it is known.
func (v *view) leasedBy(r *Reason) *Reason {
	if v.Worker != "" {
		r.Node = v.Worker
		r.Sentences = append(r.Sentences, says(v.or("leased_by", "leased_through"), Params{"node": v.Worker}))
	}
	return r
}

func cancelNoted(v *view) *Reason {
	if v.Job.State.Final() || !v.Job.CancelRequested {
		return nil
	}
	return stop(CodeCancelNoted, says("cancel_noted", Params{"attempt": v.Job.Attempts + 1}))
}

// ttlFirst checks whether the job expires before next, the earliest next attempt.
func (v *view) ttlFirst(next job.Instant) *Reason {
	expires := v.Job.ExpiresAt
	if expires == 0 || expires > next {
		return nil
	}
	sentence := "ttl_first"
	switch {
	case expires <= v.Now && (v.Head != nil || v.pulled()):
		sentence = "ttl_in_turn"
	case expires <= v.Now:
		sentence = "ttl_ended"
	}
	r := stop(CodeTTLFirst, says(sentence, Params{"at": expires.RFC3339()}))
	r.Until = expires
	return r
}

func (v *view) carrierBehind() *Reason {
	behind := says("carrier_behind", Params{"since": v.Job.WakeAt().RFC3339(), "at": v.Look.RFC3339()})
	return reason(CodeCarrierBehind, behind, v.line())
}

// awaitsConsumer is the reason of a due job. Nobody knows when a consumer asks for jobs.
func (v *view) awaitsConsumer() *Reason {
	r := reason(CodeAwaitsConsumer, says("awaits_consumer", Params{"since": v.Job.WakeAt().RFC3339(), "topic": v.Job.Topic}), v.line())
	r.timeless = true
	return r
}

// or is the code of a sentence about a delivery, or about a job that consumers fetch.
func (v *view) or(delivery, pulled string) string {
	if v.pulled() {
		return pulled
	}
	return delivery
}

func ended(v *view) *Reason {
	j := &v.Job
	if !j.State.Final() {
		return nil
	}
	by := endedBy(j.Reason)
	if j.Reason == job.ReasonDelivered {
		by = v.or(by, "acknowledged")
	}
	if a := j.LastAttempt; j.Reason == job.ReasonGone && a != nil && a.Status != http.StatusGone { // webhook-delivery: disable
		by = endedBy(job.ReasonAborted)
	}
	code, how := j.Reason, says(by, Params{"attempt": j.Attempts, "outcome": outcome(j.LastAttempt)})
	if _, known := english[how.Code]; !known { // one of another version
		code, how = j.State.String(), says("ended_as", Params{"state": j.State.String()})
	}
	return stop(code, says("ended", Params{"at": j.EndedAt.RFC3339()}), how)
}

func reason(code string, sentences ...Sentence) *Reason {
	return &Reason{Code: code, Sentences: sentences}
}

// stop is a reason during which no attempt is expected.
func stop(code string, sentences ...Sentence) *Reason {
	return &Reason{Code: code, Sentences: sentences, stops: true}
}
