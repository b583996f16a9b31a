package v1

import "github.com/duehook/duehook/store"

// listDead answers GET /v1/dead.
func (s *API) listDead(r *request) (view, error) {
	page, err := s.Scheduler.DeadGroups(r.Context(), r.query.Topic, r.query.Limit, r.query.Cursor)
	return pageOf(page.Groups, writeDead, page.Next), err
}

// writeDead writes the count of dead letters of one topic, endpoint and reason.
func writeDead(w *writer, g *store.DeadGroup) {
	w.text("topic", g.Lane.Topic)
	w.text("endpoint", g.Lane.Endpoint)
	w.text("reason", g.Reason)
	w.number("count", g.Count)
	w.instant("oldest_at", g.Oldest)
	w.instant("newest_at", g.Newest)
}
