package httpapi

import (
	"bytes"
	"log/slog"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/services/access"
)

const mimeProblem = "application/problem+json"

var answers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// releaseAnswer keeps an answer's buffer for the next one.
func releaseAnswer(b *bytes.Buffer) {
	if b.Cap() <= keptBuffer {
		b.Reset()
		answers.Put(b)
	}
}

// each is what the API shows of all.
func each[T, V any](all []T, view func(*T) V) []V {
	views := make([]V, len(all))
	for i := range all {
		views[i] = view(&all[i])
	}
	return views
}

// writeJSON answers with v.
func writeJSON(c echo.Context, status int, v any) error {
	return writeAs(c, echo.MIMEApplicationJSON, status, v)
}

func writeAs(c echo.Context, mediaType string, status int, v any) error {
	b := answers.Get().(*bytes.Buffer)
	defer releaseAnswer(b)
	if err := encode(b, v); err != nil {
		return err
	}
	return writeBytes(c, mediaType, status, b.Bytes())
}

func writeBytes(c echo.Context, mediaType string, status int, text []byte) error {
	c.Response().Header().Set(echo.HeaderContentType, mediaType)
	c.Response().WriteHeader(status)
	_, err := c.Response().Write(text)
	return err
}

// writeError answers with the problem that err is.
func (s *Server) writeError(err error, c echo.Context) {
	ctx, id := c.Request().Context(), c.Response().Header().Get(echo.HeaderXRequestID)
	known := asAPIError(err)
	if known.code == codeInternalError {
		s.opts.Logger.LogAttrs(ctx, slog.LevelError, "request failed",
			slog.String("request_id", id), slog.String("error", err.Error()))
	}
	if c.Response().Committed {
		return // the client has got an answer, or is gone
	}
	p := known.problem()
	if p.Status == http.StatusServiceUnavailable || known.code == codeTopicFull {
		c.Response().Header().Set(echo.HeaderRetryAfter, retryAfterSeconds)
	}
	if challenge := access.Challenge(err); challenge != "" {
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, challenge)
	}
	if err := writeAs(c, mimeProblem, p.Status, p); err != nil {
		s.opts.Logger.LogAttrs(ctx, slog.LevelDebug, "answer not written",
			slog.String("request_id", id), slog.String("error", err.Error()))
	}
}

func (e *apiError) problem() *problem {
	known := codes[e.code]
	p := &problem{
		Type:   typePrefix + string(e.code),
		Title:  known.title,
		Status: known.status,
		Detail: e.detail,
		Code:   e.code,
		Errors: append([]problemField{}, e.fields...),
	}
	return p
}
