// Package mykit is the dialect of mykit-delay: its calls, its fields and its envelope.
package mykit

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

// Name is the name of the dialect.
const Name = "mykit"

// Operations changes many jobs. An *operations.Manager does.
type Operations interface {
	Create(ctx context.Context, d operations.Draft) (operations.Operation, error)
	Preview(ctx context.Context, d operations.Draft) (operations.Preview, error)
	Get(ctx context.Context, id string) (operations.Operation, error)
}

// Options are the services behind the calls.
type Options struct {
	App        *app.App
	Operations Operations
	Clock      job.Clock // nil: the machine's
	Pace       job.Clock // between looks at an operation; nil: the machine's
}

type api struct{ Options }

// New returns the dialect.
func New(o Options) httpapi.Dialect {
	o.Clock, o.Pace = cmp.Or(o.Clock, job.SystemClock()), cmp.Or(o.Pace, job.SystemClock())
	a := &api{o}
	push := changes(http.MethodPost, "/push", a.push)
	push.Registers = true
	return httpapi.Dialect{WriteError: a.writeError, Routes: []httpapi.Route{
		push,
		changes(http.MethodGet, "/delete", a.delete),
		changes(http.MethodGet, "/finish", finish),
		changes(http.MethodGet, "/reStoreJob", a.restoreJob),
		changes(http.MethodGet, "/reStore", a.restoreAll),
		changes(http.MethodGet, "/clearAll", a.clearAll),
		{Method: http.MethodGet, Path: "/health", Scope: access.Public, Handle: health},
	}}
}

// changes is a call that changes jobs of its caller's topics.
func changes(method, path string, handle func(*httpapi.Call) error) httpapi.Route {
	return httpapi.Route{Method: method, Path: path, Scope: access.Write, OwnTopics: true, Changes: true, Handle: handle}
}

// envelope is the answer to a call. Clients that decode into the class of the original need the
// leftovers, too.
type envelope struct {
	Success  bool    `json:"success"`
	Data     any     `json:"data"`
	Code     int     `json:"code"`
	Excludes *string `json:"excludes"`
	Includes *string `json:"includes"`
	OnlyData bool    `json:"onlyData"`
	Callback *string `json:"callback"`
	Message  *string `json:"message"`
}

func succeed(c *httpapi.Call, data any) error {
	return c.WriteJSON(http.StatusOK, envelope{Success: true, Data: data, Code: http.StatusOK})
}

// fail answers a call that the original refuses, with its text.
func fail(c *httpapi.Call, message string) error {
	return c.WriteJSON(http.StatusOK, envelope{Code: http.StatusInternalServerError, Message: &message})
}

// badRequest is an error with which the original's framework answers.
func badRequest(detail string) error {
	return &httpapi.Error{Code: httpapi.CodeMalformedJSON, Detail: detail}
}

// The texts of the original.
const (
	noTopic     = "参数topic错误"
	noJobID     = "非法参数"
	notOpen     = "功能暂未开放"
	notFound    = "Job不存在!"
	stateFormat = "java.lang.IllegalArgumentException: 任务%s状态异常"
)

// fields are the fields of a job by those of the domain.
var fields = map[string]string{"at": "createTime + delay", "body_text": "body", "headers": "subtopic, bizKey or ttl"}

// writeError answers with an error. What concerns a job is a failure in the envelope; the rest has
// a status, and the form of the original's framework.
func (a *api) writeError(c *httpapi.Call, e *httpapi.Error) error {
	switch {
	case e.Code == httpapi.CodeJobNotFound:
		return fail(c, notFound)
	case e.Code.Status == http.StatusConflict, e.Code.Status == http.StatusUnprocessableEntity, e.Code == httpapi.CodeTopicFull:
		return fail(c, e.Code.Name+": "+detailOf(e))
	}
	return c.WriteJSON(e.Code.Status, map[string]any{
		"timestamp": job.InstantOf(a.Clock.Now()), "status": e.Code.Status, "error": http.StatusText(e.Code.Status), "exception": e.Code.Name,
		"message": detailOf(e), "path": c.Request.URL.Path,
	})
}

// detailOf names wrong fields as clients know them.
func detailOf(e *httpapi.Error) string {
	if len(e.Fields) == 0 {
		return e.Detail
	}
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		name, _, _ := strings.Cut(strings.TrimPrefix(f.Pointer, "/"), "/")
		parts[i] = cmp.Or(fields[name], name) + " " + f.Message
	}
	return strings.Join(parts, "; ")
}

func finish(c *httpapi.Call) error { return fail(c, notOpen) }

func health(c *httpapi.Call) error {
	if c.Ready() != nil {
		return c.WriteJSON(http.StatusServiceUnavailable, map[string]string{"status": "DOWN"})
	}
	return c.WriteJSON(http.StatusOK, map[string]string{"status": "UP"})
}
