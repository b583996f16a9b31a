package v1

import (
	"time"

	"github.com/duehook/duehook/internal/kit/jsonout"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

func (s *API) writeJob(w *jsonout.Writer, j *job.Job) { writeJob(w, j, s.Scheduler.Policy()) }

// writeJob writes a job. policy is the server's.
func writeJob(w *jsonout.Writer, j *job.Job, policy retrypolicy.Policy) {
	s := &j.Spec
	w.Text("uid", j.UID)
	w.Text("topic", j.Topic)
	w.Text("id", j.ID)
	w.TextOrNull("biz_key", s.BizKey)
	w.TextIfAny("order_key", s.OrderKey)
	w.Labels("labels", s.Labels)
	w.URL("url", string(s.Destination))
	w.Text("method", s.HTTPMethod())
	w.Text("state", j.State.String())
	w.Integer("priority", s.Priority.Number())
	w.Instant("due_at", j.DueAt)
	if s.When.Spread != 0 {
		w.Duration("spread", s.When.Spread)
	}
	w.NumberIfAny("rounds", s.Rounds())
	w.Instant("created_at", j.CreatedAt)
	w.Instant("next_at", j.NextAt)
	w.Integer("attempts", j.Attempts)
	w.Integer("max_attempts", policy.For(s.Retry).MaxAttempts())
	jsonout.Part(w, "last_attempt", j.LastAttempt, attemptOf(j.UID))
	w.Instant("ended_at", j.EndedAt)
	w.TextOrNull("reason", j.Reason)
	w.Number("version", int64(jobVersion(j)))
	if g := s.Group; g != nil {
		w.Text("group", g.Group)
		w.Text("group_id", j.GroupID())
	}
	writeOccurrenceOf(w, s.Occurrence)
	writeCallbackLinks(w, j)
	if s.Count != nil {
		w.In("count", func() { writeCount(w, j) })
	}
}

// writeOccurrenceOf writes which occurrence of which schedule made a job; nil is null.
func writeOccurrenceOf(w *jsonout.Writer, o *job.Occurrence) {
	if o == nil {
		w.Null("schedule")
		w.Null("occurrence")
		return
	}
	w.Text("schedule", o.Schedule)
	w.In("occurrence", func() {
		w.Instant("time", o.Time)
		w.Text("kind", string(o.Kind))
	})
}

// attemptOf writes an attempt of the job with a uid.
func attemptOf(uid string) func(*jsonout.Writer, *job.Attempt) {
	return func(w *jsonout.Writer, a *job.Attempt) { writeAttempt(w, a, uid) }
}

// writeAttempt writes an attempt. Its status is null without an answer, the time of a phase
// if the phase was not reached or not needed.
func writeAttempt(w *jsonout.Writer, a *job.Attempt, uid string) {
	t := &a.Timings
	w.Integer("number", a.Number)
	w.Instant("started_at", a.StartedAt)
	w.Number("duration_ms", a.Duration.Milliseconds())
	w.Phase("dns_ms", t.DNS)
	w.Phase("connect_ms", t.Connect)
	w.Phase("tls_ms", t.TLS)
	w.Phase("first_byte_ms", t.FirstByte)
	w.Boolean("connection_reused", t.Reused)
	w.NumberOrNull("status", int64(a.Status))
	w.TextOrNull("error", a.Error)
	w.Revealing("response_body", a.ResponseBody)
	w.Headers("response_headers", a.ResponseHeaders)
	w.Instant("next_at", a.NextAt)
	w.TextOrNull("reason", a.Reason)
	w.NumberOrNull("version", int64(versionOf(uid, a.Version)))
	w.NumberIfAny("connect_retries", a.ConnectRetries)
}

// writeRegistered writes the answer to a registration: the job that has the topic and id
// now, and what became of the registration.
func (s *API) writeRegistered(w *jsonout.Writer, r *store.Registered) {
	s.writeJob(w, &r.Job)
	w.Text("result", scheduler.OutcomeNames[r.Outcome])
}

// writeStates writes the counts of all states, also those of no job.
func writeStates(w *jsonout.Writer, name string, counts map[job.State]int64) {
	w.In(name, func() {
		for _, s := range job.States {
			w.Number(s.String(), counts[s])
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
func resultOf(result string) jsonout.View {
	return func(w *jsonout.Writer) { w.Text("result", result) }
}
