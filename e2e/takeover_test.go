package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

const (
	// takeoverLimit is how long a replica may take to be elected.
	takeoverLimit = 2 * time.Minute
	// resumeLimit is how long after that jobs may stand still: a promise.
	resumeLimit = 5 * time.Second
)

// confirmed makes registrations wait for a replica, so that a failover loses
// nothing that was acknowledged.
var confirmed = append([]string{"--redis-min-replicas", "1"}, quickTakeover...)

// perSecond is the load that faults of Redis meet: enough for jobs in flight at each.
func perSecond() int { return sized(100, 200) }

// urlOf is a URL of several servers.
func urlOf(scheme string, servers []*testenv.Redis) string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr()
	}
	return scheme + strings.Join(addrs, ",")
}

// says reports whether a server's INFO holds all of words. One that does not
// answer says nothing.
func says(c *redis.Client, words ...string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	text, err := c.Info(ctx, "replication").Result()
	for _, w := range words {
		if err != nil || !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

const (
	trickleTopic = "trickle"
	trickleGap   = 50 * time.Millisecond
)

// A trickle is jobs that come due one by one, 20 a second, whether or not new
// ones can be registered.
type trickle struct {
	*receiver.Receiver
	base string
	jobs int // registered ahead
	ends time.Time
	late *receiver.Receiver // gets what proceed registers
}

// startTrickle registers the jobs of so long a time.
func startTrickle(t *testing.T, base string, span time.Duration) *trickle {
	t.Helper()
	tr := &trickle{
		Receiver: receiver.Start(t, receiver.Accept), late: receiver.Start(t, receiver.Accept),
		base: base, jobs: int(span / trickleGap), ends: clock.Now().Add(span),
	}
	var b struct {
		Jobs []registration `json:"jobs"`
	}
	for i := range tr.jobs {
		b.Jobs = append(b.Jobs, registration{
			Topic: trickleTopic, ID: strconv.Itoa(i), URL: tr.URL(), Delay: fmt.Sprintf("%dms", trickleGap.Milliseconds()*int64(i)),
		})
	}
	for batch := range slices.Chunk(b.Jobs, 500) {
		b.Jobs = batch
		must(t, http.StatusOK, "POST", base+"/v1/jobs/batch", b)
	}
	return tr
}

// dueAfter returns the deliveries of jobs that came due after a time.
func (tr *trickle) dueAfter(after time.Time) []receiver.Delivery {
	return slices.DeleteFunc(append(tr.Deliveries(), tr.late.Deliveries()...), func(d receiver.Delivery) bool {
		return !d.Due.After(after)
	})
}

// proceed registers another job once all that were registered ahead have come
// due: on a busy machine a fault takes longer than they last.
func (tr *trickle) proceed(t *testing.T) {
	if clock.Now().Before(tr.ends) {
		return
	}
	// A refusal is met by the next call.
	_, _ = call(t.Context(), "POST", tr.base+"/v1/jobs", nil, registration{Topic: "late", URL: tr.late.URL(), Delay: "0s"})
}

// takeover sees one of successors become the master after strike, and jobs
// being delivered and registered again. The returned number is the successor's.
func takeover(t *testing.T, c *cuts, what string, tr *trickle, nodes []*node, successors []*testenv.Redis, strike func()) int {
	t.Helper()
	clients := make([]*redis.Client, len(successors))
	for i, s := range successors {
		clients[i] = control(t, s)
	}
	next := -1
	c.during(what, false, func() {
		struck := clock.Now()
		strike()
		testenv.Eventually(t, takeoverLimit, func() bool {
			for i := range clients {
				if says(clients[i], "role:master") {
					next = i
				}
			}
			return next >= 0
		}, "a replica takes over")
		elected := clock.Now()
		testenv.Eventually(t, deliverLimit, func() bool {
			tr.proceed(t)
			return len(tr.dueAfter(elected)) > 0
		}, "jobs are delivered again")
		resumed := clock.Now().Sub(elected)
		for _, n := range nodes {
			n.awaitReady()
		}
		ready := clock.Now().Sub(elected)
		probe := registration{Topic: "probe", ID: strings.ReplaceAll(what, " ", "-"), URL: tr.URL(), Delay: "1h"}
		testenv.Eventually(t, deliverLimit, func() bool {
			a, err := call(t.Context(), "POST", nodes[0].base()+"/v1/jobs", nil, probe)
			return err == nil && a.status != http.StatusServiceUnavailable
		}, "jobs are registered again")
		t.Logf("%s: a replica took over after %v; %v later jobs were delivered, %v all nodes ready, %v jobs registered",
			what, elected.Sub(struck), resumed, ready, clock.Now().Sub(elected))
		if long && resumed > resumeLimit { // a busy machine proves nothing
			t.Errorf("%s: deliveries took %v to go on", what, resumed)
		}
	})
	return next
}

// awaitReplica waits until a server that was the master follows another.
func awaitReplica(t *testing.T, s *testenv.Redis) {
	t.Helper()
	c := control(t, s)
	testenv.Eventually(t, takeoverLimit, func() bool {
		return says(c, "role:slave", "master_link_status:up")
	}, "the old master follows the new one")
}
