package v1

import (
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/store"
)

// listDead answers GET /v1/dead.
func (s *API) listDead(r *request) (jsonio.View, error) {
	if err := r.ownFilter(r.query.Topic, &r.query.Only); err != nil {
		return nil, err
	}
	groups, next, err := ownPage(r, func(g *store.DeadGroup) bool { return r.Topics().Has(g.Lane.Topic) }, func(limit int, cursor string) ([]store.DeadGroup, string, error) {
		page, err := s.App.DeadGroups(r.Context(), r.query.Topic, limit, cursor)
		return page.Groups, page.Next, err
	})
	return pageOf(groups, writeDead, next), err
}

// writeDead writes the count of dead letters of one topic, endpoint and reason.
func writeDead(w *jsonio.Writer, g *store.DeadGroup) {
	w.Text("topic", g.Lane.Topic)
	w.Text("endpoint", g.Lane.Endpoint)
	w.Text("reason", g.Reason)
	w.Number("count", g.Count)
	w.Instant("oldest_at", g.Oldest)
	w.Instant("newest_at", g.Newest)
}
