package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/duehook/duehook/job"
)

// answer is what the receiver says to a callback.
type answer struct {
	Status int    `json:"status"`
	Body   string `json:"body"`
}

func (a answer) String() string { return fmt.Sprintf("%d %q", a.Status, a.Body) }

// delivery is one callback that arrived.
type delivery struct {
	jobID     string
	webhookID string
	attempt   int
	dueAt     time.Time
	body      []byte
	// arrived and answered are the story's times before and after the
	// receiver made up its answer, so before the answer was on its way.
	arrived  time.Time
	answered time.Time
	answer   answer
}

// receiver is the web server that duehook calls back.
type receiver struct {
	url   string
	clock job.Clock
	// decide makes up the answer; calls do not overlap.
	decide func(delivery) answer
	// arrivals reports each delivery. It needs no reader.
	arrivals chan delivery

	server *http.Server
	done   chan error

	mu   sync.Mutex
	seen []delivery
}

// maxArrivals is more than the stories can cause.
const maxArrivals = 4096

func startReceiver(ctx context.Context, clock job.Clock, decide func(delivery) answer) (*receiver, error) {
	var listen net.ListenConfig
	ln, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo: the receiver cannot listen: %w", err)
	}
	r := &receiver{
		url: "http://" + ln.Addr().String(), clock: clock, decide: decide,
		arrivals: make(chan delivery, maxArrivals), done: make(chan error, 1),
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: apiTimeout}
	go func() { r.done <- r.server.Serve(ln) }()
	return r, nil
}

// stop ends the server and waits for it.
func (r *receiver) stop() error {
	err := r.server.Close()
	if served := <-r.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	d := delivery{
		jobID:     req.Header.Get("Duehook-Job-Id"),
		webhookID: req.Header.Get("Webhook-Id"),
		arrived:   r.clock.Now(),
	}
	var err error
	if d.body, err = io.ReadAll(req.Body); err != nil {
		return // the connection broke
	}
	// What cannot be read stays zero, and fails the checks.
	d.attempt, _ = strconv.Atoi(req.Header.Get("Duehook-Attempt"))
	d.dueAt, _ = time.Parse(time.RFC3339, req.Header.Get("Duehook-Due-At"))
	d = r.keep(d)
	w.WriteHeader(d.answer.Status)
	_, _ = io.WriteString(w, d.answer.Body) // a broken connection shows as a failed attempt
}

func (r *receiver) keep(d delivery) delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	d.answer = r.decide(d)
	d.answered = r.clock.Now()
	r.seen = append(r.seen, d)
	select {
	case r.arrivals <- d:
	default: // it is in seen
	}
	return d
}

// deliveries are those of one job, in the order of their arrival.
func (r *receiver) deliveries(jobID string) []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	var of []delivery
	for _, d := range r.seen {
		if d.jobID == jobID {
			of = append(of, d)
		}
	}
	return of
}
