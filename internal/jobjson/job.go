// Package jobjson writes jobs as answers and callbacks show them.
package jobjson

import (
	"net/url"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/retrypolicy"
)

// WriteDestination writes where a job goes.
func WriteDestination(w *jsonio.Writer, s *job.Spec) {
	if s.Destination.Pulled() {
		w.Null("url")
		w.Null("method")
		w.Boolean("pull", true)
		return
	}
	w.Text("url", string(s.Destination))
	w.Text("method", s.HTTPMethod())
}

// WriteJob writes a job. policy is the server's.
func WriteJob(w *jsonio.Writer, j *job.Job, policy retrypolicy.Policy) {
	s := &j.Spec
	w.Text("uid", j.UID)
	w.Text("topic", j.Topic)
	w.Text("id", j.ID)
	w.TextOrNull("biz_key", s.BizKey)
	w.TextIfAny("order_key", s.OrderKey)
	w.Labels("labels", s.Labels)
	w.TextIfAny("dialect", s.DialectName())
	WriteDestination(w, s)
	w.Text("state", j.State.String())
	w.Integer("priority", s.Priority.Number())
	w.Instant("due_at", j.DueAt)
	if s.When.Spread != 0 {
		w.Duration("spread", s.When.Spread)
	}
	w.Instant("created_at", j.CreatedAt)
	w.Instant("updated_at", j.UpdatedAt)
	w.Instant("next_at", j.NextAt)
	w.Integer("attempts", j.Attempts)
	w.Integer("max_attempts", policy.For(s.Retry).MaxAttempts())
	jsonio.Part(w, "last_attempt", j.LastAttempt, AttemptOf(j.UID))
	w.Instant("ended_at", j.EndedAt)
	w.TextOrNull("reason", j.Reason)
	w.Number("version", int64(Version(j)))
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
func writeOccurrenceOf(w *jsonio.Writer, o *job.Occurrence) {
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

// AttemptOf writes an attempt of the job with a uid.
func AttemptOf(uid string) func(*jsonio.Writer, *job.Attempt) {
	return func(w *jsonio.Writer, a *job.Attempt) { WriteAttempt(w, a, uid) }
}

// WriteAttempt writes an attempt. Its status is null without an answer, the time of a phase
// if the phase was not reached or not needed.
func WriteAttempt(w *jsonio.Writer, a *job.Attempt, uid string) {
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
	w.TextOrNull("response_body", a.ResponseBody)
	w.Headers("response_headers", a.ResponseHeaders)
	w.Instant("next_at", a.NextAt)
	w.TextOrNull("reason", a.Reason)
	w.NumberOrNull("version", int64(VersionOf(uid, a.Version)))
	w.NumberIfAny("connect_retries", a.ConnectRetries)
	if a.Resent {
		w.Boolean("resent", true)
	}
}

// writeCount writes the count of a job.
func writeCount(w *jsonio.Writer, j *job.Job) {
	w.Number("count", j.Counted)
	WriteCountTerms(w, j.Spec.Count.Target, j.Spec.Count.AtDeadline)
	w.Boolean("fired", j.ShowsFired())
}

// WriteCountTerms writes the terms of a count, as registrations do.
func WriteCountTerms[T ~string](w *jsonio.Writer, target int64, atDeadline T) {
	w.Number("target", target)
	w.Text("at_deadline", string(atDeadline))
}

// Path is the path of a job, percent-encoded.
func Path(key job.Key) string {
	return "/v1/jobs/" + url.PathEscape(key.Topic) + "/" + url.PathEscape(key.ID)
}

// VersionOf is the version of what has a uid, for the number of its changes from 1. What is
// made anew under the same name has another uid, whose time puts its versions behind those of
// the one before.
func VersionOf(uid string, number uint64) uint64 {
	id, err := ulid.ParseStrict(uid)
	if err != nil || number == 0 { // there is nothing
		return number
	}
	return max(id.Time(), 1) + number - 1
}

// Version is the version of a job, as answers show it.
func Version(j *job.Job) uint64 { return VersionOf(j.UID, j.Version) }
