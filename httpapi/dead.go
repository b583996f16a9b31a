package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// listDead answers GET /v1/dead.
func (s *Server) listDead(c echo.Context) error {
	q, err := readQuery(c)
	if err != nil {
		return err
	}
	page, err := s.opts.Scheduler.DeadGroups(c.Request().Context(), q.Topic, q.Limit, q.Cursor)
	if err != nil {
		return err
	}
	view := deadView{Data: make([]deadGroupView, len(page.Groups)), NextCursor: orNull(&page.Next)}
	for i, g := range page.Groups {
		view.Data[i] = deadGroupView{
			Topic: g.Lane.Topic, Endpoint: g.Lane.Endpoint, Reason: g.Reason, Count: g.Count,
			OldestAt: instant(g.Oldest), NewestAt: instant(g.Newest),
		}
	}
	return writeJSON(c, http.StatusOK, view)
}

// deadGroupView counts dead letters of one topic, endpoint and reason.
type deadGroupView struct {
	Topic    string  `json:"topic"`
	Endpoint string  `json:"endpoint"`
	Reason   string  `json:"reason"`
	Count    int64   `json:"count"`
	OldestAt instant `json:"oldest_at"`
	NewestAt instant `json:"newest_at"`
}

type deadView struct {
	Data       []deadGroupView `json:"data"`
	NextCursor *string         `json:"next_cursor"`
}
