package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/hold"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
)

const now = job.Instant(1_767_258_000_000) // 2026-01-01T09:00:00Z

func in(d time.Duration) job.Instant { return now.Add(d) }

var (
	policy = retrypolicy.Policy{Steps: []time.Duration{time.Minute, time.Hour}, Limit: 2}
	carry  = store.CarryOptions{Cap: 10, FlightLimits: store.FlightLimits{EndpointLimit: 100, HalfOpenLimit: 3, TopicLimits: map[string]int{"slow": 5}}}
)

// waiting is the outlook of a job that is due, with nothing in its way.
func waiting(change ...func(o *store.Outlook)) *store.Outlook {
	o := &store.Outlook{
		Now: now, At: in(-time.Second), Look: in(-time.Second), Shards: 1,
		Job: job.Job{
			Key: job.Key{Topic: "t", ID: "1"}, Spec: job.Spec{Destination: "https://shop.example/hook"},
			CreatedAt: in(-time.Hour), DueAt: in(-time.Second), NextAt: in(-time.Second),
		},
	}
	for _, c := range change {
		c(o)
	}
	return o
}

func due(d time.Duration) func(*store.Outlook) {
	return func(o *store.Outlook) { o.Job.NextAt, o.Job.DueAt, o.At, o.Look = in(d), in(d), in(d), in(d) }
}

// failed: two attempts have, and the next is due as reason says.
func failed(reason string, d time.Duration) func(*store.Outlook) {
	return func(o *store.Outlook) {
		due(d)(o)
		o.Job.State, o.Job.Attempts = job.Retrying, 2
		o.Job.LastAttempt = &job.Attempt{Number: 2, Status: 503, NextAt: o.Job.NextAt, Reason: reason}
	}
}

func running(lease time.Duration) func(*store.Outlook) {
	return func(o *store.Outlook) { o.Job.State, o.At, o.Worker = job.Running, in(lease), "node-7" }
}

func ttl(d time.Duration) func(*store.Outlook) {
	return func(o *store.Outlook) { o.Job.ExpiresAt = in(d) }
}

func held(d time.Duration) func(*store.Outlook) {
	return func(o *store.Outlook) { o.Circuit = store.Circuit{OpenUntil: in(d), HalfOpenUntil: in(2 * d)} }
}

func out(n int64) func(*store.Outlook) {
	return func(o *store.Outlook) { o.EndpointInFlight, o.LaneInFlight = n, n }
}

func limited(l store.Limits) func(*store.Outlook) { return func(o *store.Outlook) { o.Limits = l } }

func topic(name string) func(*store.Outlook) { return func(o *store.Outlook) { o.Job.Topic = name } }

// behind: another job of its order key goes first.
func behind(head job.Job) func(*store.Outlook) {
	return func(o *store.Outlook) {
		o.Job.Spec.OrderKey, o.Head = "k", &head
	}
}

func place(before int64) func(*store.Outlook) { return func(o *store.Outlook) { o.Before = before } }

func pulled(o *store.Outlook) { o.Job.Spec.Destination = job.PullQueue }

func endedFor(state job.State, reason string) func(*store.Outlook) {
	return func(o *store.Outlook) {
		o.Job.State, o.Job.Reason, o.Job.EndedAt, o.Job.Attempts = state, reason, in(-time.Minute), 2
	}
}

func cancelled(o *store.Outlook) { o.Job.CancelRequested = true }

func TestReasons(t *testing.T) {
	type reason struct {
		Code  string
		Until job.Instant
		Node  string
		part  string // of the sentence
	}
	none := job.Instant(0)
	tests := []struct {
		name     string
		o        *store.Outlook
		expected job.Instant
		reasons  []reason
	}{
		{"not due", waiting(due(time.Hour)), in(time.Hour), []reason{{CodeNotDue, in(time.Hour), "", "Attempt 1 is due at 2026-01-01T10:00:00.000Z."}}},
		{
			"no consumer", waiting(pulled, out(100), limited(store.Limits{})), none,
			[]reason{{CodeAwaitsConsumer, none, "", "since 2026-01-01T08:59:59.000Z and waits for a consumer of the topic t to fetch it. It is first in line."}},
		},
		{"not due for consumers", waiting(pulled, due(time.Hour)), in(time.Hour), []reason{{CodeNotDue, in(time.Hour), "", "Attempt 1 is due"}}},
		{
			"when the consumer said", waiting(pulled, failed(job.ReasonRetryAfter, time.Hour)), in(time.Hour),
			[]reason{{CodeNotDue, in(time.Hour), "", "The consumer asked for attempt 3"}},
		},
		{"no consumer until the TTL ended", waiting(pulled, ttl(-time.Second)), none, []reason{
			{CodeTTLFirst, in(-time.Second), "", "It expires when its turn comes."},
		}},
		{
			"with a consumer", waiting(pulled, running(time.Minute)), none,
			[]reason{{CodeInFlight, in(time.Minute), "node-7", "A consumer has it for attempt 1, leased until 2026-01-01T09:01:00.000Z. The consumer fetched it from the node node-7."}},
		},
		{
			"a late consumer", waiting(pulled, running(-time.Second)), now,
			[]reason{{CodeLeaseExpired, none, "node-7", "Attempt 1 counts as failed as soon as a server notices"}},
		},
		{
			"on its way to a consumer", waiting(pulled, func(o *store.Outlook) { o.Job.State, o.At = job.Ready, in(5*time.Second) }), now,
			[]reason{{CodeReady, none, "", "consumers get it from 2026-01-01T09:00:05.000Z on"}},
		},
		{"acknowledged", waiting(pulled, endedFor(job.Delivered, job.ReasonDelivered)), none, []reason{{job.ReasonDelivered, none, "", "A consumer acknowledged attempt 2."}}},
		{"rejected", waiting(pulled, endedFor(job.Dead, job.ReasonRejected)), none, []reason{{job.ReasonRejected, none, "", "The consumer rejected the job for good with attempt 2."}}},
		{
			"by the ladder", waiting(failed(job.ReasonLadder, time.Hour)), in(time.Hour),
			[]reason{{CodeNotDue, in(time.Hour), "", "Attempt 2 failed (http_503). By the retry ladder, attempt 3 is due"}},
		},
		{
			"when the receiver said", waiting(failed(job.ReasonRetryAfter, time.Hour)), in(time.Hour),
			[]reason{{CodeNotDue, in(time.Hour), "", "The receiver asked for attempt 3 at 2026-01-01T10"}},
		},
		{
			"snoozed", waiting(failed(job.ReasonSnoozed, time.Hour)), in(time.Hour),
			[]reason{{CodeNotDue, in(time.Hour), "", "no attempt was used"}},
		},
		{
			"a client moved the retry", waiting(failed(job.ReasonLadder, time.Hour), due(time.Minute)), in(time.Minute),
			[]reason{{CodeNotDue, in(time.Minute), "", "Attempt 3 is due at"}},
		},
		{
			"the circuit is open", waiting(held(time.Minute)), in(time.Minute),
			[]reason{{CodeCircuitOpen, in(time.Minute), "", "circuit of https://shop.example:443"}},
		},
		{"held for longer than it waits", waiting(due(time.Second), held(time.Minute)), in(time.Minute), []reason{
			{CodeNotDue, in(time.Second), "", "is due"}, {CodeCircuitOpen, in(time.Minute), "", "is open until 2026-01-01T09:01"},
		}},
		{"held for less long", waiting(due(time.Hour), held(time.Minute)), in(time.Hour), []reason{{CodeNotDue, in(time.Hour), "", "is due"}}},
		{"held, but not full", waiting(held(time.Minute), out(100)), in(time.Minute), []reason{{CodeCircuitOpen, in(time.Minute), "", ""}}},
		{
			"probed", waiting(func(o *store.Outlook) { o.Circuit.HalfOpenUntil = in(time.Minute) }, out(3)), now,
			[]reason{{CodeEndpointRecovering, none, "", "at most 3 of its jobs are in flight; now 3 are"}},
		},
		{"probed, with a place", waiting(func(o *store.Outlook) { o.Circuit.HalfOpenUntil = in(time.Minute) }, out(2)), now, []reason{{Code: CodeCarrierBehind}}},
		{
			"ramping up", waiting(func(o *store.Outlook) { o.Circuit.RampFrom = in(-2500 * time.Millisecond) }, out(12)), now,
			[]reason{{CodeEndpointRecovering, none, "", "at most 12 of its jobs are in flight; now 12 are"}},
		},
		{"ramping up, with a place", waiting(func(o *store.Outlook) { o.Circuit.RampFrom = in(-2500 * time.Millisecond) }, out(11)), now, []reason{{Code: CodeCarrierBehind}}},
		{
			"behind a job in flight", waiting(behind(job.Job{Key: job.Key{ID: "0"}, State: job.Running})), now,
			[]reason{{CodeOrderKey, none, "", "waits for the job 0 of its order key k, which is in flight"}},
		},
		{
			"behind a retry", waiting(behind(job.Job{Key: job.Key{ID: "0"}, NextAt: in(time.Hour)})), in(time.Hour),
			[]reason{{CodeOrderKey, none, "", "the job 0 of its order key k, whose next attempt is at 2026-01-01T10"}},
		},
		{
			"two behind a retry", waiting(behind(job.Job{Key: job.Key{ID: "0"}, NextAt: in(time.Hour)}), place(3)), none,
			[]reason{{CodeOrderKey, none, "", "3 jobs of its order key k go before it, so the time"}},
		},
		{
			"a dead letter, with others before it", waiting(behind(job.Job{Key: job.Key{ID: "0"}, State: job.Dead}), place(2)), none,
			[]reason{{CodeOrderKey, none, "", "2 jobs of its order key"}},
		},
		{
			"behind a dead letter", waiting(behind(job.Job{Key: job.Key{ID: "0"}, State: job.Dead})), none,
			[]reason{{CodeOrderKey, none, "", "dead letter 0 stops its order key k"}},
		},
		{
			"expired before its turn", waiting(behind(job.Job{Key: job.Key{ID: "0"}, State: job.Running}), ttl(-time.Minute)), none,
			[]reason{{CodeOrderKey, none, "", "in flight"}, {CodeTTLFirst, in(-time.Minute), "", "It expires when its turn comes."}},
		},
		{"the endpoint is full", waiting(out(100), func(o *store.Outlook) { o.Ahead = 1 }), now, []reason{
			{CodeEndpointLimit, none, "", "100 jobs of https://shop.example:443 are in flight; the limit is 100. 1 job of"},
		}},
		{"a shard's part of it is", waiting(out(34), func(o *store.Outlook) { o.Shards = 3 }), now, []reason{{CodeEndpointLimit, none, "", "in flight; the limit is 34. It is first in line. These figures are for its shard."}}},
		{"full, but not due", waiting(due(time.Hour), out(100)), in(time.Hour), []reason{{Code: CodeNotDue, Until: in(time.Hour)}}},
		{"the topic is full", waiting(topic("slow"), out(5)), now, []reason{{CodeTopicLimit, none, "", "5 jobs of the topic slow"}}},
		{"the pull queue is full", waiting(topic("slow"), pulled, out(5), func(o *store.Outlook) { o.Ahead = 2 }), now, []reason{
			{CodeTopicLimit, none, "", "5 jobs of the pull queue of the topic slow are in flight; the limit is 5. 2 jobs of its pull queue were due before it."},
		}},
		{
			"the topic is paused", waiting(limited(store.Limits{Paused: true})), none,
			[]reason{{CodeTopicPaused, none, "", "The topic t is paused."}},
		},
		{
			"the topic is paused until a time", waiting(limited(store.Limits{Paused: true, PausedUntil: in(time.Hour)})), in(time.Hour),
			[]reason{{CodeTopicPaused, in(time.Hour), "", "The topic t is paused until"}},
		},
		{"the pause was until now", waiting(limited(store.Limits{Paused: true, PausedUntil: now})), now, []reason{{Code: CodeCarrierBehind}}},
		{"paused before it is due", waiting(due(time.Hour), limited(store.Limits{Paused: true})), none, []reason{
			{Code: CodeNotDue, Until: in(time.Hour)}, {Code: CodeTopicPaused},
		}},
		{"paused in flight", waiting(running(20*time.Second), limited(store.Limits{Paused: true})), none, []reason{
			{Code: CodeInFlight, Until: in(20 * time.Second), Node: "node-7"},
		}},
		{
			"by the topic's rate",
			waiting(limited(store.Limits{Rate: 0.5}), func(o *store.Outlook) { o.NextByRate, o.Ahead = in(time.Second), 3 }),
			in(7 * time.Second),
			[]reason{{CodeTopicRate, none, "", "limited to 0.5 deliveries per second; the next one is at 2026-01-01T09:00:01.000Z. 3 jobs"}},
		},
		{"the rate lets it go", waiting(limited(store.Limits{Rate: 0.5})), now, []reason{{Code: CodeCarrierBehind}}},
		{
			"the topic's concurrency", waiting(limited(store.Limits{Concurrency: 3}), func(o *store.Outlook) { o.TopicInFlight = 3 }), now,
			[]reason{{CodeTopicConcurrency, none, "", "3 jobs of the topic t are in flight; the limit is 3."}},
		},
		{
			"a shard's share of it", waiting(limited(store.Limits{Concurrency: 5}), func(o *store.Outlook) { o.TopicInFlight, o.Shard, o.Shards = 1, 3, 4 }), now,
			[]reason{{CodeTopicConcurrency, none, "", "1 job of the topic t is in flight; the limit is 1. It is first in line. These figures are for its shard."}},
		},
		{
			"the share of a shard that has one more", waiting(limited(store.Limits{Concurrency: 5}), func(o *store.Outlook) { o.TopicInFlight, o.Shard, o.Shards = 1, 0, 4 }), now,
			[]reason{{Code: CodeCarrierBehind}},
		},
		{
			"a place of the topic", waiting(limited(store.Limits{Concurrency: 3}), func(o *store.Outlook) { o.TopicInFlight = 2 }), now,
			[]reason{{Code: CodeCarrierBehind}},
		},
		{
			"jobs go first", waiting(limited(store.Limits{Concurrency: 3}), func(o *store.Outlook) { o.TopicInFlight, o.Higher = 3, 2 }), now,
			[]reason{
				{CodeTopicConcurrency, none, "", "It is first in line among the jobs of its priority."},
				{CodeHigherPriority, none, "", "2 due jobs of its topic have a higher priority and go first."},
			},
		},
		{
			"a job goes first by the rate",
			waiting(limited(store.Limits{Rate: 1}), func(o *store.Outlook) { o.NextByRate, o.Ahead, o.Higher, o.Shards = in(time.Second), 1, 1, 2 }),
			in(5 * time.Second),
			[]reason{{CodeTopicRate, none, "", "1 job of its topic and endpoint"}, {CodeHigherPriority, none, "", "1 due job of its topic has a higher priority and goes first. These figures are"}},
		},
		{
			"jobs for other endpoints take turns by the rate",
			waiting(limited(store.Limits{Rate: 1}), func(o *store.Outlook) { o.NextByRate, o.Ahead, o.Beside = in(time.Second), 1, 3 }),
			in(5 * time.Second),
			[]reason{{CodeTopicRate, none, "", "1 job of its topic and endpoint"}},
		},
		{"jobs go first, but it is not due", waiting(due(time.Hour), func(o *store.Outlook) { o.Higher = 2 }), in(time.Hour), []reason{{Code: CodeNotDue, Until: in(time.Hour)}}},
		{
			"its topic has as many hints as it may", waiting(func(o *store.Outlook) { o.TopicReady, o.Ready, o.Ahead = 7, 13, 17 }), now,
			[]reason{{CodeReadyListFull, none, "", "17 jobs of its topic and endpoint were due before it"}},
		},
		{"ready", waiting(func(o *store.Outlook) { o.Job.State, o.At, o.ReadyList = job.Ready, in(15*time.Second), 4 }), now, []reason{
			{CodeReady, none, "", "If none takes it by 2026-01-01T09:00:15.000Z, it is put on the ready list again. The ready list holds 4 hints."},
		}},
		{"ready, and held since", waiting(held(time.Minute), func(o *store.Outlook) { o.Job.State, o.At = job.Ready, in(15*time.Second) }), in(time.Minute), []reason{
			{Code: CodeCircuitOpen, Until: in(time.Minute)}, {Code: CodeReady},
		}},
		{
			"in flight", waiting(running(20 * time.Second)), none,
			[]reason{{CodeInFlight, in(20 * time.Second), "node-7", "Attempt 1 is in flight, leased until 2026-01-01T09:00:20.000Z. Node node-7 holds the lease."}},
		},
		{"in flight, the TTL passed", waiting(running(20*time.Second), ttl(-1)), none, []reason{{CodeInFlight, in(20 * time.Second), "node-7", ""}}},
		{
			"in flight somewhere", waiting(running(20*time.Second), func(o *store.Outlook) { o.Worker = "" }), none,
			[]reason{{CodeInFlight, in(20 * time.Second), "", "leased until 2026-01-01T09:00:20.000Z."}},
		},
		{"cancelled in flight", waiting(running(20*time.Second), cancelled), none, []reason{
			{CodeCancelNoted, none, "", "attempt 1 was in flight"}, {Code: CodeInFlight, Until: in(20 * time.Second), Node: "node-7"},
		}},
		{
			"a lease expired", waiting(running(-time.Second), func(o *store.Outlook) { o.Job.ExpiredLeases = 2 }), now,
			[]reason{{CodeLeaseExpired, none, "node-7", "expiry 3 of at most 27"}},
		},
		{
			"a suspect's lease expired", waiting(running(-time.Second), func(o *store.Outlook) { o.Job.ExpiredLeases = 23 }), now,
			[]reason{{CodeLeaseExpired, none, "node-7", "expiry 23 of at most 27"}},
		},
		{
			"a suspect waits", waiting(due(time.Hour), func(o *store.Outlook) { o.Job.ExpiredLeases = 20 }), in(time.Hour),
			[]reason{{CodeQuarantined, in(time.Hour), "", "expired 20 times in a row without an outcome"}},
		},
		{
			"the TTL ends first", waiting(due(time.Hour), ttl(time.Minute)), none,
			[]reason{{Code: CodeNotDue, Until: in(time.Hour)}, {CodeTTLFirst, in(time.Minute), "", "it will expire"}},
		},
		{
			"the TTL ends before the hold", waiting(held(time.Hour), ttl(time.Minute)), none,
			[]reason{{Code: CodeCircuitOpen, Until: in(time.Hour)}, {Code: CodeTTLFirst, Until: in(time.Minute)}},
		},
		{"the TTL has ended", waiting(ttl(-time.Minute)), none, []reason{{CodeTTLFirst, in(-time.Minute), "", "It expires when"}}},
		{"nothing keeps it", waiting(), now, []reason{
			{CodeCarrierBehind, none, "", "due since 2026-01-01T08:59:59.000Z and waits for the carrier, which next looks"},
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := Job(tc.o, nil, policy, carry)
			var got []reason
			for i, r := range e.Reasons {
				detail := r.Detail()
				if i < len(tc.reasons) && !strings.Contains(detail, tc.reasons[i].part) {
					t.Errorf("%q does not say %q", detail, tc.reasons[i].part)
				}
				if detail == "" || strings.ContainsAny(detail, "{}") {
					t.Errorf("%s: a sentence lacks its words or a parameter: %q", r.Code, detail)
				}
				got = append(got, reason{Code: r.Code, Until: r.Until, Node: r.Node})
			}
			if diff := cmp.Diff(tc.reasons, got, cmpopts.IgnoreUnexported(reason{})); diff != "" {
				t.Error(diff)
			}
			if e.Expected != tc.expected {
				t.Errorf("expected at %d, want %d", e.Expected, tc.expected)
			}
		})
	}
}

func TestEnded(t *testing.T) {
	for reason, want := range map[string]string{
		job.ReasonDelivered:    "The receiver accepted attempt 3 (http_200).",
		job.ReasonFinished:     "A client ended it as delivered.",
		job.ReasonRetryLimit:   "Attempt 3, the last one, failed (timeout).",
		job.ReasonGone:         "answered attempt 3 with 410",
		job.ReasonAborted:      "rejected the job for good with attempt 3",
		job.ReasonBlocked:      "guard of this server refuses its destination",
		job.ReasonLeaseExpired: "Its lease expired many times in a row",
		job.ReasonTTL:          "Its TTL ended",
		job.ReasonCancelled:    "A client cancelled it.",
		job.ReasonSuperseded:   "The callback of a later attempt took its place before it was delivered.",
		job.ReasonDiscarded:    "A client discarded this dead letter. A replay restores it.",
	} {
		o := waiting(func(o *store.Outlook) {
			o.At, o.Look = 0, 0
			o.Job.ExpiresAt = in(time.Hour)
			o.Job.State, o.Job.Reason, o.Job.EndedAt, o.Job.Attempts = job.Dead, reason, now, 3
			o.Job.LastAttempt = &job.Attempt{Number: 3, Status: 200}
			switch reason {
			case job.ReasonRetryLimit:
				o.Job.LastAttempt.Error = "timeout"
			case job.ReasonGone:
				o.Job.LastAttempt.Status = 410
			}
		})
		if reason == job.ReasonGone {
			disabled := *o
			disabled.Job.LastAttempt = &job.Attempt{Number: 3, Status: 400, Error: "http_400"}
			if detail := Job(&disabled, nil, policy, carry).Reasons[0].Detail(); !strings.Contains(detail, "rejected the job for good with attempt 3 (http_400)") {
				t.Errorf("webhook-delivery: disable is explained by %q", detail)
			}
		}
		e := Job(o, nil, policy, carry)
		if len(e.Reasons) != 1 || e.Reasons[0].Code != reason || e.Expected != 0 {
			t.Errorf("%s: %+v", reason, e)
		}
		if detail := e.Reasons[0].Detail(); !strings.Contains(detail, want) || !strings.HasPrefix(detail, "It ended at 2026-01-01T09:00:00.000Z. ") || strings.Contains(detail, "{") {
			t.Errorf("%s: %q does not say %q", reason, detail, want)
		}
		if diff := cmp.Diff(retrypolicy.Forecast{}, e.Forecast); diff != "" || e.Expires != 0 {
			t.Errorf("%s: it expires at %d, and what follows: %s", reason, e.Expires, diff)
		}
	}
	o := waiting(func(o *store.Outlook) { o.Job.State, o.Job.EndedAt = job.Cancelled, now })
	if r := Job(o, nil, policy, carry).Reasons[0]; r.Code != "cancelled" || !strings.HasSuffix(r.Detail(), "It is cancelled.") {
		t.Errorf("ended without a reason: %+v", r)
	}
}

func TestForecast(t *testing.T) {
	window := func(from, to time.Duration) retrypolicy.Window {
		return retrypolicy.Window{Earliest: in(from), Latest: in(to)}
	}
	exactly := func(n int, d time.Duration) retrypolicy.Planned {
		return retrypolicy.Planned{Number: n, Window: window(d, d)}
	}
	dead := func(from, to time.Duration) *retrypolicy.Window { w := window(from, to); return &w }
	own := &job.Retry{Steps: []time.Duration{time.Second}}
	tests := []struct {
		name string
		o    *store.Outlook
		want retrypolicy.Forecast
	}{
		{"not due", waiting(due(time.Hour)), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{exactly(1, time.Hour), exactly(2, time.Hour+time.Minute), exactly(3, 2*time.Hour+time.Minute)},
			Dead:     dead(2*time.Hour+time.Minute, 2*time.Hour+time.Minute),
		}},
		{"its own ladder", waiting(func(o *store.Outlook) { o.Job.Spec.Retry = own }), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{exactly(1, 0), exactly(2, time.Second)}, Dead: dead(time.Second, time.Second),
		}},
		{"held", waiting(failed(job.ReasonLadder, -time.Second), held(time.Minute)), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{exactly(3, time.Minute)}, Dead: dead(time.Minute, time.Minute),
		}},
		{"in flight", waiting(running(20*time.Second), func(o *store.Outlook) { o.Job.Attempts = 1 }), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{{Number: 3, Window: window(time.Hour, time.Hour+20*time.Second)}},
			Dead:     dead(time.Hour, time.Hour+20*time.Second),
		}},
		{"the last attempt in flight", waiting(running(20*time.Second), func(o *store.Outlook) { o.Job.Attempts = 2 }), retrypolicy.Forecast{
			Dead: dead(0, 20*time.Second),
		}},
		{"a lease expired", waiting(running(-time.Second), func(o *store.Outlook) { o.Job.Attempts = 2 }), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{exactly(3, 0)}, Dead: dead(0, 0),
		}},
		{"cancelled in flight", waiting(running(20*time.Second), cancelled), retrypolicy.Forecast{}},
		{"cancelled, and the lease expired", waiting(running(-time.Second), cancelled), retrypolicy.Forecast{}},
		{"expires between", waiting(ttl(time.Second)), retrypolicy.Forecast{Attempts: []retrypolicy.Planned{exactly(1, 0)}}},
		{"expires before", waiting(due(time.Hour), ttl(time.Second)), retrypolicy.Forecast{}},
		{"behind a retry of its order key", waiting(behind(job.Job{NextAt: in(time.Hour)}), func(o *store.Outlook) { o.Job.Spec.Retry = own }), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{exactly(1, time.Hour), exactly(2, time.Hour+time.Second)}, Dead: dead(time.Hour+time.Second, time.Hour+time.Second),
		}},
		{"behind a dead letter of its order key", waiting(behind(job.Job{State: job.Dead}), ttl(time.Hour)), retrypolicy.Forecast{}},
		{"in a paused topic", waiting(limited(store.Limits{Paused: true})), retrypolicy.Forecast{}},
		{"in flight in a paused topic", waiting(running(20*time.Second), limited(store.Limits{Paused: true}), func(o *store.Outlook) { o.Job.Attempts = 2 }), retrypolicy.Forecast{
			Dead: dead(0, 20*time.Second),
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := Job(tc.o, nil, policy, carry)
			if diff := cmp.Diff(tc.want, e.Forecast); diff != "" {
				t.Error(diff)
			}
			if e.Expires != tc.o.Job.ExpiresAt {
				t.Errorf("it expires at %d, want %d", e.Expires, tc.o.Job.ExpiresAt)
			}
		})
	}
}

// Without limits nothing is full.
func TestNoLimits(t *testing.T) {
	o := waiting(out(1000), func(o *store.Outlook) { o.TopicReady, o.Ready, o.Circuit.HalfOpenUntil = 1000, 1000, in(time.Hour) })
	if e := Job(o, nil, policy, store.CarryOptions{}); len(e.Reasons) != 1 || e.Reasons[0].Code != CodeCarrierBehind {
		t.Errorf("%+v", e)
	}
}

// A hold of the store concerns each job that a node would have to take.
func TestHolds(t *testing.T) {
	started, imports := &hold.Held{Since: in(-time.Hour)}, &hold.Held{Import: true}
	const resume, again = "with --start-paused at 2026-01-01T08:00:00.000Z. The jobs of all topics are held until an operator runs duehook resume.", "until duehook import has run again"
	ready := func(o *store.Outlook) { o.Job.State, o.At = job.Ready, in(15*time.Second) }
	for name, tc := range map[string]struct {
		o     *store.Outlook
		held  *hold.Held
		codes []string
		says  []string // of the hold
	}{
		"due":                 {waiting(), started, []string{CodeDeliveriesHeld}, []string{resume}},
		"due, for consumers":  {waiting(pulled), started, []string{CodeDeliveriesHeld}, []string{resume}},
		"not due":             {waiting(due(time.Hour)), started, []string{CodeNotDue, CodeDeliveriesHeld}, []string{resume}},
		"ready":               {waiting(ready), started, []string{CodeDeliveriesHeld, CodeReady}, []string{resume}},
		"lease expired":       {waiting(running(-time.Second)), started, []string{CodeLeaseExpired, CodeDeliveriesHeld}, []string{resume}},
		"in a paused topic":   {waiting(limited(store.Limits{Paused: true})), started, []string{CodeDeliveriesHeld, CodeTopicPaused}, []string{resume}},
		"by an import":        {waiting(), imports, []string{CodeDeliveriesHeld}, []string{again}},
		"by both":             {waiting(), &hold.Held{Import: true, Since: in(-time.Hour)}, []string{CodeDeliveriesHeld}, []string{resume, again}},
		"by an unknown start": {waiting(), &hold.Held{}, []string{CodeDeliveriesHeld}, []string{"--start-paused"}},
		"in flight":           {waiting(running(time.Minute)), started, []string{CodeInFlight}, nil},
		"ended":               {waiting(endedFor(job.Delivered, job.ReasonDelivered)), started, []string{job.ReasonDelivered}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := Job(tc.o, tc.held, policy, carry)
			var codes []string
			var detail string
			for _, r := range e.Reasons {
				codes = append(codes, r.Code)
				if r.Code == CodeDeliveriesHeld {
					detail = r.Detail()
				}
			}
			if diff := cmp.Diff(tc.codes, codes); diff != "" {
				t.Error(diff)
			}
			for _, part := range tc.says {
				if !strings.Contains(detail, part) {
					t.Errorf("%q does not say %q", detail, part)
				}
			}
			if e.Expected != 0 || tc.says != nil && len(e.Forecast.Attempts) > 0 {
				t.Errorf("expected at %d, with the forecast %v", e.Expected, e.Forecast)
			}
		})
	}
}
