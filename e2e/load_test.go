package e2e

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// load is a stream of registrations by careful clients: a call that was not
// answered for certain, or with 503, is made again, at another node, until it
// is.
type load struct {
	topic string
	url   string // of the receiver
	jobs  int
	// over is the time that the registrations are spread over evenly, and
	// maxDelay the longest time from a registration to its due time.
	over, maxDelay time.Duration
	pick           func() string // the address of a node, or empty
	again          time.Duration // from one try to the next; zero: retryPause

	mu           sync.Mutex
	acknowledged map[string]ack // by id
	unavailable  []answer       // every 503
}

// ack is the answer that a client got.
type ack struct {
	uid   string
	tries int
}

const (
	loadClients = 32
	// loadLimit is how long a load may take beyond its time.
	loadLimit = 3 * time.Minute
	// retryPause is short, so that an outage does not end the load that it is
	// to be seen under.
	retryPause = 20 * time.Millisecond
)

// run registers all jobs and returns when each was acknowledged.
func (l *load) run(t testing.TB, rnd *rand.Rand) {
	t.Helper()
	l.acknowledged = make(map[string]ack, l.jobs)
	ctx, cancel := context.WithTimeout(t.Context(), l.over+loadLimit)
	defer cancel()
	queue := make(chan registration)
	var clients sync.WaitGroup
	for range loadClients {
		clients.Go(func() {
			for r := range queue {
				if err := l.register(ctx, r); err != nil {
					t.Errorf("job %s was not acknowledged: %v", r.ID, err)
				}
			}
		})
	}
	l.feed(ctx, rnd, queue)
	close(queue)
	clients.Wait()
}

// start is run in the background, with random numbers of its own; the function
// that it returns waits for it.
func (l *load) start(t testing.TB, rnd *rand.Rand) (wait func()) {
	t.Helper()
	done, own := make(chan struct{}), rand.New(rand.NewPCG(rnd.Uint64(), 0))
	go func() {
		defer close(done)
		l.run(t, own)
	}()
	return func() { <-done }
}

// feed hands out the registrations at their times.
func (l *load) feed(ctx context.Context, rnd *rand.Rand, queue chan<- registration) {
	begin := clock.Now()
	for i := range l.jobs {
		at := begin.Add(l.over * time.Duration(i) / time.Duration(l.jobs))
		if wait := at.Sub(clock.Now()); wait > 0 && job.Sleep(ctx, clock, wait) != nil {
			return
		}
		r := registration{
			Topic: l.topic, ID: fmt.Sprintf("%s-%05d", l.topic, i), URL: l.url, Body: i,
			Delay: fmt.Sprintf("%dms", rnd.Int64N(l.maxDelay.Milliseconds()+1)),
		}
		select {
		case queue <- r:
		case <-ctx.Done():
			return
		}
	}
}

func (l *load) register(ctx context.Context, r registration) error {
	var last error
	for tries := 1; ; tries++ {
		base := l.pick()
		if base != "" {
			a, err := call(ctx, "POST", base+"/v1/jobs", nil, r)
			last = err
			switch {
			case err != nil:
			case a.status == http.StatusCreated, a.status == http.StatusOK:
				return l.acknowledge(r.ID, a, tries)
			case a.status == http.StatusServiceUnavailable:
				l.refused(a)
			default:
				return fmt.Errorf("%d %s", a.status, a.body)
			}
		}
		if err := job.Sleep(ctx, clock, cmp.Or(l.again, retryPause)); err != nil {
			return fmt.Errorf("after %d tries: %w; the last: %w", tries, err, last)
		}
	}
}

func (l *load) acknowledge(id string, a answer, tries int) error {
	var v jobView
	if err := a.decode(&v); err != nil {
		return err
	}
	if v.ID != id {
		return fmt.Errorf("acknowledged as %q", v.ID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acknowledged[id] = ack{uid: v.UID, tries: tries}
	return nil
}

func (l *load) refused(a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unavailable = append(l.unavailable, a)
}

// refusals is every 503 so far.
func (l *load) refusals() []answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unavailable[:len(l.unavailable):len(l.unavailable)]
}
