package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
)

// Patience is how long a test waits for what must happen. It ends hangs and judges no
// machine: a busy one takes a tenth of it.
const Patience = 2 * time.Minute

const pollEvery = 2 * time.Millisecond

// Eventually polls cond until it holds, and fails the test at once when it
// does not within limit. Be generous with limit: it only costs time when the
// test fails. Prefer a signal where there is one.
func Eventually(t testing.TB, limit time.Duration, cond func() bool, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for !cond() {
		if job.Sleep(ctx, job.SystemClock(), pollEvery) != nil {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
