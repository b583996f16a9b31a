package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// kinds are the schedules of a run: what they add to `every: 1s`.
var kinds = map[string]map[string]any{
	// No outage makes an occurrence late: each one fires.
	"allow":  {"overlap": "allow", "misfire": map[string]any{"policy": "fire_all", "grace": "1h", "limit": 1000}},
	"jitter": {"overlap": "allow", "jitter": "2s"},
	"skip":   {"overlap": "skip", "misfire": map[string]any{"policy": "skip", "grace": "1s"}},
	"all":    {"overlap": "skip", "misfire": map[string]any{"policy": "fire_all", "grace": "1s"}},
	"queue":  {"overlap": "queue_one", "misfire": map[string]any{"policy": "fire_once", "grace": "1s"}},
}

const (
	perScheduleKind = 3
	scheduleRun     = 10 * time.Second
	idTime          = "20060102T150405Z"
)

// timetables are the schedules of a run, with clients that change them all the time.
type timetables struct {
	url  string // of the receiver
	end  time.Time
	pick func() string // the address of a node, or empty
	all  []*timetable
}

// timetable is one schedule, and the changes of it that were acknowledged.
type timetable struct {
	name, kind string
	created    time.Time
	forms      []time.Time // each holds for occurrences after its time
	pauses     []span
	changes    []span                  // from the time that a change has, until its answer
	due        map[time.Time]time.Time // of all occurrences in the preview
	expected   map[time.Time]bool      // those among them outside of pauses
}

// span is a pause: occurrences after from, up to until, do not exist.
type span struct{ from, until time.Time }

type scheduleView struct {
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Paused    *struct {
		Since time.Time `json:"since"`
	} `json:"paused"`
	Counters struct {
		Fired   int `json:"fired"`
		Missed  int `json:"missed"`
		Skipped int `json:"skipped"`
		Failed  int `json:"failed"`
	} `json:"counters"`
}

// startTimetables sets and changes schedules in the background until scheduleRun is over.
// The function that it returns waits for the last change.
func startTimetables(t *testing.T, rnd *rand.Rand, url string, pick func() string) (tt *timetables, wait func()) {
	t.Helper()
	tt = &timetables{url: url, pick: pick, end: clock.Now().Add(scheduleRun).Truncate(time.Second)}
	ctx, cancel := context.WithTimeout(t.Context(), scheduleRun+loadLimit)
	var clients sync.WaitGroup
	for kind := range kinds {
		for i := range perScheduleKind {
			s := &timetable{name: fmt.Sprintf("%s-%d", kind, i), kind: kind}
			tt.all = append(tt.all, s)
			own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
			clients.Go(func() {
				if err := tt.change(ctx, s, own); err != nil {
					t.Errorf("schedule %s: %v", s.name, err)
				}
			})
		}
	}
	return tt, func() {
		clients.Wait()
		cancel()
	}
}

// change sets the schedule, and changes it at random until shortly before its end.
func (tt *timetables) change(ctx context.Context, s *timetable, rnd *rand.Rand) error {
	for last := tt.end.Add(-3 * time.Second); ; {
		if err := job.Sleep(ctx, clock, time.Duration(rnd.Int64N(int64(3*time.Second)))); err != nil {
			return err
		}
		if len(s.forms) > 0 && clock.Now().After(last) {
			return nil
		}
		var err error
		if len(s.forms) == 0 || rnd.IntN(2) == 0 {
			err = tt.put(ctx, s)
		} else {
			err = tt.pause(ctx, s, time.Duration(rnd.Int64N(int64(2*time.Second))))
		}
		if err != nil {
			return err
		}
	}
}

// request is the body that sets a schedule. Its form shows in the body of its jobs.
func (tt *timetables) request(s *timetable, form int) map[string]any {
	r := map[string]any{
		"every": "1s", "end_at": tt.end.UTC().Format(time.RFC3339),
		"job": map[string]any{"topic": s.kind, "url": tt.url, "body": form},
	}
	for name, value := range kinds[s.kind] {
		r[name] = value
	}
	return r
}

func (tt *timetables) put(ctx context.Context, s *timetable) error {
	v, status, err := tt.call(ctx, "PUT", s.name, tt.request(s, len(s.forms)))
	if err != nil {
		return err
	}
	if len(s.forms) == 0 {
		s.created = v.CreatedAt
	} else if status != http.StatusOK || !v.CreatedAt.Equal(s.created) {
		return fmt.Errorf("a change was answered with %d: it was created at %v, and is now of %v", status, s.created, v.CreatedAt)
	}
	s.forms = append(s.forms, v.UpdatedAt)
	s.changes = append(s.changes, span{v.UpdatedAt, clock.Now()})
	return nil
}

func (tt *timetables) pause(ctx context.Context, s *timetable, over time.Duration) error {
	v, _, err := tt.call(ctx, "POST", s.name+"/pause", nil)
	if err != nil {
		return err
	}
	if v.Paused == nil {
		return fmt.Errorf("a pause was answered with %+v", v)
	}
	p := span{from: v.Paused.Since}
	s.changes = append(s.changes, span{p.from, clock.Now()})
	if err := job.Sleep(ctx, clock, over); err != nil {
		return err
	}
	if v, _, err = tt.call(ctx, "POST", s.name+"/resume", nil); err != nil {
		return err
	}
	if v.Paused != nil {
		return fmt.Errorf("a resume was answered with %+v", v)
	}
	p.until = v.UpdatedAt
	s.pauses = append(s.pauses, p)
	return nil
}

// call repeats a call of a schedule at one node after the other until it is answered.
func (tt *timetables) call(ctx context.Context, method, path string, body any) (v scheduleView, status int, err error) {
	var last error
	for {
		if base := tt.pick(); base != "" {
			a, err := call(ctx, method, base+"/v1/schedules/"+path, nil, body)
			last = err
			switch {
			case err != nil:
			case a.status/100 == 2:
				return v, a.status, a.decode(&v)
			case a.status != http.StatusServiceUnavailable:
				return v, 0, fmt.Errorf("%s %s: %d %s", method, path, a.status, a.body)
			}
		}
		if err := job.Sleep(ctx, clock, retryPause); err != nil {
			return v, 0, fmt.Errorf("%s %s: %w; the last: %w", method, path, err, last)
		}
	}
}

// expect asks the preview for the occurrences that the schedule has.
func (tt *timetables) expect(t *testing.T, s *timetable, base string) {
	t.Helper()
	r := tt.request(s, 0)
	r["schedule"], r["from"], r["limit"] = s.name, s.created.UTC().Format(time.RFC3339Nano), 1000
	var preview struct {
		Occurrences []struct {
			Time  time.Time `json:"time"`
			DueAt time.Time `json:"due_at"`
		} `json:"data"`
	}
	must(t, http.StatusOK, "POST", base+"/v1/schedules/preview", r).into(t, &preview)
	s.due, s.expected = map[time.Time]time.Time{}, map[time.Time]bool{}
	for _, o := range preview.Occurrences {
		passed := slices.ContainsFunc(s.pauses, func(p span) bool { return o.Time.After(p.from) && !o.Time.After(p.until) })
		if s.due[o.Time] = o.DueAt; o.Time.After(s.created) && !passed {
			s.expected[o.Time] = true
		}
	}
}

// paused: the occurrence waited for its jitter at a pause.
func (s *timetable) paused(at time.Time) bool {
	return slices.ContainsFunc(s.pauses, func(p span) bool { return !at.After(p.from) && s.due[at].After(p.from) })
}

// lingers is how long the audit waits for jobs that should not come.
const lingers = 6 * time.Second

// undecidedFor is how long at most no node decides after one died.
const undecidedFor = 10 * time.Second

// justBefore: the job may have been registered while a change or pause was made.
func (s *timetable) justBefore(due time.Time) bool {
	return slices.ContainsFunc(s.changes, func(c span) bool { return due.After(c.from) && !due.After(c.until) })
}

// audit waits until all occurrences are decided and all their jobs delivered. It compares
// the schedules with their preview: each occurrence has one outcome, and those that fired
// arrived as one message, in time, in the form of their time.
func (tt *timetables) audit(t *testing.T, r *receiver.Receiver, c *cuts, base string) {
	t.Helper()
	c.allow()
	for _, s := range tt.all {
		tt.expect(t, s, base)
	}
	tt.awaitEnd(t, r, base)
	arrived := map[string][]receiver.Delivery{} // by schedule
	for _, d := range r.Deliveries() {
		name, _, _ := strings.Cut(d.ID, "@")
		arrived[name] = append(arrived[name], d)
	}
	total := 0
	for _, s := range tt.all {
		total += len(s.expected)
		a := &timetableAudit{t: t, s: s, byTime: map[time.Time][]receiver.Delivery{}, stored: map[time.Time]bool{}, cuts: len(c.All())}
		for _, d := range arrived[s.name] {
			a.delivery(d)
		}
		delete(arrived, s.name)
		for _, j := range listJobs(t, base+"/v1/jobs?limit=1000&schedule="+s.name) {
			a.job(&j)
		}
		a.outcomes(tt.get(t, s, base))
		for at, all := range a.byTime {
			a.messages(at, all, c)
		}
		if k := kinds[s.kind]["overlap"]; k != "allow" {
			a.overlaps()
		}
	}
	for name := range arrived {
		t.Errorf("deliveries of %q, which is no schedule", name)
	}
	for _, p := range r.Problems() {
		t.Error(p)
	}
	if total == 0 {
		t.Error("there were no occurrences")
	}
	t.Logf("%d occurrences of %d schedules, %d deliveries, %d cuts", total, len(tt.all), r.Count(), len(c.All()))
}

func (tt *timetables) get(t *testing.T, s *timetable, base string) (v scheduleView) {
	t.Helper()
	must(t, http.StatusOK, "GET", base+"/v1/schedules/"+s.name, nil).into(t, &v)
	return v
}

// awaitEnd waits until no decision and no job is to come, but not for ever.
func (tt *timetables) awaitEnd(t *testing.T, r *receiver.Receiver, base string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deliverLimit)
	defer cancel()
	for !tt.ended(t, r, base) && job.Sleep(ctx, clock, pollEvery) == nil {
	}
}

func (tt *timetables) ended(t *testing.T, r *receiver.Receiver, base string) bool {
	t.Helper()
	fired := 0
	for _, s := range tt.all {
		n := tt.get(t, s, base).Counters
		if fired += n.Fired; n.Fired+n.Missed+n.Skipped+n.Failed < len(s.expected)-slack {
			return false
		}
		for _, j := range listJobs(t, base+"/v1/jobs?limit=1000&schedule="+s.name) {
			if j.State != "delivered" && j.State != "cancelled" {
				return false
			}
		}
	}
	return clock.Now().After(tt.end.Add(lingers)) && r.Jobs() >= fired-slack*len(tt.all)
}

// timetableAudit holds one schedule against its preview.
type timetableAudit struct {
	t      *testing.T
	s      *timetable
	byTime map[time.Time][]receiver.Delivery
	stored map[time.Time]bool // occurrences whose jobs the store has
	cuts   int
	before int // came although a change that was being made holds for them
}

func (a *timetableAudit) wrong(at time.Time, what string, args ...any) {
	a.t.Helper()
	a.t.Errorf("%s@%s %s; created %v, forms %v, pauses %v", a.s.name, at.Format(idTime), fmt.Sprintf(what, args...), a.s.created, a.s.forms, a.s.pauses)
}

// delivery judges one delivery by itself.
func (a *timetableAudit) delivery(d receiver.Delivery) {
	a.t.Helper()
	_, text, _ := strings.Cut(d.ID, "@")
	at, err := time.Parse(idTime, text)
	if err != nil {
		a.t.Errorf("a job of %s has the id %q", a.s.name, d.ID)
		return
	}
	a.byTime[at] = append(a.byTime[at], d)
	due := a.s.due[at]
	if !a.s.expected[at] || a.s.paused(at) {
		a.before++
	}
	if (!a.s.expected[at] || a.s.paused(at)) && !a.s.justBefore(due) {
		a.wrong(at, "arrived at %v, and is not expected", d.Arrived)
		return
	}
	if d.Due.Before(due) || d.Arrived.Before(due) { // an attempt of a late one is due later
		a.wrong(at, "arrived at %v with due time %v, before %v", d.Arrived, d.Due, due)
	}
	// The timetable stays. Occurrences that wait for their jitter or another job take later forms.
	want := 0
	for i, from := range a.s.forms {
		if at.After(from) {
			want = i
		}
	}
	if form, err := strconv.Atoi(d.Body); err != nil || form < want && !a.s.justBefore(due) {
		a.wrong(at, "came in form %s, want %d", d.Body, want)
	}
}

// job judges a job that the store has: it arrived as it is.
func (a *timetableAudit) job(j *jobView) {
	a.t.Helper()
	at, err := time.Parse(a.s.name+"@"+idTime, j.ID)
	a.stored[at] = true
	arrived := a.byTime[at]
	switch {
	case err != nil || len(arrived) == 0 || arrived[len(arrived)-1].UID != j.UID || !a.s.due[at].Equal(j.DueAt):
		a.wrong(at, "is the job %+v, is expected at %v, and arrived as %+v", *j, a.s.due[at], arrived)
	}
}

// outcomes judges the counters.
func (a *timetableAudit) outcomes(v scheduleView) {
	a.t.Helper()
	n := v.Counters
	a.t.Logf("%s: %d expected, %+v, %d arrived, %d forms, %d pauses", a.s.name, len(a.s.expected), n, len(a.byTime), len(a.s.forms), len(a.s.pauses))
	off := func(n int) bool { return max(n, -n) > a.cuts+a.before } // each may make a counter wrong by one
	if off(n.Fired+n.Missed+n.Skipped-len(a.s.expected)) || n.Failed != 0 {
		a.t.Errorf("%s counts %+v of %d occurrences; pauses %v", a.s.name, n, len(a.s.expected), a.s.pauses)
	}
	if off(n.Fired - len(a.byTime)) {
		a.t.Errorf("%s counts %d fired, and %d arrived", a.s.name, n.Fired, len(a.byTime))
	}
	for at := range a.s.expected {
		// A pause skips what is due while no node decides.
		skipped := slices.ContainsFunc(a.s.pauses, func(p span) bool { return !p.from.Before(at) && p.from.Sub(at) <= undecidedFor })
		if a.s.kind == "allow" && len(a.byTime[at]) == 0 && !skipped {
			a.wrong(at, "did not fire")
		}
	}
}

// messages judges the deliveries of one occurrence.
func (a *timetableAudit) messages(at time.Time, all []receiver.Delivery, c *cuts) {
	a.t.Helper()
	for i, d := range all {
		for _, other := range all[:i] {
			if d.UID != other.UID {
				a.wrong(at, "came as %s and as %s", other.UID, d.UID)
			}
		}
		if i == 0 {
			continue
		}
		if inFlight, _ := c.InFlight(all[i-1]); !inFlight {
			a.wrong(at, "was repeated, and was not in flight at a cut: %+v", all)
		}
	}
}

// overlaps judges that no occurrence began before the one before it was answered.
func (a *timetableAudit) overlaps() {
	a.t.Helper()
	times := make([]time.Time, 0, len(a.byTime))
	for at := range a.byTime {
		times = append(times, at)
	}
	slices.SortFunc(times, time.Time.Compare)
	for i := 1; i < len(times); i++ {
		before := a.byTime[times[i-1]]
		n := slices.IndexFunc(before, func(d receiver.Delivery) bool { return !d.Answered.IsZero() })
		if next := a.byTime[times[i]][0]; n < 0 || next.Arrived.Before(before[n].Answered) {
			a.wrong(times[i], "began at %v, before the one before it ended: %+v", next.Arrived, before)
		}
	}
}

// slack is how many outcomes the counters of a schedule may lack after the kills of a run.
const slack = 8

// sometimesLong accepts everything, sometimes only after the next occurrence.
func sometimesLong(d receiver.Delivery) receiver.Answer {
	if d.ID[len(d.ID)-2]%3 == 0 {
		return receiver.Answer{Hold: 1200 * time.Millisecond}
	}
	return slowly(d)
}

// killSchedules kills nodes at random while schedules are at work, does something in the
// midst of it, and audits.
func killSchedules(t *testing.T, nodes []*node, r *receiver.Receiver, kills int) {
	t.Helper()
	rnd := newRand(t)
	up := &bases{nodes: nodes}
	tt, wait := startTimetables(t, rnd, r.URL(), up.pick)
	var c cuts
	every := scheduleRun / time.Duration(kills+1)
	for range kills {
		pause(t, every/2+time.Duration(rnd.Int64N(int64(every))))
		n := nodes[rnd.IntN(len(nodes))]
		c.kill(n)
		n.start()
	}
	wait()
	tt.audit(t, r, &c, nodes[0].base())
}

// TestKillSchedulesEmbedded: a node on the embedded store is killed while schedules
// decide, register and change.
func TestKillSchedulesEmbedded(t *testing.T) {
	t.Parallel()
	r := receiver.Start(t, sometimesLong)
	killSchedules(t, []*node{startEmbedded(t, shipped, "--timeout", "5s")}, r, 6)
}

// TestKillSchedulesOnRedis: of two nodes on one Redis a random one is killed.
func TestKillSchedulesOnRedis(t *testing.T) {
	t.Parallel()
	r := receiver.Start(t, sometimesLong)
	redis := testenv.StartRedis(t, testenv.WithAOF())
	killSchedules(t, startNodes(t, shipped, "a b", redis.URL(), quickTakeover...), r, 4)
}
