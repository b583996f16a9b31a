package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Patience is how long a test waits for what must happen. It ends hangs and judges no
// machine: a busy one takes a tenth of it.
const Patience = 2 * time.Minute

// polls is the pause before the next poll. It grows, as many polls are requests or processes.
type polls time.Duration

const (
	firstPoll   = 2 * time.Millisecond
	longestPoll = 100 * time.Millisecond
)

// wait returns an error if ctx ends before the next poll.
func (p *polls) wait(ctx context.Context) error {
	pause := time.Duration(*p)
	pause = min(max(firstPoll, pause+pause/8), longestPoll)
	*p = polls(pause)
	return job.Sleep(ctx, job.SystemClock(), pause)
}

// Eventually polls cond until it holds, and fails the test at once when it
// does not within limit. Be generous with limit: it only costs time when the
// test fails. Prefer a signal where there is one. A condition that comes and goes may be
// missed.
func Eventually(t testing.TB, limit time.Duration, cond func() bool, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var p polls
	for !cond() {
		if p.wait(ctx) != nil {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
