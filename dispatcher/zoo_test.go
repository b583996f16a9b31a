package dispatcher

import (
	"crypto/x509"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
	"github.com/duehook/duehook/internal/testing/hostile"
)

const (
	// zooTimeout is the deadline of a delivery that nothing else ends, and
	// zooSlack what it may take beyond that on a busy machine. Without a deadline
	// it would take for ever. Other deliveries get the patience of a test.
	zooTimeout = 300 * time.Millisecond
	zooSlack   = 5 * time.Second
	// zooMemory is what one delivery may allocate in all, freed or not.
	zooMemory = 256 << 10
	// chainMemory is the same for a handshake with the longest chain that is
	// read. All of it is garbage when the handshake has failed.
	chainMemory = 2 << 20
)

// TestZoo holds one delivery to each kind of hostile server to what it may
// cost. With -v it prints the costs.
func TestZoo(t *testing.T) {
	zoo := hostile.Start(t)
	s := zooSender(t, zoo)
	// What is made once and kept does not count.
	fine := serve(t, func(http.ResponseWriter, *http.Request) {})
	if o, _ := s.send(t.Context(), claimOf(newJob("fine", fine))); o.Kind != job.OutcomeDelivered {
		t.Fatalf("attempt %+v", o.Attempt)
	}
	for _, kind := range zoo.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			timeout := patience
			if kind.Endless {
				timeout = zooTimeout
			}
			limit := uint64(zooMemory)
			if kind.Chain {
				limit = chainMemory
			}
			var o job.Outcome
			var health error
			memory := limit + 1
			// Others allocate meanwhile, and under the race detector pools forget at
			// random: a reading can be too high, never too low. And a busy machine
			// may spend a short deadline on the handshake.
			spent := false
			for try := 0; (memory > limit || spent) && try < 10; try++ {
				if spent {
					timeout = min(2*timeout, zooSlack)
				}
				c := claimOf(newJob("hostile", kind.URL))
				c.Job.Spec.ExpectBody, c.Job.Spec.Timeout = kind.Expect, timeout
				memory = allocated(func() { o, health = s.send(t.Context(), c) })
				spent = kind.Endless && o.Attempt != nil && o.Attempt.Error != kind.Error
			}
			checkFate(t, kind, o, health)
			took := time.Duration(0)
			if o.Attempt != nil {
				took = o.Attempt.Duration
			}
			t.Logf("%6d KB %8v", memory>>10, took.Round(time.Millisecond))
			if memory > limit {
				t.Errorf("%d bytes were allocated, more than %d", memory, limit)
			}
			if took > timeout+patience || kind.Endless != (took >= timeout) {
				t.Errorf("took %v, with a deadline of %v", took, timeout)
			}
		})
	}
}

// zooSender sends as in production, but trusts the zoo's certificates.
func zooSender(t testing.TB, zoo *hostile.Zoo) *sender {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(zoo.RootsPEM)
	o := Options{AllowCIDRs: loopback()}.withDefaults()
	transport := newTransport(mustGuard(t, o.AllowCIDRs...), o.Workers)
	transport.TLSClientConfig.RootCAs = roots
	t.Cleanup(transport.CloseIdleConnections)
	return newSender(o, transport)
}

// allocated is the number of bytes that the process allocates while do runs,
// whether they are freed or not.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

var fates = map[hostile.Fate]job.OutcomeKind{
	hostile.Delivered: job.OutcomeDelivered, hostile.Failed: job.OutcomeFailed, hostile.Snoozed: job.OutcomeSnoozed,
}

func checkFate(t *testing.T, kind hostile.Kind, o job.Outcome, health error) {
	t.Helper()
	if o.Attempt == nil || o.Kind != fates[kind.Fate] || o.Attempt.Error != kind.Error {
		t.Errorf("%+v, attempt %+v; want %s, error %q", o, o.Attempt, kind.Fate, kind.Error)
		return
	}
	if o.After != kind.After {
		t.Errorf("the next attempt follows after %v, want %v", o.After, kind.After)
	}
	if kind.Healthy != (health == nil) {
		t.Errorf("health %v", health)
	}
	if n := len(o.Attempt.ResponseBody); n > contract.ExcerptLimit {
		t.Errorf("an excerpt of %d bytes", n)
	}
}
