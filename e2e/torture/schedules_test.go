package torture

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/job"
)

const (
	schedulesFor    = 6 * time.Second
	scheduleTopic   = "occurrences"
	occurrenceTimes = "20060102T150405Z"
)

// timetables are the schedules of each run: what they add to `every: 1s`.
var timetables = map[string]map[string]any{
	"allow":  {"misfire": map[string]any{"policy": "fire_all", "grace": "1h"}},
	"jitter": {"jitter": "2s", "misfire": map[string]any{"policy": "fire_once", "grace": "1s"}},
	"skip":   {"overlap": "skip", "misfire": map[string]any{"policy": "skip", "grace": "1s"}},
}

// scheduleView is a schedule as the API shows it, as far as the audit looks at it.
type scheduleView struct {
	State     string           `json:"state"`
	Version   uint64           `json:"version"`
	CreatedAt time.Time        `json:"created_at"`
	EndAt     time.Time        `json:"end_at"`
	Counters  map[string]int64 `json:"counters"`
}

// setSchedules sets the schedules, each at a random node.
func (r *run) setSchedules(ctx context.Context) {
	end := clock.Now().Add(schedulesFor).Truncate(time.Second).UTC()
	for name, more := range timetables {
		body := map[string]any{"every": "1s", "end_at": end, "job": map[string]any{
			"topic": scheduleTopic, "url": r.endpoints.urls()[0], "body": behaviour{Hold: 50},
		}}
		for field, value := range more {
			body[field] = value
		}
		for {
			a, err := rig.Call(ctx, "PUT", r.clients.node()+"/v1/schedules/"+name, nil, body)
			if err == nil && a.Status/100 == 2 {
				break
			}
			if err == nil && a.Status != http.StatusServiceUnavailable {
				r.t.Errorf("PUT of schedule %s: %d %s", name, a.Status, a.Body)
				return
			}
			if job.Sleep(ctx, clock, retryPause) != nil {
				r.t.Errorf("PUT of schedule %s: %v", name, err)
				return
			}
		}
	}
}

func (r *run) schedule(ctx context.Context, name string) (v scheduleView, err error) {
	a, err := rig.Call(ctx, "GET", r.nodes[0].Base()+"/v1/schedules/"+name, nil, nil)
	switch {
	case err != nil:
		return v, err
	case a.Status != http.StatusOK:
		return v, statusError(a.Status)
	}
	return v, a.Decode(&v)
}

// schedulesRest reports whether all occurrences of all schedules are decided.
func (r *run) schedulesRest(ctx context.Context) bool {
	for name := range timetables {
		if v, err := r.schedule(ctx, name); err != nil || v.State != "completed" {
			return false
		}
	}
	return true
}

// schedules reads the schedules before the nodes end.
func (a *audit) schedules(ctx context.Context) {
	a.timetables = map[string]scheduleView{}
	for name := range timetables {
		v, err := a.schedule(ctx, name)
		if err != nil {
			a.fail("schedule %s: %v", name, err)
			continue
		}
		a.timetables[name] = v
	}
}

// judgeSchedules: each occurrence of a timetable has one outcome, and those that fired
// came as one message, not before their time. It takes their deliveries out of arrived.
func (a *audit) judgeSchedules(arrived map[job.Key][]receiver.Delivery) {
	came := map[string]int64{}
	for key, deliveries := range arrived {
		if key.Topic != scheduleTopic {
			continue
		}
		delete(arrived, key)
		name, text, _ := strings.Cut(key.ID, "@")
		v, known := a.timetables[name]
		at, err := time.Parse(occurrenceTimes, text)
		if err != nil || !known || !at.After(v.CreatedAt) || !at.Before(v.EndAt) {
			a.fail("%s arrived, which is no occurrence: %+v", key, v)
			continue
		}
		came[name]++
		a.judgeOccurrence(key, at, deliveries)
	}
	for name, v := range a.timetables {
		want := max(0, int64(v.EndAt.Sub(v.CreatedAt.Truncate(time.Second))/time.Second)-1)
		c := v.Counters
		if c["fired"]+c["missed"]+c["skipped"] != want || c["failed"] != 0 || v.Version != uint64(v.CreatedAt.UnixMilli()) {
			a.fail("schedule %s counts %v of %d occurrences; cuts: %s", name, c, want, &a.cuts)
		}
		// One whose registration was not answered may have come, and count as missed or skipped.
		if c["fired"] > came[name] || came[name] > c["fired"]+c["missed"]+c["skipped"] {
			a.lost++
			a.fail("LOST: schedule %s fired %d times, and %d came; cuts: %s", name, c["fired"], came[name], &a.cuts)
		}
	}
}

func (a *audit) judgeOccurrence(key job.Key, at time.Time, deliveries []receiver.Delivery) {
	for i, d := range deliveries {
		switch {
		case d.UID != deliveries[0].UID:
			a.fail("%s came as %s and as %s", key, deliveries[0].UID, d.UID)
		case !a.run.row.skewed && d.Arrived.Before(at):
			a.fail("%s came %v early", key, at.Sub(d.Arrived))
		}
		if i == 0 {
			continue
		}
		if yes, _ := a.cuts.InFlight(deliveries[i-1]); yes {
			a.inFlight++
			continue
		}
		a.otherwise++
		a.excuse("%s came again without having been in flight: %s; cuts: %s", key, rig.Describe(deliveries), &a.cuts)
	}
}
