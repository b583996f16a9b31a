package torture

import (
	"context"
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

// The flows of each run, spread over loadTime: registrations for a group, and counted jobs.
const (
	flowTopic = "flows"
	fanOuts   = 12
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

// judgeFlows: every job of a flow came once, and a job below its target did not.
// It takes the deliveries of flows out of arrived.
func (a *audit) judgeFlows(arrived map[job.Key][]receiver.Delivery) {
	a.wrong = append(a.wrong, a.flows.problems...)
	if want := fanOuts*len(members) + counters; len(a.flows.uids) != want {
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
		a.judgeFlow(key, j, deliveries)
	}
	for key := range arrived {
		if key.Topic == flowTopic {
			delete(arrived, key)
			a.fail("%s arrived, but was never acknowledged", key)
		}
	}
}

// judgeFlow: a delivered job came as one message, and one that waits did not come.
func (a *audit) judgeFlow(key job.Key, j jobView, deliveries []receiver.Delivery) {
	slices.SortStableFunc(deliveries, func(x, y receiver.Delivery) int { return x.Arrived.Compare(y.Arrived) })
	for i, d := range deliveries {
		switch {
		case d.UID != a.flows.uids[key] || d.UID != j.UID:
			a.fail("%s was acknowledged as %s and is %s; it came as %s", key, a.flows.uids[key], j.UID, d.UID)
		case i == 0:
		default:
			if yes, _ := a.cuts.InFlight(deliveries[i-1]); yes {
				a.inFlight++
				continue
			}
			a.otherwise++
			a.excuse("%s came again without having been in flight: %s; cuts: %s", key, rig.Describe(deliveries), &a.cuts)
		}
	}
	if (len(deliveries) > 0) != (j.State == "delivered") {
		a.fail("%s is %s and came %d times: %s; cuts: %s", key, j.State, len(deliveries), rig.Describe(deliveries), &a.cuts)
	}
}
