package httpapi

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/store"
)

// listTopics answers GET /v1/topics.
func (s *Server) listTopics(c echo.Context) error {
	topics, err := s.opts.Store.Topics(c.Request().Context())
	if err != nil {
		return err
	}
	view := topicsView{Data: make([]topicView, len(topics))}
	for i, t := range topics {
		view.Data[i] = viewTopic(t)
	}
	return writeJSON(c, http.StatusOK, view)
}

// getTopic answers GET /v1/topics/{topic}.
func (s *Server) getTopic(c echo.Context) error {
	topic, err := pathParam(c, "topic")
	if err != nil {
		return err
	}
	stats, err := s.opts.Store.Topic(c.Request().Context(), topic)
	if errors.Is(err, store.ErrNotFound) {
		return &apiError{
			code: codeTopicNotFound, cause: err,
			detail: "No job that is kept now has this topic. A topic is made by the first job that names it. Names are case-sensitive.",
		}
	}
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, viewTopic(stats))
}
