package v1

import (
	"slices"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/services/nodes"
	"github.com/duehook/duehook/internal/services/recent"
)

var activityQuery = []parameter{
	single("window", func(q *params, e *decode.Errors, at, v string) {
		q.window = slices.IndexFunc(recent.Windows[:], func(w recent.Window) bool { return w.Name == v })
		if q.window < 0 {
			e.Add(at, "must be 1h or 24h")
		}
	}),
	topicParam, endpointParam,
}

// activity answers GET /v1/activity.
func (s *API) activity(r *request) (jsonio.View, error) {
	of := recent.Of{Topic: r.query.Topic, Endpoint: r.query.Endpoint}
	switch {
	case of.Topic != "" && of.Endpoint != "":
		return nil, decode.Invalid("?endpoint", "must not come with a topic: series are of one topic, or of one endpoint")
	case of.Endpoint != "" && len(r.Topics()) > 0: // others may use it, too
		return nil, &job.TopicError{Allowed: r.Topics()}
	}
	if err := r.ownFilter(of.Topic, &of.Topics); err != nil {
		return nil, err
	}
	series, err := s.App.Activity(r.Context(), of, r.query.window)
	return func(w *jsonio.Writer) {
		w.Text("window", series.Name)
		w.TextOrNull("topic", of.Topic)
		w.TextOrNull("endpoint", of.Endpoint)
		w.Instant("from", series.From)
		w.Number("step_ms", series.Step.Milliseconds())
		w.Boolean("partial", series.Partial)
		w.Member("delivered", series.Delivered)
		w.Member("failed", series.Failed)
		w.Member("dead", series.Dead)
		w.Member("expired", series.Expired)
	}, err
}

// listNodes answers GET /v1/nodes.
func (s *API) listNodes(r *request) (jsonio.View, error) {
	all, err := s.Nodes.List(r.Context())
	if err != nil {
		return nil, err
	}
	return pageOfAll(r, all, func(n *nodes.Node) string { return n.ID }, writeNode)
}

func writeNode(w *jsonio.Writer, n *nodes.Node) {
	w.Text("id", n.ID)
	w.Text("state", map[bool]string{false: "running", true: "silent"}[n.Silent])
	w.Text("host", n.Host)
	w.Text("version", n.Version)
	w.Text("store", n.Store)
	w.Instant("started_at", n.Started)
	w.Instant("seen_at", n.Seen)
	w.Number("clock_ahead_ms", n.Ahead.Milliseconds())
}
