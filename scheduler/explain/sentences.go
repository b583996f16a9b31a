package explain

import (
	"fmt"
	"strings"

	"github.com/duehook/duehook/job"
)

// Sentence is one of those that explain a reason. Code and Params are for who
// words it in another language, String is English.
type Sentence struct {
	// Code is one of those that english has.
	Code   string
	Params Params
}

// Params are the parameters of a sentence by name: strings and numbers. Times
// are as the API writes them; outcome is the error of an attempt, or http_200
// and the like, or unknown.
type Params map[string]any

func says(code string, p Params) Sentence { return Sentence{Code: code, Params: p} }

// wording is a sentence with its parameters in braces; one is for a count of 1,
// where that makes a difference.
type wording struct{ many, one string }

// english has all sentences, by code. The dashboard has them, too.
var english = map[string]wording{
	"attempt_due":         {many: "Attempt {attempt} is due at {at}."},
	"attempt_failed":      {many: "Attempt {attempt} failed ({outcome})."},
	"due_by_ladder":       {many: "By the retry ladder, attempt {attempt} is due at {at}."},
	"due_by_receiver":     {many: "The receiver asked for attempt {attempt} at {at}."},
	"snoozed":             {many: "The receiver asked to be asked again at {at}; no attempt was used."},
	"circuit_open":        {many: "{endpoint} has failed too often and is held until {at}."},
	"endpoint_recovering": {many: "{endpoint} was held. Until it has shown that it works, few of its jobs go out at once: {count} under way, {limit} at most."},
	"endpoint_limit": {
		many: "{count} jobs of {endpoint} are under way, and no more than {limit} may be.",
		one:  "1 job of {endpoint} is under way, and no more than {limit} may be.",
	},
	"topic_limit": {
		many: "{count} jobs of the topic {topic} are under way at {endpoint}, and no more than {limit} may be.",
		one:  "1 job of the topic {topic} is under way at {endpoint}, and no more than {limit} may be.",
	},
	"topic_paused": {many: "The topic {topic} is paused. Nothing of it is delivered until somebody resumes it."},
	"topic_rate":   {many: "The topic {topic} may have {rate} deliveries per second; the next is at {at}."},
	"topic_concurrency": {
		many: "{count} jobs of the topic {topic} are under way, and no more than {limit} may be.",
		one:  "1 job of the topic {topic} is under way, and no more than {limit} may be.",
	},
	"higher_priority": {
		many: "{count} jobs of its topic have a higher priority and are due, too: they go first.",
		one:  "1 job of its topic has a higher priority and is due, too: it goes first.",
	},
	"first_in_line":     {many: "It is the first in line."},
	"first_of_priority": {many: "Of its priority it is the first in line."},
	"behind": {
		many: "{count} jobs of its topic and endpoint were due before it.",
		one:  "1 job of its topic and endpoint was due before it.",
	},
	"of_shard":        {many: "These figures are those of its shard."},
	"ready_list_full": {many: "The ready list is full, with {count} hints: dispatchers take jobs more slowly than they come due."},
	"ready":           {many: "It waits for a dispatcher with a free worker. If none takes it by {at}, it is put on the ready list again."},
	"ready_list":      {many: "The ready list holds {count} hints.", one: "The ready list holds 1 hint."},
	"in_flight":       {many: "Attempt {attempt} is under way, leased until {at}."},
	"lease_lapsed": {many: "Its lease ended at {at} without an outcome: whoever had it has stopped, hangs or is cut off. " +
		"Another node is to take the job; no attempt is used. This is lapse {lapse} of at most {limit} in a row."},
	"quarantined": {many: "Its lease has expired {lapse} times in a row without an outcome, so it may be what brings nodes down. " +
		"From {at} on it is sent alone; after {limit} times it is given up."},
	"leased_by":    {many: "The lease is that of node {node}."},
	"cancel_noted": {many: "A cancel met attempt {attempt} in flight. If that does not deliver it, the job ends as cancelled; no attempt follows."},
	"ttl_ended":    {many: "Its TTL ended at {at}: when it is taken next, it ends as expired."},
	"ttl_first":    {many: "Its TTL ends at {at}, before its next attempt: it is going to expire."},
	"carrier_behind": {many: "It has been due since {since} and is to be carried; " +
		"carriers are next to look at its topic and endpoint at {at}."},

	"ended":                       {many: "It ended at {at}."},
	endedBy(job.ReasonDelivered):  {many: "The receiver took it with attempt {attempt} ({outcome})."},
	endedBy(job.ReasonRetryLimit): {many: "Attempt {attempt}, the last one, failed ({outcome}). It is kept as a dead letter."},
	endedBy(job.ReasonGone):       {many: "The receiver answered attempt {attempt} with 410: it wants no more of it. It is kept as a dead letter."},
	endedBy(job.ReasonAborted):    {many: "The receiver refused it for good with attempt {attempt} ({outcome}). It is kept as a dead letter."},
	endedBy(job.ReasonBlocked):    {many: "Deliveries to its address are refused by this server's guard. It is kept as a dead letter."},
	endedBy(job.ReasonLapsed):     {many: "Its lease expired many times in a row without an outcome, the last times while it was sent alone. It is kept as a dead letter."},
	endedBy(job.ReasonTTL):        {many: "Its TTL ended before it was delivered."},
	endedBy(job.ReasonCancelled):  {many: "A client cancelled it."},
	endedBy(job.ReasonDiscarded):  {many: "A client discarded this dead letter. A replay takes it back."},
	"ended_as":                    {many: "It is {state}."},
}

// endedBy is the code of the sentence on jobs that ended for a reason.
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

// outcome is what an attempt came to.
func outcome(a *job.Attempt) string {
	switch {
	case a == nil:
		return "unknown"
	case a.Error != "":
		return a.Error
	}
	return fmt.Sprintf("http_%d", a.Status)
}
