package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/duehook/duehook/job"
)

// at writes a time as the API does.

// failure is what the last attempt came to.
func failure(a *job.Attempt) string {
	switch {
	case a == nil:
		return "no outcome is kept"
	case a.Error != "":
		return a.Error
	}
	return fmt.Sprintf("status %d", a.Status)
}

func notDue(v *view) *Reason {
	j := &v.Job
	if !v.pending() || j.NextAt <= v.Now {
		return nil
	}
	r := &Reason{Code: CodeNotDue, Until: j.NextAt, Detail: fmt.Sprintf("Attempt %d is due at %s.", j.Attempts+1, j.NextAt.RFC3339())}
	last := j.LastAttempt
	if last == nil || last.NextAt != j.NextAt { // it was rescheduled, or released
		return r
	}
	switch last.Reason {
	case job.ReasonLadder:
		r.Detail = fmt.Sprintf("Attempt %d failed (%s). By the retry ladder, attempt %d is due at %s.",
			last.Number, failure(last), j.Attempts+1, j.NextAt.RFC3339())
	case job.ReasonRetryAfter:
		r.Detail = fmt.Sprintf("Attempt %d failed (%s), and the receiver asked for the next one at %s.",
			last.Number, failure(last), j.NextAt.RFC3339())
	case job.ReasonSnoozed:
		r.Detail = fmt.Sprintf("The receiver asked to be asked again at %s; no attempt was used.", j.NextAt.RFC3339())
	}
	return r
}

// endpointHeld: only a hold that outlasts what the job waits for keeps it.
func endpointHeld(v *view) *Reason {
	held := v.Gate.HeldUntil
	if held == 0 || !v.pending() && v.Job.State != job.Ready || v.pending() && held <= v.Job.NextAt {
		return nil
	}
	return &Reason{Code: CodeEndpointHeld, Until: held, Detail: fmt.Sprintf(
		"%s has failed too often and is held until %s.", v.endpoint(), held.RFC3339())}
}

func endpointRecovering(v *view) *Reason {
	limit := v.part(v.carry.ProbeLimit)
	switch {
	case !v.carriable():
		return nil
	case v.Gate.ProbedUntil != 0:
	case v.Gate.RampFrom != 0:
		limit <<= v.Now.Sub(v.Gate.RampFrom) / time.Second
	default:
		return nil
	}
	if limit == 0 || v.EndpointOut < limit {
		return nil
	}
	return &Reason{Code: CodeEndpointRecovering, Detail: fmt.Sprintf(
		"%s was held. Until it has shown that it works, few of its jobs go out at once: %d are under way%s, %d may be.",
		v.endpoint(), v.EndpointOut, v.inShard(), limit)}
}

func endpointLimit(v *view) *Reason {
	limit := max(v.part(v.carry.EndpointLimit), v.topicLimit())
	if !v.carriable() || v.carry.EndpointLimit <= 0 || v.EndpointOut < limit {
		return nil
	}
	return &Reason{Code: CodeEndpointLimit, Detail: fmt.Sprintf(
		"%d jobs of %s are under way%s, and no more than %d may be. %s", v.EndpointOut, v.endpoint(), v.inShard(), limit, v.line())}
}

func topicLimit(v *view) *Reason {
	limit := v.topicLimit()
	if !v.carriable() || limit <= 0 || v.LaneOut < limit {
		return nil
	}
	return &Reason{Code: CodeTopicLimit, Detail: fmt.Sprintf(
		"%d jobs of the topic %s are under way at %s%s, and no more than %d may be. %s",
		v.LaneOut, v.Job.Topic, v.endpoint(), v.inShard(), limit, v.line())}
}

func topicPaused(v *view) *Reason {
	if !v.Limits.Paused || !v.pending() && v.Job.State != job.Ready {
		return nil
	}
	return &Reason{Code: CodeTopicPaused, stops: true, Detail: fmt.Sprintf(
		"The topic %s is paused. Nothing of it is delivered until somebody resumes it.", v.Job.Topic)}
}

func topicRate(v *view) *Reason {
	rate := v.Limits.Rate
	if !v.carriable() || rate == 0 || v.NextToken == 0 {
		return nil
	}
	ahead := time.Duration(float64(v.Ahead+v.Higher) * float64(time.Second) * float64(max(v.Shards, 1)) / rate)
	return &Reason{Code: CodeTopicRate, from: v.NextToken.Add(ahead), Detail: fmt.Sprintf(
		"The topic %s may have %v deliveries per second; the next is at %s. %s", v.Job.Topic, rate, v.NextToken.RFC3339(), v.line())}
}

func topicConcurrency(v *view) *Reason {
	limit := v.part(v.Limits.Concurrency)
	if !v.carriable() || limit == 0 || v.TopicOut < limit {
		return nil
	}
	return &Reason{Code: CodeTopicConcurrency, Detail: fmt.Sprintf(
		"%d jobs of the topic %s are under way%s, and no more than %d may be. %s",
		v.TopicOut, v.Job.Topic, v.inShard(), limit, v.line())}
}

func (v *view) topicLimit() int64 { return v.part(v.carry.TopicLimits[v.Job.Topic]) }

func (v *view) endpoint() string { return v.Job.Lane().Endpoint }

// inShard says that a figure is not of the whole store.
func (v *view) inShard() string {
	if v.Shards > 1 {
		return " in its shard"
	}
	return ""
}

func higherPriority(v *view) *Reason {
	if !v.carriable() || v.Higher == 0 {
		return nil
	}
	detail := fmt.Sprintf("%d jobs of its topic%s have a higher priority and are due, too: they go first.", v.Higher, v.inShard())
	if v.Higher == 1 {
		detail = fmt.Sprintf("1 job of its topic%s has a higher priority and is due, too: it goes first.", v.inShard())
	}
	return &Reason{Code: CodeHigherPriority, Detail: detail}
}

// line tells the job's place in its lane.
func (v *view) line() string {
	switch v.Ahead {
	case 0:
		if v.Higher > 0 {
			return "Of its priority it is the first in line."
		}
		return "It is the first in line."
	case 1:
		return "1 job of its topic and endpoint was due before it."
	}
	return fmt.Sprintf("%d jobs of its topic and endpoint were due before it.", v.Ahead)
}

func readyListFull(v *view) *Reason {
	if !v.carriable() || v.carry.Cap <= 0 || v.ReadyList < int64(v.carry.Cap) {
		return nil
	}
	return &Reason{Code: CodeReadyListFull, Detail: fmt.Sprintf(
		"The ready list holds %d hints, as many as it may: dispatchers take jobs more slowly than they come due. %s",
		v.ReadyList, v.line())}
}

func ready(v *view) *Reason {
	if v.Job.State != job.Ready {
		return nil
	}
	return &Reason{Code: CodeReady, Detail: fmt.Sprintf(
		"It waits for a dispatcher with a free worker; the ready list holds %d hints. If none takes it by %s, it is put there again.",
		v.ReadyList, v.At.RFC3339())}
}

func inFlight(v *view) *Reason {
	if !v.leased() {
		return nil
	}
	return &Reason{Code: CodeInFlight, Until: v.At, Node: v.Worker, stops: true, Detail: fmt.Sprintf(
		"Attempt %d is under way, leased by %s until %s.", v.Job.Attempts+1, v.node(), v.At.RFC3339())}
}

func leaseLapsed(v *view) *Reason {
	if v.Job.State != job.Running || v.leased() {
		return nil
	}
	return &Reason{Code: CodeLeaseLapsed, Node: v.Worker, Detail: fmt.Sprintf(
		"The lease of %s ended at %s without an outcome: it has stopped, hangs or is cut off. Another is to take the job; no attempt is used. This is lapse %d of at most %d in a row.",
		v.node(), v.At.RFC3339(), v.Job.Lapses+1, job.MaxLapses)}
}

func (v *view) node() string {
	if v.Worker == "" {
		return "a node"
	}
	return "node " + v.Worker
}

func cancelNoted(v *view) *Reason {
	if v.Job.State.Final() || !v.Job.CancelRequested {
		return nil
	}
	return &Reason{Code: CodeCancelNoted, stops: true, Detail: fmt.Sprintf(
		"A cancel met attempt %d in flight. If that does not deliver it, the job ends as cancelled; no attempt follows.", v.Job.Attempts+1)}
}

// ttlFirst: next is when the next attempt could come.
func (v *view) ttlFirst(next job.Instant) *Reason {
	expires := v.Job.ExpiresAt
	if expires == 0 || expires > next {
		return nil
	}
	r := &Reason{Code: CodeTTLFirst, stops: true, Until: expires}
	if expires <= v.Now {
		r.Detail = fmt.Sprintf("Its TTL ended at %s: when it is taken next, it ends as expired.", expires.RFC3339())
	} else {
		r.Detail = fmt.Sprintf("Its TTL ends at %s, before its next attempt: it is going to expire.", expires.RFC3339())
	}
	return r
}

func (v *view) carrierBehind() *Reason {
	return &Reason{Code: CodeCarrierBehind, Detail: fmt.Sprintf(
		"It has been due since %s and is to be carried; carriers are next to look at its topic and endpoint at %s. %s",
		v.Job.WakeAt().RFC3339(), v.Look.RFC3339(), v.line())}
}

// endings are sentences on how jobs end, by reason; %n is the last attempt's
// number, %f what it came to.
var endings = map[string]string{
	job.ReasonDelivered:  "The receiver took it with attempt %n (%f).",
	job.ReasonRetryLimit: "Attempt %n, the last one, failed (%f). It is kept as a dead letter.",
	job.ReasonGone:       "The receiver answered attempt %n with 410: it wants no more of it. It is kept as a dead letter.",
	job.ReasonAborted:    "The receiver refused it for good with attempt %n (%f). It is kept as a dead letter.",
	job.ReasonBlocked:    "Deliveries to its address are refused by this server's guard. It is kept as a dead letter.",
	job.ReasonLapsed:     "Ten nodes in a row took it and gave no outcome. It is kept as a dead letter.",
	job.ReasonTTL:        "Its TTL ended before it was delivered.",
	job.ReasonCancelled:  "A client cancelled it.",
}

func ended(v *view) *Reason {
	j := &v.Job
	if !j.State.Final() {
		return nil
	}
	code, sentence := j.Reason, endings[j.Reason]
	if sentence == "" { // one of another version
		code, sentence = j.State.String(), "It is "+j.State.String()+"."
	}
	sentence = strings.NewReplacer("%n", fmt.Sprint(j.Attempts), "%f", failure(j.LastAttempt)).Replace(sentence)
	return &Reason{Code: code, stops: true, Detail: "It ended at " + j.EndedAt.RFC3339() + ". " + sentence}
}
