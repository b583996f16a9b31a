// Package receiver is a webhook receiver that writes down all that it gets.
package receiver

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Delivery is one request of duehook's.
type Delivery struct {
	UID       string // webhook-id
	Topic, ID string
	Attempt   int       // Duehook-Attempt
	Due       time.Time // Duehook-Due-At: when this attempt was due
	Body      string
	Arrived   time.Time
	// Answered is when the answer was written; zero if it could not be.
	Answered time.Time
	Status   int
	// Closed is when the connection was seen to have ended, zero if it has not
	// yet. A killed node's connections end with it.
	Closed time.Time
}

// Answer is what the receiver answers.
type Answer struct {
	Status int // zero: 200
	Header map[string]string
	Body   string
	// Hold holds the answer back for so long, or until the client gives up.
	Hold time.Duration
}

// Plan decides on the answer to a delivery. It is called concurrently.
type Plan func(d Delivery) Answer

// Accept is the plan that accepts everything.
func Accept(Delivery) Answer { return Answer{} }

// Receiver records deliveries. It is safe for concurrent use.
type Receiver struct {
	server *httptest.Server
	clock  job.Clock
	plan   Plan

	mu         sync.Mutex
	deliveries []recorded
	accepted   map[string]int // number of 2xx answers, by topic/id
	closed     map[net.Conn]time.Time
	problems   []string
}

// recorded is a delivery with the connection that it came by.
type recorded struct {
	Delivery
	conn net.Conn
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// Start serves on a free loopback port until the test ends.
func Start(t testing.TB, plan Plan) *Receiver {
	t.Helper()
	r := &Receiver{
		clock: job.SystemClock(), plan: plan,
		accepted: map[string]int{}, closed: map[net.Conn]time.Time{},
	}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	r.server.Config.ConnState = r.connState
	r.server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	r.server.Start()
	t.Cleanup(func() {
		r.server.CloseClientConnections() // held answers end with their clients
		r.server.Close()
	})
	return r
}

// URL is where the receiver takes deliveries.
func (r *Receiver) URL() string { return r.server.URL + "/hook" }

// Deliveries is all that arrived so far, in the order of arrival.
func (r *Receiver) Deliveries() []Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Delivery, len(r.deliveries))
	for i, d := range r.deliveries {
		all[i] = d.Delivery
		all[i].Closed = r.closed[d.conn]
	}
	return all
}

// Of is what arrived for one job, in the order of arrival.
func (r *Receiver) Of(topic, id string) []Delivery {
	return slices.DeleteFunc(r.Deliveries(), func(d Delivery) bool { return d.Topic != topic || d.ID != id })
}

// Jobs is the number of different jobs that were answered with a 2xx.
func (r *Receiver) Jobs() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.accepted)
}

// Count is the number of deliveries that arrived.
func (r *Receiver) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.deliveries)
}

// Problems are requests that no duehook should have sent.
func (r *Receiver) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.problems)
}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) {
	arrived := r.clock.Now()
	body, err := io.ReadAll(req.Body)
	d := Delivery{
		UID:     req.Header.Get("webhook-id"),
		Topic:   unescape(req.Header.Get("Duehook-Topic")),
		ID:      unescape(req.Header.Get("Duehook-Job-Id")),
		Body:    string(body),
		Arrived: arrived,
	}
	if err != nil {
		return // the node died while sending: nothing was delivered
	}
	var badAttempt, badDue error
	d.Attempt, badAttempt = strconv.Atoi(req.Header.Get("Duehook-Attempt"))
	d.Due, badDue = time.Parse(time.RFC3339, req.Header.Get("Duehook-Due-At"))
	if badAttempt != nil || badDue != nil || d.UID == "" || d.Topic == "" || d.ID == "" || d.Attempt < 1 {
		r.complain(req)
	}
	conn, _ := req.Context().Value(connKey{}).(net.Conn)
	at := r.record(recorded{Delivery: d, conn: conn})
	answer := r.plan(d)
	if answer.Hold > 0 && job.Sleep(req.Context(), r.clock, answer.Hold) != nil {
		return
	}
	if answer.Status == 0 {
		answer.Status = http.StatusOK
	}
	for name, value := range answer.Header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(answer.Body)))
	// Written down first: the client may act on the answer before Flush returns.
	r.answered(at, answer.Status)
	w.WriteHeader(answer.Status)
	_, err = io.WriteString(w, answer.Body)
	if err != nil || http.NewResponseController(w).Flush() != nil {
		r.unanswered(at)
	}
}

func (r *Receiver) record(d recorded) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliveries = append(r.deliveries, d)
	return len(r.deliveries) - 1
}

func (r *Receiver) answered(at, status int) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	d := &r.deliveries[at]
	d.Answered, d.Status = now, status
	if status/100 == 2 {
		r.accepted[d.Topic+"/"+d.ID]++
	}
}

func (r *Receiver) unanswered(at int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := &r.deliveries[at]
	key := d.Topic + "/" + d.ID
	if d.Status/100 == 2 {
		if r.accepted[key]--; r.accepted[key] == 0 {
			delete(r.accepted, key)
		}
	}
	d.Answered, d.Status = time.Time{}, 0
}

func (r *Receiver) complain(req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, "delivery with incomplete headers: "+req.Method+" "+req.URL.Path)
}

func (r *Receiver) connState(c net.Conn, s http.ConnState) {
	if s != http.StateClosed {
		return
	}
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed[c] = now
}

// unescape gives a name that a header carries percent-encoded.
func unescape(value string) string {
	if name, err := url.PathUnescape(value); err == nil {
		return name
	}
	return value
}
