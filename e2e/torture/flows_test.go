package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/job"
)

// The flows of each run, spread over loadTime: registrations for a group, counted jobs and
// loops that the receiver drives.
const (
	flowTopic = "flows"
	fanOuts   = 12
	loops     = 4
	rounds    = 3 // of each loop, before the last one
	counters  = 4 // jobs, the last of which stays below its target
	countTo   = 10
	// countEvery spreads the counts of a job, so that faults meet some of them.
	countEvery = 200 * time.Millisecond
)

// flows are what clients were told about their flows.
type flows struct {
	mu       sync.Mutex
	uids     map[job.Key]string // of all jobs that were acknowledged
	problems []string
}

func (f *flows) acknowledge(v jobView) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := job.Key{Topic: v.Topic, ID: v.ID}
	if uid, known := f.uids[key]; known && uid != v.UID {
		f.problems = append(f.problems, fmt.Sprintf("%s was acknowledged as %s and as %s", key, uid, v.UID))
	}
	f.uids[key] = v.UID
}

// startFlows makes the calls of all flows, and returns when they have been answered.
func (r *run) startFlows(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, clientLimit)
	defer stop()
	f := &flows{uids: map[job.Key]string{}}
	r.flows = f
	began := clock.Now()
	var all sync.WaitGroup
	start := func(i, of int, do func(context.Context) error) {
		all.Go(func() {
			err := sleepUntil(ctx, began.Add(loadTime*time.Duration(i)/time.Duration(of)))
			if err == nil {
				err = do(ctx)
			}
			if err != nil {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.problems = append(f.problems, err.Error())
			}
		})
	}
	for i := range fanOuts {
		start(i, fanOuts, func(ctx context.Context) error { return r.fanOut(ctx, fmt.Sprint("fan-", i)) })
	}
	for i := range loops {
		start(i, loops, func(ctx context.Context) error {
			return r.registerFlow(ctx, map[string]any{"id": fmt.Sprint("loop-", i), "body": behaviour{Rounds: rounds}, "again_body": true})
		})
	}
	for i := range counters {
		start(i, counters, func(ctx context.Context) error { return r.count(ctx, i) })
	}
	all.Wait()
}

// call makes a call about a job until it is answered as expected.
func (r *run) call(ctx context.Context, method, path string, body, answer any, expected ...int) error {
	a, _, err := r.clients.until(ctx, method, path, body, expected...)
	if err != nil {
		return err
	}
	return a.Decode(answer)
}

func (r *run) registerFlow(ctx context.Context, body map[string]any) error {
	var v jobView
	body["topic"], body["url"] = flowTopic, r.endpoints.urls()[0]
	if err := r.call(ctx, "POST", allJobs, body, &v, http.StatusCreated, http.StatusOK); err != nil {
		return err
	}
	r.flows.acknowledge(v)
	return nil
}

// members are those of the group: two at each receiver.
var members = []string{"a", "b", "c", "d"}

func (r *run) fanOut(ctx context.Context, id string) error {
	var group struct {
		Members []map[string]string `json:"members"`
	}
	for i, name := range members {
		urls := r.endpoints.urls()
		group.Members = append(group.Members, map[string]string{"name": name, "url": urls[i%len(urls)]})
	}
	var stored, registered struct {
		Jobs []jobView `json:"jobs"`
	}
	if err := r.call(ctx, "PUT", "/v1/groups/flows", group, &stored, http.StatusCreated, http.StatusOK); err != nil {
		return err
	}
	body := map[string]any{"topic": flowTopic, "id": id, "group": "flows", "delay": "500ms", "body": behaviour{Hold: 50}}
	if err := r.call(ctx, "POST", allJobs, body, &registered, http.StatusCreated, http.StatusOK); err != nil {
		return err
	}
	for _, v := range registered.Jobs {
		r.flows.acknowledge(v)
	}
	return nil
}

// count registers a job and counts up to its target, each time with a key of its own. The last
// job gets one count less.
func (r *run) count(ctx context.Context, number int) error {
	id := fmt.Sprint("count-", number)
	err := r.registerFlow(ctx, map[string]any{"id": id, "delay": distantDelay, "body": behaviour{}, "count": map[string]any{"target": countTo}})
	if err != nil {
		return err
	}
	wanted := countTo
	if number == counters-1 {
		wanted--
	}
	for n := range wanted {
		if err := job.Sleep(ctx, clock, countEvery); err != nil {
			return err
		}
		var v struct {
			Count int  `json:"count"`
			Fired bool `json:"fired"`
		}
		add := map[string]any{"key": fmt.Sprint(n)}
		if err := r.call(ctx, "POST", allJobs+"/"+flowTopic+"/"+id+"/count", add, &v, http.StatusOK); err != nil {
			return err
		}
		if v.Count != n+1 || v.Fired != (n+1 == countTo) {
			return fmt.Errorf("LOST: count %d of %s was answered as %+v", n+1, id, v)
		}
	}
	return nil
}

// judgeFlows: every job of a flow came, once in each round, and a job below its target did not.
// It takes the deliveries of flows out of arrived.
func (a *audit) judgeFlows(arrived map[job.Key][]receiver.Delivery) {
	a.wrong = append(a.wrong, a.flows.problems...)
	if want := fanOuts*len(members) + loops + counters; len(a.flows.uids) != want {
		a.fail("%d of %d jobs of flows were acknowledged", len(a.flows.uids), want)
	}
	below := fmt.Sprint("count-", counters-1)
	for _, key := range slices.SortedFunc(maps.Keys(a.flows.uids), func(x, y job.Key) int { return strings.Compare(x.ID, y.ID) }) {
		deliveries := arrived[key]
		delete(arrived, key)
		j, found := a.stored[key]
		state := "delivered"
		if key.ID == below {
			state = "waiting"
		}
		if !found || j.State != state {
			a.lost++
			a.fail("LOST: %s of the flows is %+v, not %s", key, j, state)
		}
		a.judgeRounds(key, j, deliveries)
	}
	for key := range arrived {
		if key.Topic == flowTopic {
			delete(arrived, key)
			a.fail("%s arrived, but was never acknowledged", key)
		}
	}
}

// judgeRounds: the rounds of a job came in their order, each as one message. Jobs that are no
// loops have one round; one that waits has none.
func (a *audit) judgeRounds(key job.Key, j jobView, deliveries []receiver.Delivery) {
	slices.SortStableFunc(deliveries, func(x, y receiver.Delivery) int { return x.Arrived.Compare(y.Arrived) })
	var came []receiver.Delivery // the first of each round
	for i, d := range deliveries {
		at := slices.IndexFunc(came, func(other receiver.Delivery) bool { return other.UID == d.UID })
		if at < 0 {
			came = append(came, d)
			continue
		}
		if yes, _ := a.cuts.InFlight(deliveries[i-1]); yes {
			a.inFlight++
			continue
		}
		a.otherwise++
		a.excuse("%s came again without having been in flight: %s; cuts: %s", key, rig.Describe(deliveries), &a.cuts)
	}
	if a.run.row.name == redisIsFull { // a round that ends then keeps its body
		came = slices.CompactFunc(came, func(x, y receiver.Delivery) bool { return x.Body == y.Body })
	}
	want := 0
	if j.State == "delivered" {
		var b behaviour
		if len(came) > 0 && json.Unmarshal([]byte(came[0].Body), &b) != nil {
			a.fail("%s came with the body %s", key, came[0].Body)
		}
		want = 1 + b.Rounds
	}
	if len(came) != want {
		a.fail("%s came as %d messages instead of %d: %s; cuts: %s", key, len(came), want, rig.Describe(deliveries), &a.cuts)
		return
	}
	for i, d := range came {
		if body := string(behaviour{Rounds: want - 1 - i}.bytes()); want > 1 && d.Body != body {
			a.fail("%s: round %d came with the body %s instead of %s", key, i, d.Body, body)
		}
	}
	// A call that a client repeats after a lost answer may find a later round.
	acknowledged := slices.ContainsFunc(came, func(d receiver.Delivery) bool { return d.UID == a.flows.uids[key] })
	if want > 0 && (!acknowledged || came[want-1].UID != j.UID) {
		a.fail("%s was acknowledged as %s and is %s; it came as %s to %s", key, a.flows.uids[key], j.UID, came[0].UID, came[want-1].UID)
	}
}
