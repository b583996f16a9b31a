package v1

import (
	"time"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonout"
	"github.com/duehook/duehook/store"
)

func (s *API) writeJob(w *jsonout.Writer, j *job.Job) { jobjson.WriteJob(w, j, s.App.Policy()) }

// writeDetails writes a job with all that was registered except its body. Its retry policy is
// null if it has the server's ladder.
func (s *API) writeDetails(w *jsonout.Writer, j *job.Job) {
	s.writeJob(w, j)
	spec := &j.Spec
	jsonout.Part(w, "retry", spec.Retry, writeRetry)
	jsonout.Nullable(w, "timeout", orNull(&spec.Timeout), w.Duration)
	jsonout.Nullable(w, "ttl", orNull(&spec.TTL), w.Duration)
	jsonout.Part(w, "expect", orNull(&spec.ExpectBody), func(w *jsonout.Writer, body *string) { w.Text("body", *body) })
	w.TextOrNull("content_type", spec.ContentType)
	w.Headers("headers", spec.Headers)
	jsonout.Part(w, "callbacks", spec.Callbacks.Draft(), writeCallbacks)
}

// writeRegistered writes the answer to a registration: the job that has the topic and id
// now, and what became of the registration.
func (s *API) writeRegistered(w *jsonout.Writer, r *store.Registered) {
	s.writeJob(w, &r.Job)
	w.Text("result", app.OutcomeNames[r.Outcome])
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
