package qstash

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/services/access"
)

// Name is the name of the dialect, and the topic of messages without a queue or a flow-control
// key.
const Name = "qstash"

const prefix = "/v2/"

// Options are the services behind the calls. MaxBatchBytes and Clock have defaults.
type Options struct {
	App       *app.App
	Schedules *schedules.Manager
	Groups    *groups.Manager
	Topics    *topics.Manager
	Keys      Keys // nil: deliveries are not signed
	Clock     job.Clock
	// MaxBatchBytes bounds the request of a batch; zero means 16 MiB.
	MaxBatchBytes int64
}

type api struct{ Options }

// New returns the dialect.
func New(o Options) httpapi.Dialect {
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.MaxBatchBytes = cmp.Or(o.MaxBatchBytes, 16<<20)
	a := &api{o}
	return httpapi.Dialect{
		Prefix: prefix, Path: path, Authorization: authorization, WriteError: writeError,
		Routes: []httpapi.Route{
			registers("publish/*", a.publish),
			registers("enqueue/{queue}/*", a.enqueue),
			registers("batch", a.batch),
			read("messages/{id}", a.message),
			write("DELETE", "messages/{id}", a.cancel),
			write("DELETE", "messages", a.cancelMany),
			read("queues", a.queues),
			write("POST", "queues", a.upsertQueue),
			read("queues/{name}", a.queue),
			write("DELETE", "queues/{name}", a.deleteQueue),
			write("POST", "queues/{name}/pause", a.pausing(true)),
			write("POST", "queues/{name}/resume", a.pausing(false)),
			read("topics", a.urlGroups),
			read("topics/{name}", a.urlGroup),
			write("DELETE", "topics/{name}", a.deleteURLGroup),
			write("POST", "topics/{name}/endpoints", a.addEndpoints),
			write("DELETE", "topics/{name}/endpoints", a.removeEndpoints),
			write("POST", "schedules/*", a.createSchedule),
			read("schedules", a.schedules),
			read("schedules/{id}", a.schedule),
			write("DELETE", "schedules/{id}", a.deleteSchedule),
			write("PATCH", "schedules/{id}/pause", a.pausingSchedule(true)),
			write("PATCH", "schedules/{id}/resume", a.pausingSchedule(false)),
			write("POST", "schedules/{id}/pause", a.pausingSchedule(true)),
			write("POST", "schedules/{id}/resume", a.pausingSchedule(false)),
			read("dlq", a.deadLetters),
			read("dlq/{id}", a.deadLetter),
			write("DELETE", "dlq", a.deleteDeadLetters),
			write("DELETE", "dlq/{id}", a.deleteDeadLetter),
			write("POST", "dlq/retry", a.retryDeadLetters),
			write("POST", "dlq/retry/{id}", a.retryDeadLetter),
			read("events", a.events),
			read("logs", a.events),
			read("flowControl", a.flowKeys),
			read("flowControl/*", a.flowKey),
			write("POST", "flowControl/*", a.changeFlowKey),
			read("globalParallelism", unavailable("The server's --workers bounds deliveries; there is no global parallelism to read.")),
			route(access.Admin, "GET", "keys", a.keys),
			route(access.Admin, "POST", "keys/rotate", a.rotateKeys),
		},
	}
}

type routed func(*httpapi.Call) error

func route(scope access.Scope, method, path string, handle routed) httpapi.Route {
	return httpapi.Route{Method: method, Path: prefix + path, Scope: scope, Handle: handle}
}

func read(path string, handle routed) httpapi.Route { return route(access.Read, "GET", path, handle) }

func write(method, path string, handle routed) httpapi.Route {
	return route(access.Write, method, path, handle)
}

func registers(path string, handle routed) httpapi.Route {
	r := write("POST", path, handle)
	r.Registers = true
	return r
}

// words are the first words of paths in the form of the routes; clients write them in any case.
var words = func() map[string]string {
	byLower := map[string]string{}
	for _, word := range []string{
		"publish", "enqueue", "batch", "messages", "queues", "topics", "schedules", "dlq", "events", "logs", "flowControl", "globalParallelism", "keys",
	} {
		byLower[strings.ToLower(word)] = word
	}
	return byLower
}()

// path returns the path of a route: with the first word in its form, and without a final slash,
// unless that belongs to a destination or a flow-control key.
func path(escaped string) string {
	word, rest, more := strings.Cut(strings.TrimPrefix(escaped, prefix), "/")
	word = cmp.Or(words[strings.ToLower(word)], word)
	if !more || rest == "" {
		return prefix + word
	}
	switch word {
	case "publish", "enqueue", "flowControl":
	default:
		if !strings.Contains(rest, ":/") {
			rest = strings.TrimSuffix(rest, "/")
		}
	}
	return prefix + word + "/" + rest
}

// authorization takes the token from the header or from the query.
func authorization(r *http.Request) string {
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		return strings.Join(values, ", ")
	}
	if token := r.URL.Query().Get(tokenParameter); token != "" {
		return "Bearer " + token
	}
	return ""
}

// refused is an error that the client has to mend. It repeats no more than the beginning of what
// the client wrote.
func refused(format string, args ...any) error {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = httpapi.Shorten(text)
		}
	}
	return &httpapi.Error{Code: httpapi.CodeInvalidRequest, Detail: fmt.Sprintf(format, args...)}
}

func notFound(what, name string) error {
	return &httpapi.Error{Code: httpapi.CodeJobNotFound, Detail: fmt.Sprintf("%s %s not found", what, name)}
}

// unavailable answers a call that cannot be had.
func unavailable(why string) routed {
	return func(*httpapi.Call) error {
		return &httpapi.Error{Code: httpapi.CodeInvalidRequest, Detail: "This call is not available here. " + why}
	}
}

// headerOf are the settings of messages by the fields of the domain.
var headerOf = map[string]string{
	"id": idHeader, "url": "invalid destination url:", "timeout": "Upstash-Timeout (bounded by --max-timeout)", "delay": "Upstash-Delay", "at": "Upstash-Not-Before",
	"retry": "Upstash-Retries", "labels": "Upstash-Label", "headers": "Upstash-Forward-", "method": "Upstash-Method",
	"content_type": "Content-Type", "cron": "Upstash-Cron:", "timezone": "Upstash-Cron: the zone", "job": "the message:",
}

// writeError answers with an error in the form that all SDKs read.
func writeError(c *httpapi.Call, e *httpapi.Error) error {
	status, text := errorOf(e)
	if status == http.StatusTooManyRequests {
		// The SDKs take other headers for the limit of a day.
		for _, name := range []string{"Limit", "Remaining", "Reset"} {
			c.Header().Set("Burst-RateLimit-"+name, "0")
		}
	}
	return c.WriteJSON(status, map[string]string{"error": text})
}

// errorOf is the status and the text of an error.
func errorOf(e *httpapi.Error) (status int, text string) {
	status, text = e.Code.Status, e.Detail
	switch status {
	case http.StatusUnprocessableEntity, http.StatusConflict, http.StatusUnsupportedMediaType:
		status = http.StatusBadRequest
	}
	if e.Code == httpapi.CodeNotFound || e.Code == httpapi.CodeMethodNotAllowed {
		text = "This server's QStash dialect does not have this call; docs/migrate/qstash.md lists the ones it has."
	}
	if len(e.Fields) > 0 {
		parts := make([]string, len(e.Fields))
		for i, f := range e.Fields {
			parts[i] = namedField(f.Pointer) + " " + f.Message
		}
		text = strings.Join(parts, "; ")
	}
	return status, text
}

// namedField is a field of the domain as the client knows it.
func namedField(pointer string) string {
	parts := strings.Split(strings.Trim(pointer, "/?"), "/")
	if parts[0] == "job" && len(parts) > 1 {
		parts = parts[1:]
	}
	switch name, known := headerOf[parts[0]]; {
	case parts[0] == "callbacks" && len(parts) > 1 && parts[1] == string(job.CallbackDead):
		return "Upstash-Failure-Callback"
	case parts[0] == "callbacks":
		return "Upstash-Callback"
	case parts[0] == "headers" && len(parts) > 1:
		return name + parts[1]
	case known:
		return name
	}
	return strings.Join(parts, ".")
}

// maxParts bounds the names and values of a body that is decoded as a whole: a group has at most 1,000 members, a call 100 ids.
// A short name and value take a hundred times their bytes.
const maxParts = 20_000

// jsonOf reads a JSON body leniently; without one, into stays as it is.
func jsonOf(c *httpapi.Call, limit int64, into any) error {
	body, err := c.ReadBody(limit)
	if err != nil {
		return err
	}
	defer httpapi.Release(body)
	if _, whole := into.(*json.RawMessage); !whole && jsonio.Parts(body.Bytes(), maxParts) > maxParts {
		return refused("the body has more than %d names and values; name fewer at a time", maxParts)
	}
	return decoded(body.Bytes(), into)
}

// done answers a call whose answer no client reads.
func done(c *httpapi.Call) error { return c.Write(http.StatusOK, httpapi.MIMEJSON, nil) }

// list reads a parameter that may be repeated and separated by commas.
func list(q url.Values, names ...string) (all []string) {
	for _, name := range names {
		for _, value := range q[name] {
			for part := range strings.SplitSeq(value, ",") {
				if part = strings.TrimSpace(part); part != "" {
					all = append(all, part)
				}
			}
		}
	}
	return all
}
