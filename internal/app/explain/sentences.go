package explain

import (
	"fmt"
	"strings"

	"github.com/duehook/duehook/internal/job"
)

// Sentence is a part of the explanation of a reason. String returns it in
// English; Code and Params serve translations.
type Sentence struct {
	// Code is a key of english.
	Code   string
	Params Params
}

// Params are the parameters of a sentence by name: strings and numbers. Times
// have the API's format. outcome is the error of an attempt, its status such as
// http_200, or unknown.
type Params map[string]any

func says(code string, p Params) Sentence { return Sentence{Code: code, Params: p} }

// wording is a sentence with its parameters in braces. one replaces many for a
// count of 1; empty if the two do not differ.
type wording struct{ many, one string }

// english is every sentence by code. The dashboard has the same texts, see
// TestTheDashboardKnowsEverySentence.
var english = map[string]wording{
	"attempt_due":     {many: "Attempt {attempt} is due at {at}."},
	"attempt_failed":  {many: "Attempt {attempt} failed ({outcome})."},
	"due_by_ladder":   {many: "By the retry ladder, attempt {attempt} is due at {at}."},
	"due_by_receiver": {many: "The receiver asked for attempt {attempt} at {at}."},
	"due_by_consumer": {many: "The consumer asked for attempt {attempt} at {at}."},
	"snoozed":         {many: "The receiver snoozed the job until {at}; no attempt was used."},
	"count_or_deadline": {
		many: "It waits for {count} more counts or its deadline, {at}.",
		one:  "It waits for 1 more count or its deadline, {at}.",
	},
	"count_before_deadline": {
		many: "It waits for {count} more counts. Without them it expires at its deadline, {at}.",
		one:  "It waits for 1 more count. Without it, it expires at its deadline, {at}.",
	},
	"held_since_start": {many: "A node was started with --start-paused at {since}. The jobs of all topics are held until an operator runs duehook resume."},
	"held_by_import":   {many: "An import into the store has not ended. The jobs of all topics are held until duehook import has run again with the same file."},
	"circuit_open":     {many: "The circuit of {endpoint} is open until {at}: too many attempts in a row failed."},
	"endpoint_recovering": {many: "The circuit of {endpoint} was open. Until the endpoint has recovered, at most " +
		"{limit} of its jobs are in flight; now {count} are."},
	"endpoint_limit": {
		many: "{count} jobs of {endpoint} are in flight; the limit is {limit}.",
		one:  "1 job of {endpoint} is in flight; the limit is {limit}.",
	},
	"topic_limit": {
		many: "{count} jobs of the topic {topic} are in flight at {endpoint}; the limit is {limit}.",
		one:  "1 job of the topic {topic} is in flight at {endpoint}; the limit is {limit}.",
	},
	"queue_limit": {
		many: "{count} jobs of the pull queue of the topic {topic} are in flight; the limit is {limit}.",
		one:  "1 job of the pull queue of the topic {topic} is in flight; the limit is {limit}.",
	},
	"topic_paused_until": {many: "The topic {topic} is paused until {at}. None of its jobs is delivered before."},
	"topic_paused":       {many: "The topic {topic} is paused. None of its jobs is delivered until somebody resumes it."},
	"topic_rate":         {many: "The topic {topic} is limited to {rate} deliveries per second; the next one is at {at}."},
	"topic_concurrency": {
		many: "{count} jobs of the topic {topic} are in flight; the limit is {limit}.",
		one:  "1 job of the topic {topic} is in flight; the limit is {limit}.",
	},
	"higher_priority": {
		many: "{count} due jobs of its topic have a higher priority and go first.",
		one:  "1 due job of its topic has a higher priority and goes first.",
	},
	"order_key_in_flight": {many: "It waits for the job {job} of its order key {key}, which is in flight."},
	"order_key_waits":     {many: "It waits for the job {job} of its order key {key}, whose next attempt is at {at}."},
	"order_key_behind":    {many: "{count} jobs of its order key {key} go before it, so the time of its next attempt is unknown."},
	"order_key_stopped":   {many: "The dead letter {job} stops its order key {key} until it is replayed or discarded."},
	"first_in_line":       {many: "It is first in line."},
	"first_of_priority":   {many: "It is first in line among the jobs of its priority."},
	"behind": {
		many: "{count} jobs of its topic and endpoint were due before it.",
		one:  "1 job of its topic and endpoint was due before it.",
	},
	"behind_in_queue": {
		many: "{count} jobs of its pull queue were due before it.",
		one:  "1 job of its pull queue was due before it.",
	},
	"of_shard":        {many: "These figures are for its shard."},
	"ready_list_full": {many: "The ready list is full with {count} hints: dispatchers take jobs more slowly than jobs become due."},
	"ready":           {many: "It waits for a dispatcher with a free worker. If none takes it by {at}, it is put on the ready list again."},
	"ready_list": {
		many: "The ready list holds {count} hints.",
		one:  "The ready list holds 1 hint.",
	},
	"in_flight":     {many: "Attempt {attempt} is in flight, leased until {at}."},
	"reserved":      {many: "A server fetches it for a consumer. If that fails, consumers get it from {at} on."},
	"with_consumer": {many: "A consumer has it for attempt {attempt}, leased until {at}."},
	"consumer_late": {many: "The lease of its consumer ended at {at} without an answer. Attempt {attempt} counts as failed as soon as a server notices; " +
		"until then, the answer is accepted."},
	"lease_expired": {many: "Its lease expired at {at} without an outcome: the worker stopped, hangs or lost its connection. Another node will take " +
		"the job; no attempt is used. This is expiry {expiry} of at most {limit} in a row."},
	"quarantined": {many: "Its lease has expired {expiry} times in a row without an outcome, so the job itself may crash nodes. From " +
		"{at} on it is sent alone; after {limit} expiries it becomes a dead letter."},
	"leased_by":      {many: "Node {node} holds the lease."},
	"leased_through": {many: "The consumer fetched it from the node {node}."},
	"cancel_noted": {many: "A cancel arrived while attempt {attempt} was in flight. If the attempt fails, the " +
		"job ends as cancelled; no other attempt follows."},
	"ttl_ended":       {many: "Its TTL ended at {at}. It expires when a worker next takes it."},
	"ttl_in_turn":     {many: "Its TTL ended at {at}. It expires when its turn comes."},
	"ttl_first":       {many: "Its TTL ends at {at}, before its next attempt: it will expire."},
	"awaits_consumer": {many: "It has been due since {since} and waits for a consumer of the topic {topic} to fetch it."},
	"carrier_behind":  {many: "It has been due since {since} and waits for the carrier, which next looks at its topic and endpoint at {at}."},

	"ended":                       {many: "It ended at {at}."},
	endedBy(job.ReasonDelivered):  {many: "The receiver accepted attempt {attempt} ({outcome})."},
	"acknowledged":                {many: "A consumer acknowledged attempt {attempt}."},
	endedBy(job.ReasonRejected):   {many: "The consumer rejected the job for good with attempt {attempt}. It is kept as a dead letter."},
	endedBy(job.ReasonFinished):   {many: "A client ended it as delivered."},
	endedBy(job.ReasonRetryLimit): {many: "Attempt {attempt}, the last one, failed ({outcome}). It is kept as a dead letter."},
	endedBy(job.ReasonGone): {many: "The receiver answered attempt {attempt} with 410: it accepts no more deliveries " +
		"of this job. It is kept as a dead letter."},
	endedBy(job.ReasonAborted): {many: "The receiver rejected the job for good with attempt {attempt} ({outcome}). It is kept as a dead letter."},
	endedBy(job.ReasonBlocked): {many: "The address guard of this server refuses its destination. It is kept as a dead letter."},
	endedBy(job.ReasonLeaseExpired): {many: "Its lease expired many times in a row without an outcome, the last times while it " +
		"was sent alone. It is kept as a dead letter."},
	endedBy(job.ReasonTTL):         {many: "Its TTL ended before it was delivered."},
	endedBy(job.ReasonCountMissed): {many: "Its count did not reach the target before its deadline."},
	endedBy(job.ReasonCancelled):   {many: "A client cancelled it."},
	endedBy(job.ReasonDiscarded):   {many: "A client discarded this dead letter. A replay restores it."},
	endedBy(job.ReasonSuperseded):  {many: "The callback of a later attempt took its place before it was delivered."},
	"ended_as":                     {many: "It is {state}."},

	"schedule_timetable": {many: "The schedule {schedule} made it for the occurrence at {at}."},
	"schedule_misfire":   {many: "The schedule {schedule} made it late, by its misfire policy, for the occurrence at {at}."},
	"schedule_manual":    {many: "A client ran the schedule {schedule} at {at}."},
	"group_member": {
		many: "It is for the member {member} of the group {group}. The registration {group_id} made {count} jobs.",
		one:  "It is for the member {member} of the group {group}. The registration {group_id} made this job only.",
	},
	"callback_of":         {many: "It is a callback: it reports the event {event} of the job with the uid {uid}."},
	"spread":              {many: "It is due {share} after its registered time: its share of the spread of {spread}."},
	"fired_count_reached": {many: "It has fired. Its count, {counted}, has reached the target of {target}."},
	"fired_below_target":  {many: "It fired without reaching its target count: it has {counted} of {target}."},
	"fired_at_deadline":   {many: "It fired at its deadline without reaching its target count: it has {counted} of {target}."},
	"callbacks_made": {
		many: "It has made {count} callbacks in this round; the last one is {job}.",
		one:  "It has made 1 callback in this round: {job}.",
	},
	"callbacks_follow": {many: "A callback follows each of these events: {events}."},
}

// endedBy returns the code of the sentence for jobs that ended for reason.
func endedBy(reason string) string { return "ended_" + reason }

func (s Sentence) String() string {
	w := english[s.Code]
	text := w.many
	if w.one != "" && fmt.Sprint(s.Params["count"]) == "1" {
		text = w.one
	}
	var filled []string
	for name, value := range s.Params {
		filled = append(filled, "{"+name+"}", fmt.Sprint(value))
	}
	return strings.NewReplacer(filled...).Replace(text)
}

// outcome returns the result of an attempt as a parameter.
func outcome(a *job.Attempt) string {
	switch {
	case a == nil:
		return "unknown"
	case a.Error != "":
		return a.Error
	}
	return fmt.Sprintf("http_%d", a.Status)
}
