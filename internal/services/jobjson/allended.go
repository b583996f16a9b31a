package jobjson

import (
	"github.com/duehook/duehook/internal/kit/jsonout"
	"github.com/duehook/duehook/job"
)

// AllEndedBody is the body of the callback of a registration for a group, as docs/receivers.md
// describes it. ended is the job that it follows from.
func AllEndedBody(callback, ended *job.Job, all job.Ends) []byte {
	return jsonout.AppendObject(make([]byte, 0, jsonout.TypicalItem), func(w *jsonout.Writer) {
		w.Text("event", string(callback.Spec.Reports))
		w.Instant("at", callback.CreatedAt)
		w.Text("topic", ended.Topic)
		w.Text("group", ended.Spec.Group.Group)
		w.Text("group_id", ended.GroupID())
		w.Integer("jobs", all.Jobs)
		w.In("outcomes", func() {
			for _, state := range []job.State{job.Delivered, job.Dead, job.Expired, job.Cancelled} {
				w.Integer(state.String(), all.By[state])
			}
			w.Integer("unknown", all.Unknown)
		})
	})
}
