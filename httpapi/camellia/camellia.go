package camellia

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/pulls"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

// Name is the name of the dialect.
const Name = "camellia"

const (
	prefix = "/camellia/"
	calls  = prefix + "delayQueue/"
)

// Options are the services behind the calls. Clock has a default.
type Options struct {
	App     *app.App
	Pulls   *pulls.Manager
	Monitor *Monitor
	Clock   job.Clock
}

type api struct {
	Options
	offline atomic.Bool
	used    atomic.Int64 // a job.Instant: the last call for messages
}

// New returns the dialect.
func New(o Options) httpapi.Dialect {
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	a := &api{Options: o}
	return httpapi.Dialect{
		Prefix: prefix, Path: withoutToken, Authorization: authorization, WriteError: a.writeError,
		Routes: append([]httpapi.Route{
			{Method: http.MethodPost, Path: calls + "sendMsg", Scope: access.Write, OwnTopics: true, Registers: true, Handle: a.send},
			{Method: http.MethodPost, Path: calls + "deleteMsg", Scope: access.Write, OwnTopics: true, Handle: a.remove},
			{Method: http.MethodPost, Path: calls + "getMsg", Scope: access.Read, OwnTopics: true, Safe: true, Handle: a.get},
			{Method: http.MethodPost, Path: calls + "pullMsg", Scope: access.Consume, OwnTopics: true, Safe: true, Handle: a.pull},
			{Method: http.MethodPost, Path: calls + longPoll, Scope: access.Consume, OwnTopics: true, Safe: true, Stream: true, Handle: a.longPoll},
			{Method: http.MethodPost, Path: calls + "ackMsg", Scope: access.Consume, OwnTopics: true, Safe: true, Handle: a.ack},
			{Method: http.MethodGet, Path: calls + "getTopicInfo", Scope: access.Read, OwnTopics: true, Handle: a.topicInfo},
			{Method: http.MethodGet, Path: calls + "getTopicInfoList", Scope: access.Read, OwnTopics: true, Handle: a.topicInfos},
			{Method: http.MethodGet, Path: calls + "getMonitorData", Scope: access.Read, Handle: a.monitorData},
			{Method: http.MethodGet, Path: calls + "getMonitorString", Scope: access.Read, Handle: a.monitorText},
		}, a.health()...),
	}
}

// withoutToken returns the path of a call for one that begins with /camellia/TOKEN.
func withoutToken(escaped string) string {
	if _, call, ok := strings.Cut(strings.TrimPrefix(escaped, prefix), prefix); ok {
		return prefix + call
	}
	return escaped
}

// authorization takes the token from the header or from the path: the SDK sends no header.
func authorization(r *http.Request) string {
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		return strings.Join(values, ", ")
	}
	rest, _ := strings.CutPrefix(r.RequestURI, prefix)
	if token, _, ok := strings.Cut(rest, prefix); ok {
		if token, err := url.PathUnescape(strings.TrimSuffix(token, "/")); err == nil {
			return "Bearer " + token
		}
	}
	return ""
}

// The codes of answers.
const (
	success    = 200
	paramWrong = 400
	notExists  = 404
	unknown    = 500
)

// members are the parts that answers have beside code and msg.
var members = map[string]string{"sendMsg": "delayMsg", "getMsg": "delayMsg", "pullMsg": "delayMsgList", "getTopicInfo": "data", "getTopicInfoList": "data"}

// answer writes an answer with a code. Its msg is text, or null.
func answer(c *httpapi.Call, code int, text string, value any) error {
	a := map[string]any{"code": code, "msg": nil}
	if text != "" {
		a["msg"] = text
	}
	if member := members[path.Base(c.Request.URL.Path)]; member != "" {
		a[member] = value
	}
	return c.WriteJSON(http.StatusOK, a)
}

func answerOK(c *httpapi.Call, value any) error { return answer(c, success, "success", value) }

// answerText writes an answer that the original writes as text.
func answerText(c *httpapi.Call, value any) error {
	body := httpapi.Buffer()
	defer httpapi.Release(body)
	if err := httpapi.Encode(body, value); err != nil {
		return err
	}
	return c.Write(http.StatusOK, "text/plain;charset=UTF-8", body.Bytes())
}

// errorPause is the time after which a long poll is answered with an error: the SDK polls again at
// once.
const errorPause = time.Second

// writeError answers with an error. The SDK reads codes of answers with the status 200 only, so
// other statuses are those of the framework in front of the original.
func (a *api) writeError(c *httpapi.Call, e *httpapi.Error) error {
	if path.Base(c.Request.URL.Path) == longPoll {
		_ = job.Sleep(context.WithoutCancel(c.Context()), a.Clock, errorPause) // does not end before
	}
	switch e.Code {
	case httpapi.CodeMalformedJSON, httpapi.CodeNotFound, httpapi.CodeMethodNotAllowed:
		return a.writeStatus(c, e.Code.Status, "")
	case httpapi.CodeUnauthorized, httpapi.CodeForbidden, httpapi.CodeBodyTooLarge, httpapi.CodeRateLimited:
		return a.writeStatus(c, e.Code.Status, e.Detail)
	case httpapi.CodeJobNotFound:
		return answer(c, notExists, "", nil)
	case httpapi.CodeInvalidRequest:
		return answer(c, paramWrong, textOf(e), nil)
	}
	return answer(c, unknown, e.Detail, nil)
}

func (a *api) writeStatus(c *httpapi.Call, status int, detail string) error {
	body := map[string]any{
		"timestamp": a.Clock.Now().UTC().Format("2006-01-02T15:04:05.000+00:00"), "status": status,
		"error": http.StatusText(status), "path": c.Request.URL.Path,
	}
	if detail != "" {
		body["message"] = detail
	}
	return c.WriteJSON(status, body)
}

// parameterOf are the parameters by the fields of the domain.
var parameterOf = map[string]string{
	"id": "msgId", "body": "msg", "body_text": "msg", "delay": "delayMillis", "ttl": "delayMillis and ttlMillis together", "retry": "maxRetry",
}

func textOf(e *httpapi.Error) string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		name, _, _ := strings.Cut(strings.TrimPrefix(f.Pointer, "/"), "/")
		parts[i] = cmp.Or(parameterOf[name], name) + " " + f.Message
	}
	return strings.Join(parts, "; ")
}

// idle is how long no call for messages may have come before a server that is offline may stop.
const idle = 20 * time.Second

// health are the calls of load balancers and of scripts that stop a server.
func (a *api) health() (routes []httpapi.Route) {
	says := func(c *httpapi.Call, well bool) error {
		status := http.StatusOK
		if !well {
			status = http.StatusInternalServerError
		}
		return c.WriteJSON(status, map[string]int{"code": status})
	}
	for name, call := range map[string]httpapi.Route{
		"check":  {Scope: access.Public, Handle: func(c *httpapi.Call) error { return says(c, true) }},
		"status": {Scope: access.Public, Handle: func(c *httpapi.Call) error { return says(c, !a.offline.Load() && c.Ready() == nil) }},
		"online": {Scope: access.Admin, Changes: true, Handle: func(c *httpapi.Call) error { a.offline.Store(false); return says(c, true) }},
		"offline": {Scope: access.Admin, Changes: true, Handle: func(c *httpapi.Call) error {
			a.offline.Store(true)
			return says(c, a.now().Sub(job.Instant(a.used.Load())) > idle)
		}},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
			call.Method, call.Path = method, prefix+"health/"+name
			routes = append(routes, call)
		}
	}
	return routes
}

func (a *api) now() job.Instant { return job.InstantOf(a.Clock.Now()) }
