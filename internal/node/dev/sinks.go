package dev

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/duehook/duehook/dispatcher"
)

// sinkHost is the host of URLs that lead to sinks: http://sink/NAME/any/path. All of them are one
// endpoint, with one circuit. http://NAME.sink/any/path is an endpoint of the sink's own.
const sinkHost = "sink"

// Bounds on sinks.
const (
	MaxSinks    = 1_000
	MaxAnswers  = 100
	maxName     = 100 // bytes
	MaxDelay    = 24 * time.Hour
	maxRequests = 10_000   // kept of all sinks; the oldest go first
	maxBytes    = 64 << 20 // of their paths, headers and bodies
)

// ErrNoSink is returned for a name that no sink has.
var ErrNoSink = errors.New("there is no such sink")

// ErrTooManySinks reports that there are MaxSinks.
var ErrTooManySinks = fmt.Errorf("there are %d sinks, the most", MaxSinks)

// Answer is what a sink answers to one request.
type Answer struct {
	Status  int               `json:"status"`
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
	// Delay is how long the sink waits before it answers, by the clock of the node.
	Delay time.Duration `json:"-"`
}

// Request is one that a sink got.
type Request struct {
	At     time.Time // by the clock of the node
	Method string
	Path   string // what follows the name of the sink, with the query
	// Headers have names in lower case. Several values are joined by ", ".
	Headers map[string]string
	Body    []byte
	// Signature is valid, invalid or none.
	Signature string
}

// size is what a request counts for maxBytes.
func (r *Request) size() int {
	n := len(r.Path) + len(r.Body)
	for name, value := range r.Headers {
		n += len(name) + len(value)
	}
	return n
}

// Sink is a receiver in the process, as it is at one time.
type Sink struct {
	Name     string
	Answers  []Answer // one for each request; the last repeats; none: 200
	Total    int      // of the requests that it got
	Requests []Request
}

// ErrSinkName reports a name that no sink can have.
var ErrSinkName = fmt.Errorf("a sink has a name of 1 to %d bytes: http://sink/NAME", maxName)

// sink is a Sink and its place in its answers.
type sink struct {
	Sink
	next int
}

// Sinks take deliveries. They are safe for concurrent use.
type Sinks struct {
	clock  *Clock
	signer dispatcher.Signer // nil: deliveries are not signed

	mu    sync.Mutex
	named map[string]*sink
	order []*sink // of each kept request, oldest first
	bytes int
}

func newSinks(clock *Clock) *Sinks { return &Sinks{clock: clock, named: map[string]*sink{}} }

// Put sets the answers of a sink from its next request on, and reports whether the sink is new.
// It keeps its requests.
func (s *Sinks) Put(name string, answers []Answer) (created bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.named[name]
	k, err := s.ensure(name)
	if err != nil {
		return false, err
	}
	k.Answers, k.next = slices.Clone(answers), 0
	return !known, nil
}

// ensure finds or makes a sink. The lock is held.
func (s *Sinks) ensure(name string) (*sink, error) {
	k := s.named[name]
	if k == nil {
		if name == "" || len(name) > maxName {
			return nil, ErrSinkName
		}
		if len(s.named) == MaxSinks {
			return nil, ErrTooManySinks
		}
		k = &sink{Sink: Sink{Name: name}}
		s.named[name] = k
	}
	return k, nil
}

// Get returns a sink. Its parts must not be changed.
func (s *Sinks) Get(name string) (Sink, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.named[name]
	if k == nil {
		return Sink{}, ErrNoSink
	}
	view := k.Sink
	view.Requests = slices.Clone(view.Requests)
	return view, nil
}

// List returns all sinks by name, without their requests.
func (s *Sinks) List() []Sink {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Sink, 0, len(s.named))
	for _, k := range s.named {
		view := k.Sink
		view.Requests = nil
		list = append(list, view)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// Delete forgets a sink and its requests.
func (s *Sinks) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.named[name]
	if k == nil {
		return
	}
	for i := range k.Requests {
		s.bytes -= k.Requests[i].size()
	}
	s.order = slices.DeleteFunc(s.order, func(of *sink) bool { return of == k })
	delete(s.named, name)
}

// take keeps a request and returns the sink's answer to it.
func (s *Sinks) take(name string, r Request) (Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.ensure(name) // a sink that nobody has set answers, too
	if err != nil {
		return Answer{}, err
	}
	k.Requests = append(k.Requests, r)
	k.Total++
	s.order = append(s.order, k)
	s.bytes += r.size()
	for len(s.order) > maxRequests || s.bytes > maxBytes {
		oldest := s.order[0]
		s.bytes -= oldest.Requests[0].size()
		oldest.Requests[0], s.order[0] = Request{}, nil
		oldest.Requests, s.order = oldest.Requests[1:], s.order[1:]
	}
	if len(k.Answers) == 0 {
		return Answer{Status: http.StatusOK}, nil
	}
	a := k.Answers[min(k.next, len(k.Answers)-1)]
	k.next++
	return a, nil
}

// timeoutKey is the key of a request's timeout in its context.
type timeoutKey struct{}

// RoundTrip answers a delivery. A delay, and the job's timeout, pass by the clock of the node.
func (s *Sinks) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{}) // what fails from now on is the answer
	}
	name, r, err := s.read(req)
	if err != nil {
		return nil, err
	}
	a, err := s.take(name, r)
	if err != nil {
		a = Answer{Status: http.StatusServiceUnavailable, Body: err.Error()}
	}
	if a.Delay > 0 {
		timeout, limited := ctx.Value(timeoutKey{}).(time.Duration)
		late := limited && timeout <= a.Delay
		wait := a.Delay
		if late {
			wait = timeout
		}
		if err := s.clock.sleep(ctx, r.At.Add(wait)); err != nil {
			return nil, err
		}
		if late {
			return nil, timeoutError{}
		}
	}
	return a.response(req), nil
}

// timeoutError is a timeout of the network as net/http reports it.
type timeoutError struct{}

func (timeoutError) Error() string   { return "the sink did not answer in time" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// read reads a request, and the name of its sink.
func (s *Sinks) read(req *http.Request) (name string, r Request, err error) {
	r = Request{At: s.clock.Now(), Method: req.Method, Headers: map[string]string{}}
	rest := strings.TrimPrefix(req.URL.EscapedPath(), "/")
	name, own := strings.CutSuffix(req.URL.Hostname(), "."+sinkHost)
	if !own {
		name, rest, _ = strings.Cut(rest, "/")
	}
	if name, err = url.PathUnescape(name); err != nil {
		return "", r, err
	}
	r.Path = "/" + rest
	if req.URL.RawQuery != "" {
		r.Path += "?" + req.URL.RawQuery
	}
	for key, values := range req.Header {
		if len(values) > 0 {
			r.Headers[strings.ToLower(key)] = strings.Join(values, ", ")
		}
	}
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }()
		if r.Body, err = io.ReadAll(req.Body); err != nil { // bounded: the body of a job
			return "", r, err
		}
	}
	r.Signature = s.signature(req.Context(), req.Header, r.Body)
	return name, r, nil
}

// signature compares the signature of a request with the one that the node makes.
func (s *Sinks) signature(ctx context.Context, h http.Header, body []byte) string {
	given := h.Get("Webhook-Signature")
	if given == "" {
		return "none"
	}
	seconds, err := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64)
	topic, escape := url.PathUnescape(h.Get("Duehook-Topic"))
	if s.signer == nil || err != nil || escape != nil {
		return "invalid"
	}
	made, err := s.signer.Sign(ctx, topic, h.Get("Webhook-Id"), time.Unix(seconds, 0), body)
	if err != nil {
		return "invalid"
	}
	for _, one := range strings.Fields(given) {
		if slices.Contains(strings.Fields(made), one) {
			return "valid"
		}
	}
	return "invalid"
}

func (a *Answer) response(req *http.Request) *http.Response {
	h := http.Header{}
	for name, value := range a.Headers {
		h.Set(name, value)
	}
	body := io.NopCloser(bytes.NewReader([]byte(a.Body)))
	if a.Body == "" {
		body = http.NoBody
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)), StatusCode: a.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Body: body, ContentLength: int64(len(a.Body)), Request: req,
	}
}

// text is a body as JSON can have it: as it is, or else in base64.
func text(body []byte) (plain, encoded string) {
	if utf8.Valid(body) {
		return string(body), ""
	}
	return "", base64.StdEncoding.EncodeToString(body)
}
