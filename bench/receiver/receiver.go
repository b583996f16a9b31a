// Package receiver is the webhook receiver of all contenders: a process of its
// own that notes when each job arrives.
package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/bench/stats"
	"github.com/duehook/duehook/internal/job"
)

// Report is what arrived since Expect.
type Report struct {
	Accepted int // different jobs that were answered with 200
	Repeated int // requests for jobs that had been accepted
	Failed   int // requests that were answered with 500, as they were to be
	Strange  int // requests that are none of the expected jobs
	// First is when the first request came, Last when the last of the accepted.
	First, Last time.Time
	// Received − due of the accepted.
	P50, P99, Max, Earliest time.Duration
}

// Receiver is an http.Handler that takes deliveries at any path but those that
// control it.
type Receiver struct {
	clock job.Clock
	round atomic.Pointer[round]
	pool  sync.Pool // of *bytes.Buffer
}

// round is the jobs of one Expect.
type round struct {
	failFirst bool
	failed    []atomic.Bool  // by job, if failFirst
	arrived   []atomic.Int64 // by job: nanoseconds since the epoch; 0: not yet
	due       []atomic.Int64 // by job: the same

	first atomic.Int64 // when the first request came, if it was to fail

	accepted, repeated, failures, strange atomic.Int64
	done                                  chan struct{}
}

// New is a receiver that expects nothing yet.
func New(clock job.Clock) *Receiver {
	r := &Receiver{clock: clock, pool: sync.Pool{New: func() any { return new(bytes.Buffer) }}}
	r.round.Store(newRound(0, false))
	return r
}

func newRound(jobs int, failFirst bool) *round {
	return &round{
		failFirst: failFirst, failed: make([]atomic.Bool, jobs), arrived: make([]atomic.Int64, jobs),
		due: make([]atomic.Int64, jobs), done: make(chan struct{}),
	}
}

// Handler serves deliveries, and the calls of a Client.
func (r *Receiver) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /control/expect", r.expect)
	mux.HandleFunc("GET /control/report", r.report)
	mux.HandleFunc("POST "+CallbackPath+"{n}", r.callback)
	mux.HandleFunc("POST /", r.deliver)
	return mux
}

// CallbackPath is the path of callbacks, without their numbers. They are counted as jobs with
// these numbers.
const CallbackPath = "/callback/"

func (r *Receiver) callback(w http.ResponseWriter, req *http.Request) {
	now := r.clock.Now()
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return
	}
	n, err := strconv.Atoi(req.PathValue("n"))
	if !r.round.Load().note(n, now, err, now) {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (r *Receiver) deliver(w http.ResponseWriter, req *http.Request) {
	now := r.clock.Now()
	b := r.pool.Get().(*bytes.Buffer)
	defer r.pool.Put(b)
	b.Reset()
	if _, err := b.ReadFrom(io.LimitReader(req.Body, 1<<20)); err != nil {
		return
	}
	if !r.round.Load().take(b.Bytes(), now) {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// take notes an arrival, and reports whether it is accepted.
func (r *round) take(body []byte, now time.Time) bool {
	n, due, err := parse(body)
	return r.note(n, due, err, now)
}

// note notes the arrival of a job with a number, unless err says that it has none.
func (r *round) note(n int, due time.Time, err error, now time.Time) bool {
	if err != nil || n < 0 || n >= len(r.arrived) {
		r.strange.Add(1)
		return true
	}
	if r.failFirst && r.failed[n].CompareAndSwap(false, true) {
		r.first.CompareAndSwap(0, now.UnixNano())
		r.failures.Add(1)
		return false
	}
	r.due[n].Store(due.UnixNano())
	if !r.arrived[n].CompareAndSwap(0, now.UnixNano()) {
		r.repeated.Add(1)
		return true
	}
	if int(r.accepted.Add(1)) == len(r.arrived) {
		close(r.done)
	}
	return true
}

func (r *Receiver) expect(w http.ResponseWriter, req *http.Request) {
	jobs, err := strconv.Atoi(req.FormValue("jobs"))
	if err != nil || jobs < 1 {
		http.Error(w, "jobs is to be a number", http.StatusBadRequest)
		return
	}
	r.round.Store(newRound(jobs, req.FormValue("fail_first") == "true"))
}

func (r *Receiver) report(w http.ResponseWriter, req *http.Request) {
	wait, err := time.ParseDuration(req.FormValue("wait"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	round := r.round.Load()
	ctx, cancel := context.WithTimeout(req.Context(), wait)
	defer cancel()
	select {
	case <-round.done:
	case <-ctx.Done():
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(round.sum()) // to a client that is gone
}

// sum is meant for when nothing arrives any more.
func (r *round) sum() Report {
	s := Report{
		Accepted: int(r.accepted.Load()), Repeated: int(r.repeated.Load()),
		Failed: int(r.failures.Load()), Strange: int(r.strange.Load()),
	}
	if at := r.first.Load(); at != 0 {
		s.First = time.Unix(0, at)
	}
	var late []float64
	for n := range r.arrived {
		at := r.arrived[n].Load()
		if at == 0 {
			continue
		}
		arrived := time.Unix(0, at)
		if s.First.IsZero() || arrived.Before(s.First) {
			s.First = arrived
		}
		if arrived.After(s.Last) {
			s.Last = arrived
		}
		late = append(late, float64(at-r.due[n].Load()))
	}
	if len(late) == 0 {
		return s
	}
	slices.Sort(late)
	at := func(q float64) time.Duration { return time.Duration(stats.Quantile(late, q)) }
	s.P50, s.P99, s.Max, s.Earliest = at(0.5), at(0.99), at(1), at(0)
	return s
}
