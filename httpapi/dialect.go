package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

// Dialect is one API that the server speaks: its calls, and the form of its
// errors and credentials. Each dialect has a folder of its own, such as v1.
type Dialect struct {
	// Prefix begins the paths of the dialect, which its routes write whole. WriteError also answers
	// unknown paths below it. Empty: the dialect only has the paths of its routes.
	Prefix string
	Routes []Route
	// Path returns the path of a route for a path below Prefix; both are escaped. Nil: the same.
	Path func(escaped string) string
	// Authorization returns the credentials of a request in the form of the
	// Authorization header. Nil: the header itself.
	Authorization func(*http.Request) string
	// Missing says which call is meant by a path below Prefix that does not exist; empty: none in particular.
	Missing func(path string) string
	// WriteError answers with an error. Nil: application/problem+json.
	WriteError func(*Call, *Error) error
}

// Route is one call of a dialect. The server adds a HEAD to each GET.
type Route struct {
	Method string
	Path   string // {name} stands for one segment; a final * for the rest of the path
	// Scope is what the caller's key must have. Public calls need no key.
	Scope access.Scope
	// OwnTopics says that the call limits itself to the topics of its caller, by Call.Topics.
	// Calls for the {topic} of their path need not say so: the server checks it. All other
	// calls are refused to keys that are restricted to topics.
	OwnTopics bool
	// AllTopics says that the call is refused to keys that are restricted to topics, whatever its path names.
	AllTopics bool
	// Safe says that the audit log leaves a POST out: it changes nothing, or delivers jobs.
	Safe bool
	// Changes says that a GET or OPTIONS changes something: the audit log has it, and pages of other sites
	// cannot make it.
	Changes bool
	// Registers says that the call registers jobs. It gets a span.
	Registers bool
	// Stream says that the call lasts as long as its client and the server do: no
	// time limit applies.
	Stream bool
	// Handle answers the call, or returns an error that the server answers with.
	Handle func(*Call) error
}

// Call is one request to a dialect.
type Call struct {
	Request *http.Request
	Writer  http.ResponseWriter
	// Target names what the call changes, for the audit log and the span. Empty:
	// the parameters of the path.
	Target string

	server  *Server
	caller  access.Principal
	keyed   bool
	route   *served
	context echo.Context
	undo    func()
}

// OnUnwritten has undo called if the client does not get the answer: what the call did for it must not stay.
func (c *Call) OnUnwritten(undo func()) { c.undo = undo }

// Context ends with the client, with the request's time limit or, in a stream,
// with the server.
func (c *Call) Context() context.Context { return c.Request.Context() }

// Header is the header of the answer.
func (c *Call) Header() http.Header { return c.Writer.Header() }

// SetLocation names a path of the API in the answer, relative to the request: a proxy may have taken a prefix off the path.
func (c *Call) SetLocation(path string) {
	up := strings.Repeat("../", strings.Count(c.Request.URL.EscapedPath(), "/")-1)
	c.Header().Set("Location", up+strings.TrimPrefix(path, "/"))
}

// SetResult names in the answer of a dialect what became of a registration; `duehook import` reads it.
func (c *Call) SetResult(outcome string) { c.Header().Set("Duehook-Result", outcome) }

// Param is a parameter of the path, decoded.
func (c *Call) Param(name string) string {
	value := c.context.Param(name)
	if c.Request.URL.RawPath == "" {
		return value
	}
	// The router matched the path as the client wrote it, because decoding it would lose
	// something. A part of a valid path can be decoded.
	decoded, _ := url.PathUnescape(value)
	return decoded
}

// Query is the query string, parsed.
func (c *Call) Query() url.Values { return c.context.QueryParams() }

// Flag reads a setting of a dialect that is true or false. Without a value, it is false.
func Flag(name, value string) (bool, error) {
	is := strings.EqualFold(value, "true")
	if !is && value != "" && !strings.EqualFold(value, "false") {
		return false, Invalid(FieldError{Pointer: name, Message: "must be true or false"})
	}
	return is, nil
}

// ClientIP is the address of the client, or of the proxy before the server.
func (c *Call) ClientIP() string { return c.context.RealIP() }

// Caller is who is calling. It reports false if the server has no keys.
func (c *Call) Caller() (access.Principal, bool) { return c.caller, c.keyed }

// Topics are the topics to which the caller is restricted; empty: none in particular.
func (c *Call) Topics() job.TopicSet { return c.caller.Topics }

// Allow checks a scope that the call needs only for some requests.
func (c *Call) Allow(scope access.Scope) error {
	if !c.keyed {
		return nil
	}
	return c.caller.Allows(scope)
}
