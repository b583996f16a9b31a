package v1

import (
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

func (s *API) writeJob(w *writer, j *job.Job) { writeJob(w, j, s.Scheduler.Policy()) }

// writeJob writes a job. policy is the server's.
func writeJob(w *writer, j *job.Job, policy retrypolicy.Policy) {
	s := &j.Spec
	w.text("uid", j.UID)
	w.text("topic", j.Topic)
	w.text("id", j.ID)
	w.textOrNull("biz_key", s.BizKey)
	w.textIfAny("order_key", s.OrderKey)
	w.labels("labels", s.Labels)
	w.url("url", string(s.Destination))
	w.text("method", s.HTTPMethod())
	w.text("state", j.State.String())
	w.integer("priority", s.Priority.Number())
	w.instant("due_at", j.DueAt)
	if s.When.Spread != 0 {
		w.duration("spread", s.When.Spread)
	}
	w.numberIfAny("rounds", s.Rounds())
	w.instant("created_at", j.CreatedAt)
	w.instant("next_at", j.NextAt)
	w.integer("attempts", j.Attempts)
	w.integer("max_attempts", policy.For(s.Retry).MaxAttempts())
	part(w, "last_attempt", j.LastAttempt, attemptOf(j.UID))
	w.instant("ended_at", j.EndedAt)
	w.textOrNull("reason", j.Reason)
	w.number("version", int64(jobVersion(j)))
	if g := s.Group; g != nil {
		w.text("group", g.Group)
		w.text("group_id", j.GroupID())
	}
	writeOccurrenceOf(w, s.Occurrence)
	writeCallbackLinks(w, j)
	if s.Count != nil {
		w.in("count", func() { writeCount(w, j) })
	}
}

// writeOccurrenceOf writes which occurrence of which schedule made a job; nil is null.
func writeOccurrenceOf(w *writer, o *job.Occurrence) {
	if o == nil {
		w.null("schedule")
		w.null("occurrence")
		return
	}
	w.text("schedule", o.Schedule)
	w.in("occurrence", func() {
		w.instant("time", o.Time)
		w.text("kind", string(o.Kind))
	})
}

// attemptOf writes an attempt of the job with a uid.
func attemptOf(uid string) func(*writer, *job.Attempt) {
	return func(w *writer, a *job.Attempt) { writeAttempt(w, a, uid) }
}

// writeAttempt writes an attempt. Its status is null without an answer, the time of a phase
// if the phase was not reached or not needed.
func writeAttempt(w *writer, a *job.Attempt, uid string) {
	t := &a.Timings
	w.integer("number", a.Number)
	w.instant("started_at", a.StartedAt)
	w.number("duration_ms", a.Duration.Milliseconds())
	w.phase("dns_ms", t.DNS)
	w.phase("connect_ms", t.Connect)
	w.phase("tls_ms", t.TLS)
	w.phase("first_byte_ms", t.FirstByte)
	w.boolean("connection_reused", t.Reused)
	w.numberOrNull("status", int64(a.Status))
	w.textOrNull("error", a.Error)
	w.revealing("response_body", a.ResponseBody)
	w.headers("response_headers", a.ResponseHeaders)
	w.instant("next_at", a.NextAt)
	w.textOrNull("reason", a.Reason)
	w.numberOrNull("version", int64(versionOf(uid, a.Version)))
	w.numberIfAny("connect_retries", a.ConnectRetries)
}

// writeRegistered writes the answer to a registration: the job that has the topic and id
// now, and what became of the registration.
func (s *API) writeRegistered(w *writer, r *store.Registered) {
	s.writeJob(w, &r.Job)
	w.text("result", scheduler.OutcomeNames[r.Outcome])
}

// writeStates writes the counts of all states, also those of no job.
func writeStates(w *writer, name string, counts map[job.State]int64) {
	w.in(name, func() {
		for _, s := range job.States {
			w.number(s.String(), counts[s])
		}
	})
}

// steps gives the delays of a ladder; of none, nil.
func steps(given []time.Duration) []string {
	var texts []string
	for _, step := range given {
		texts = append(texts, job.FormatDuration(step))
	}
	return texts
}

// orNull is nil for the zero value.
func orNull[T comparable](v *T) *T {
	if *v == *new(T) {
		return nil
	}
	return v
}

// resultOf says what became of a call that leaves nothing to show.
func resultOf(result string) view { return func(w *writer) { w.text("result", result) } }
