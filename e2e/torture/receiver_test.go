package torture

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/job"
)

// endpoints are the receivers of a run.
type endpoints struct {
	all []*receiver.Receiver

	mu        sync.Mutex
	recovered map[job.Key]bool
	snoozed   map[job.Key]bool
	seen      map[string]int // arrivals, by job and attempt
}

// againHold is how long the answer to an attempt takes at least that comes
// again: its first worker may come back with a stale token.
// It leaves a busy machine some time before the timeout.
const againHold = 1200 * time.Millisecond

func startEndpoints(t testing.TB, n int) *endpoints {
	t.Helper()
	e := &endpoints{recovered: map[job.Key]bool{}, snoozed: map[job.Key]bool{}, seen: map[string]int{}}
	for range n {
		e.all = append(e.all, receiver.Start(t, e.answer))
	}
	return e
}

func (e *endpoints) urls() []string {
	var urls []string
	for _, r := range e.all {
		urls = append(urls, r.URL())
	}
	return urls
}

// recover makes the receiver of a job accept it from now on.
func (e *endpoints) recover(key job.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recovered[key] = true
}

// answer does what the job's body asks for.
func (e *endpoints) answer(d receiver.Delivery) receiver.Answer {
	var b behaviour
	if err := json.Unmarshal([]byte(d.Body), &b); err != nil {
		return receiver.Answer{Status: http.StatusTeapot} // the audit finds it
	}
	key := job.Key{Topic: d.Topic, ID: d.ID}
	e.mu.Lock()
	recovered, snooze := e.recovered[key], b.Snooze && !e.snoozed[key]
	if snooze {
		e.snoozed[key] = true
	}
	attempt := d.UID + "/" + strconv.Itoa(d.Attempt)
	e.seen[attempt]++
	repeated := e.seen[attempt] > 1
	e.mu.Unlock()
	a := receiver.Answer{Hold: time.Duration(b.Hold) * time.Millisecond}
	if repeated && (b.Fail == 0 || b.Status != 0) { // the others have a short timeout
		a.Hold = max(a.Hold, againHold)
	}
	switch {
	case snooze:
		a.Status = http.StatusServiceUnavailable
		a.Header = map[string]string{"Duehook-Action": "snooze", "Retry-After": "1"}
	case d.Attempt <= b.Fail && !recovered && b.Status == 0:
		a.Hold = time.Minute
	case d.Attempt <= b.Fail && !recovered:
		a.Status = b.Status
		if b.Reschedule {
			a.Header = map[string]string{"Duehook-Action": "reschedule", "Duehook-At": rescheduledTo(d).Format(time.RFC3339Nano)}
		}
	}
	return a
}

// rescheduleAfter leaves a busy machine time to answer before it is over.
const rescheduleAfter = 3 * time.Second

// rescheduledTo is the time that the answer to a delivery asks for.
func rescheduledTo(d receiver.Delivery) time.Time {
	return d.Arrived.Add(rescheduleAfter).Truncate(time.Millisecond).UTC()
}

// deliveries are those of all receivers, by job, in the order of arrival.
func (e *endpoints) deliveries() map[job.Key][]receiver.Delivery {
	byJob := map[job.Key][]receiver.Delivery{}
	for _, r := range e.all {
		for _, d := range r.Deliveries() {
			key := job.Key{Topic: d.Topic, ID: d.ID}
			byJob[key] = append(byJob[key], d)
		}
	}
	return byJob
}
