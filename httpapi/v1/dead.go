package v1

import "github.com/duehook/duehook/store"

// listDead answers GET /v1/dead.
func (s *API) listDead(r *request) (any, error) {
	page, err := s.Scheduler.DeadGroups(r.Context(), r.query.Topic, r.query.Limit, r.query.Cursor)
	return pageOf(page.Groups, viewDead, page.Next), err
}

// deadView counts dead letters of one topic, endpoint and reason.
type deadView struct {
	Topic    string  `json:"topic"`
	Endpoint string  `json:"endpoint"`
	Reason   string  `json:"reason"`
	Count    int64   `json:"count"`
	OldestAt instant `json:"oldest_at"`
	NewestAt instant `json:"newest_at"`
}

func viewDead(g *store.DeadGroup) deadView {
	return deadView{
		Topic: g.Lane.Topic, Endpoint: g.Lane.Endpoint, Reason: g.Reason, Count: g.Count,
		OldestAt: instant(g.Oldest), NewestAt: instant(g.Newest),
	}
}
