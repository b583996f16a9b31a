package httpapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/kit/memory"
	"github.com/duehook/duehook/internal/services/access"
)

// The media types of answers.
const (
	MIMEJSON    = echo.MIMEApplicationJSON
	MIMEProblem = "application/problem+json"
)

// retryAfterSeconds is the advice of answers to requests that may succeed later.
const retryAfterSeconds = "1"

// keptBuffer bounds the buffers that wait for their next use.
const keptBuffer = 1 << 20

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Buffer is an empty buffer. The caller releases it.
func Buffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

// Release keeps a buffer for its next use. The caller must not use it any more.
func Release(b *bytes.Buffer) {
	if b.Cap() <= keptBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

// Kept is an answer that a handler makes in memory.
type Kept struct {
	Body   *bytes.Buffer
	Status int
	header http.Header
}

// NewKept returns an answer whose body goes into b.
func NewKept(b *bytes.Buffer) *Kept { return &Kept{b, http.StatusOK, http.Header{}} }

// Header is part of http.ResponseWriter.
func (k *Kept) Header() http.Header { return k.header }

// WriteHeader keeps the status.
func (k *Kept) WriteHeader(status int) { k.Status = status }

func (k *Kept) Write(p []byte) (int, error) { return k.Body.Write(p) }

// WriteJSON answers with v.
func (c *Call) WriteJSON(status int, v any) error { return c.writeAs(MIMEJSON, status, v) }

func (c *Call) writeAs(mediaType string, status int, v any) error {
	b := Buffer()
	defer Release(b)
	if err := Encode(b, v); err != nil {
		return err
	}
	return c.Write(status, mediaType, b.Bytes())
}

// smallAnswer is as much of an answer, in bytes, as every request counts anyway.
const smallAnswer = 8 << 10

// Write answers with text. A large one counts, with what it was made of, until the client has it.
func (c *Call) Write(status int, mediaType string, text []byte) error {
	if n := len(text); n > smallAnswer {
		if err := c.Add(3 * int64(n)); err != nil {
			return err
		}
	}
	return c.WriteStatic(status, mediaType, text)
}

// WriteStatic is Write for a text that the server has once for all callers.
func (c *Call) WriteStatic(status int, mediaType string, text []byte) error {
	c.Header().Set(echo.HeaderContentType, mediaType)
	c.Writer.WriteHeader(status)
	_, err := c.Writer.Write(text)
	return err
}

// Start begins an answer that the caller writes in parts.
func (c *Call) Start(status int, mediaType string) {
	c.Header().Set(echo.HeaderContentType, mediaType)
	c.Writer.WriteHeader(status)
}

// Encode writes v and a line break. & and < stay unescaped, so URLs and bodies read as
// they are. The content type and nosniff prevent browsers from reading HTML in them.
func Encode(b *bytes.Buffer, v any) error {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// writeError answers with an error, in the form of its dialect.
func (s *Server) writeError(err error, c echo.Context) {
	ctx, id := c.Request().Context(), c.Response().Header().Get(echo.HeaderXRequestID)
	e := AsError(err)
	if e.Code == CodeInternalError {
		s.opts.Logger.LogAttrs(ctx, slog.LevelError, "request failed",
			slog.String("request_id", id), slog.String("error", err.Error()))
	}
	if c.Response().Committed {
		return // the client has got an answer, or is gone
	}
	_ = s.charge(memory.Of(ctx), access.Principal{}) // of a caller who is not known
	if e.Code == CodeServerBusy {
		_ = callOf(c).WriteWithin(memory.Patience) // it counts nowhere
	}
	if e.Code.Status == http.StatusServiceUnavailable || e.Code == CodeTopicFull {
		c.Response().Header().Set(echo.HeaderRetryAfter, retryAfterSeconds)
	}
	if e.Accept != "" && c.Request().Method == http.MethodPatch {
		c.Response().Header().Set("Accept-Patch", e.Accept) // RFC 5789, 2.2
	}
	if challenge := access.Challenge(err); challenge != "" {
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, challenge)
	}
	if s.showMissing(e, c) {
		return
	}
	of := s.dialectOf(c)
	if e.Code == CodeNotFound && of.Missing != nil {
		if meant := of.Missing(c.Request().URL.Path); meant != "" {
			e = &Error{Code: e.Code, Cause: e.Cause, Detail: meant}
		}
	}
	write := of.WriteError
	if write == nil {
		write = writeProblem
	}
	if err := write(callOf(c), e); err != nil {
		s.opts.Logger.LogAttrs(ctx, slog.LevelDebug, "the answer was not written",
			slog.String("request_id", id), slog.String("error", err.Error()))
	}
}

// typePrefix makes a code a URI, the form of a problem's type (RFC 9457).
const typePrefix = "urn:duehook:error:"

// Problem is an error as application/problem+json.
type Problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Code   string       `json:"code"`
	Errors []FieldError `json:"errors"`
	// State and UID are those of the job that refuses the call.
	State string `json:"state,omitempty"`
	UID   string `json:"uid,omitempty"`
}

// Problem is the error as clients of v1 see it.
func (e *Error) Problem() *Problem {
	p := &Problem{
		Type: typePrefix + e.Code.Name, Title: e.Code.Title, Status: e.Code.Status, Code: e.Code.Name,
		Detail: e.Detail, Errors: append([]FieldError{}, e.Fields...),
	}
	if e.Job != nil {
		p.State, p.UID = e.Job.State.String(), e.Job.UID
	}
	return p
}

func writeProblem(c *Call, e *Error) error {
	b := Buffer()
	defer Release(b)
	if err := Encode(b, e.Problem()); err != nil {
		return err
	}
	if e.More != nil {
		b.Truncate(b.Len() - len("}\n"))
		at := b.Len()
		if err := Encode(b, e.More); err != nil {
			return err
		}
		b.Bytes()[at] = ','
	}
	return c.Write(e.Code.Status, MIMEProblem, b.Bytes())
}
