package v1

import (
	"time"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/store"
)

func (s *API) writeJob(w *jsonio.Writer, j *job.Job) { jobjson.WriteJob(w, j, s.App.Policy()) }

// writeDetails writes a job with all that was registered except its body.
func (s *API) writeDetails(w *jsonio.Writer, j *job.Job) {
	s.writeJob(w, j)
	for i := range jobFields {
		if show := jobFields[i].show; show != nil {
			show(w, &j.Spec)
		}
	}
}

// writeRegistered writes the answer to a registration: the job that has the topic and id
// now, and what became of the registration.
func (s *API) writeRegistered(w *jsonio.Writer, r *store.Registered) {
	s.writeJob(w, &r.Job)
	w.Text("result", app.OutcomeNames[r.Outcome])
}

// writeStates writes the counts of all states, also those of no job.
func writeStates(w *jsonio.Writer, name string, counts map[job.State]int64) {
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
func resultOf(result string) jsonio.View {
	return func(w *jsonio.Writer) { w.Text("result", result) }
}
