package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/store"
)

// TestSchedules simulates worlds with schedules instead of clients, fewer of them: each takes
// as long as five.
func TestSchedules(t *testing.T) { runSeeds(t, newSchedulePlan, 1, max(1, *seeds/5), inMemory) }

// timing is a schedule, and the client that changes it.
type timing struct {
	w       *world
	name    string
	rand    *rand.Rand
	overlap schedule.Overlap
	policy  schedule.MisfirePolicy
	jitter  time.Duration
	order   *string
	end     time.Time

	created job.Instant
	forms   []form
	pauses  []pause
	runs    []*run

	mu    sync.Mutex
	calls []span // that change the schedule, answered or not
}

// form is what the schedule is from a time on.
type form struct {
	from  job.Instant
	every time.Duration
}

// pause is a time whose occurrences do not exist: after from, up to until.
type pause struct{ from, until job.Instant }

// run is a run by hand, asked for by two clients at once.
type run struct {
	key     string
	answers []schedules.RunResult
	tries   int
}

func newTiming(w *world, n int) *timing {
	r := source(w.seed, "schedule", n)
	s := &timing{
		w: w, name: fmt.Sprintf("s%d", n), rand: r,
		overlap: oneOf(r, schedule.Allow, schedule.Allow, schedule.Skip),
		policy:  oneOf(r, schedule.FireOnce, schedule.SkipLate, schedule.FireAll),
		jitter:  oneOf(r, 0, 0, 30*time.Second),
	}
	if r.IntN(3) == 0 {
		s.order = new("k")
	}
	s.end = w.start.Add(between(r, time.Minute, w.rough+time.Minute)).Truncate(time.Second)
	return s
}

// draft is a form of the schedule. Its number is the body of its jobs.
func (s *timing) draft(number int, every time.Duration) *schedules.Draft {
	url := job.Destination(endpoints[number%len(endpoints)] + "/occurrence")
	d := &schedules.Draft{
		Every: &every, Jitter: &s.jitter, EndAt: &s.end, Overlap: new(string(s.overlap)), Policy: new(string(s.policy)),
		Grace: new(time.Second),
		Job: &job.Draft{
			Topic: &topics[0], Destination: &url, OrderKey: s.order,
			Body: &job.Body{Form: job.BodyJSON, Content: []byte(strconv.Itoa(number))},
		},
	}
	if s.firesAll() {
		d.Grace = new(time.Hour)
	}
	return d
}

// firesAll: no occurrence is late, and none has to wait for another one.
func (s *timing) firesAll() bool {
	return s.policy == schedule.FireAll && s.overlap == schedule.Allow
}

func (s *timing) run(over context.Context) {
	s.put()
	if s.w.steps {
		return
	}
	for job.Sleep(over, clock, between(s.rand, time.Second, 40*time.Second)) == nil {
		switch s.rand.IntN(5) {
		case 0:
			s.put()
		case 1, 2:
			s.pause(over)
		default:
			s.runNow()
		}
	}
}

// put sets the schedule anew.
func (s *timing) put() {
	every := time.Duration(1+s.rand.IntN(20)) * time.Second
	d := s.draft(len(s.forms), every)
	s.insist(s.rand, "set", func(ctx context.Context, m *schedules.Manager) error {
		set, _, err := m.Set(ctx, s.name, d)
		if err == nil {
			if len(s.forms) == 0 {
				s.created = set.CreatedAt
			}
			s.forms = append(s.forms, form{set.UpdatedAt, every})
		}
		return err
	})
}

func (s *timing) pause(over context.Context) {
	var p pause
	s.insist(s.rand, "pause", func(ctx context.Context, m *schedules.Manager) error {
		paused, err := m.Pause(ctx, s.name, job.Pause{})
		if err == nil {
			p.from = paused.Pause.Since
		}
		return err
	})
	_ = job.Sleep(over, clock, between(s.rand, 0, 30*time.Second))
	s.insist(s.rand, "resume", func(ctx context.Context, m *schedules.Manager) error {
		resumed, err := m.Resume(ctx, s.name)
		p.until = resumed.UpdatedAt
		return err
	})
	s.pauses = append(s.pauses, p)
}

// runNow has two clients run the schedule at the same time, under one key or none.
func (s *timing) runNow() {
	r := &run{key: fmt.Sprintf("run-%d", len(s.runs))}
	if s.rand.IntN(3) == 0 {
		r.key = ""
	}
	s.runs = append(s.runs, r)
	var mu sync.Mutex
	var both sync.WaitGroup
	for range 2 {
		dice := rand.New(rand.NewPCG(s.rand.Uint64(), 0))
		both.Go(func() {
			s.insist(dice, "run", func(ctx context.Context, m *schedules.Manager) error {
				mu.Lock()
				r.tries++
				mu.Unlock()
				done, err := m.RunNow(ctx, s.name, r.key)
				if ctx.Err() == nil && err == nil {
					mu.Lock()
					r.answers = append(r.answers, done)
					mu.Unlock()
				}
				return err
			})
		})
	}
	both.Wait()
}

// insist makes a call at one node after the other until it is answered.
func (s *timing) insist(dice *rand.Rand, what string, call func(ctx context.Context, m *schedules.Manager) error) {
	for {
		if l := oneOf(dice, s.w.nodes...).process(); l.up() {
			began := s.w.now()
			err := call(l.alive, l.schedules)
			s.mu.Lock()
			s.calls = append(s.calls, span{began, s.w.now()})
			s.mu.Unlock()
			s.w.note("%s %s at %s: %v", what, s.name, l.name, err)
			switch {
			case l.alive.Err() != nil:
			case err == nil:
				return
			case !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded):
				s.w.Errorf("%s %s: %v", what, s.name, err)
				return
			}
		}
		s.w.sleep(between(dice, 50*time.Millisecond, 3*time.Second))
	}
}

// stepClock sets the clock of the store, by up to some minutes in all.
func (w *world) stepClock(over context.Context) {
	r, ahead := source(w.seed, "clock", 0), time.Duration(0)
	const most = 3 * time.Minute
	for job.Sleep(over, clock, between(r, 10*time.Second, 90*time.Second)) == nil {
		to := between(r, -most, most)
		w.note("the clock steps by %v", to-ahead)
		w.backend.(memory).step(to - ahead)
		ahead = to
	}
}

// checkOverlap: unless jobs of its schedule may overlap, the one before an occurrence has ended.
func (a *auditor) checkOverlap(m *model) {
	s := a.timing(m)
	if s == nil || s.overlap == schedule.Allow {
		return
	}
	for _, o := range a.keys {
		if a.timing(o) == s && !o.State.Final() && !o.CancelRequested {
			a.wrong(m.Key, "registered while %s is %v", o.Key, o.State)
		}
	}
}

// timing is the schedule whose timetable has the job, or nil.
func (a *auditor) timing(m *model) *timing {
	of := m.Spec.Occurrence
	if of == nil || of.Kind != job.ByTimetable && of.Kind != job.ByMisfire {
		return nil
	}
	for _, s := range a.w.timings {
		if s.name == of.Schedule {
			return s
		}
	}
	return nil
}

// occurrences are those that a schedule must have decided, with their forms. all has those of
// pauses, and of forms that were replaced, too.
func (s *timing) occurrences(a *auditor) (expected map[job.Instant]int, all map[job.Instant]bool) {
	expected, all = map[job.Instant]int{}, map[job.Instant]bool{}
	for i, f := range s.forms {
		table, err := schedule.New(schedule.Spec{Every: f.every, HasEvery: true, End: s.end})
		if err != nil {
			a.w.Errorf("%s: %v", s.name, err)
			return expected, all
		}
		for at := range table.Between(f.from.Time(), s.end) {
			t := job.InstantOf(at)
			all[t] = true
			if i == len(s.forms)-1 || t <= s.forms[i+1].from {
				expected[t] = i
			}
		}
	}
	for t := range expected {
		for _, p := range s.pauses {
			if t > p.from && t <= p.until {
				delete(expected, t)
			}
		}
	}
	return expected, all
}

// checkSchedules compares what was registered with what package schedule says.
func (a *auditor) checkSchedules() {
	jobs, err := app.New(app.Options{Store: a.w.store})
	if err != nil {
		a.w.Error(err)
		return
	}
	m, err := schedules.New(schedules.Options{Store: a.w.store, Jobs: jobs, ID: "auditor"})
	if err != nil {
		a.w.Error(err)
		return
	}
	for _, s := range a.w.timings {
		is, err := m.Get(context.Background(), s.name)
		if err != nil {
			a.w.Errorf("%s: %v", s.name, err)
			continue
		}
		a.checkSchedule(s, &is)
	}
}

func (a *auditor) checkSchedule(s *timing, is *schedules.Schedule) {
	wrong := func(format string, args ...any) {
		a.w.Helper()
		a.w.Errorf("%s (%s, %s, jitter %v): %s; forms %v, pauses %v, counters %+v", s.name, s.overlap, s.policy, s.jitter,
			fmt.Sprintf(format, args...), s.forms, s.pauses, is.Counters)
	}
	expected, all := s.occurrences(a)
	born, fired, manual, before := map[string]bool{}, map[job.Instant]string{}, int64(0), int64(0)
	for i := range a.h.changes {
		c := &a.h.changes[i]
		if c.birth == nil || c.birth.Spec.Occurrence == nil || c.birth.Spec.Occurrence.Schedule != s.name {
			continue
		}
		j, of := c.birth, c.birth.Spec.Occurrence
		if born[j.UID] {
			wrong("%s was registered twice as %s", j.Key, j.UID)
		}
		born[j.UID] = true
		if of.Kind == job.ByHand {
			manual++
			continue
		}
		if !all[of.Time] || j.ID != schedule.ID(s.name, of.Time.Time()) || j.DueAt != job.InstantOf(schedule.Due(s.name, of.Time.Time(), s.jitter)) {
			wrong("%s is no occurrence; it is due at %v", j.Key, j.DueAt.RFC3339())
		}
		form, ok := expected[of.Time]
		switch {
		case fired[of.Time] != "":
			wrong("%s was registered as %s and as %s", j.Key, fired[of.Time], j.UID)
		case ok && s.takes(form, string(j.Spec.Body)):
		case s.justBefore(j.DueAt):
			a.h.counts["occurrences registered before a change"]++
			before++
		default:
			wrong("%s was registered in form %s; expected: %v, in form %d", j.Key, j.Spec.Body, ok, form)
		}
		if written := c.life.written(c.at); c.life.crashedBy(written) || s.called(c.at-changeTakes, written) { // a crash or a call may have won against its count
			before++
		}
		fired[of.Time] = j.UID
	}
	a.h.counts["occurrences"] += len(expected)
	a.h.counts["occurrences that fired"] += len(fired)
	c := &is.Counters
	// Counters may lack what a dead node did not write, or what was not answered.
	off := before + int64(a.h.counts["crashes"]+a.h.counts["decisions without an answer"])
	if a.w.steps {
		off += 2 // nor what became late by a step before it was written
	}
	switch {
	case is.State != schedules.Completed || is.LastError != nil:
		wrong("it is %s, the last error is %+v", is.State, is.LastError)
	case !near(c.Fired+c.Missed+c.Skipped, int64(len(expected)), off) || c.Failed != 0:
		wrong("it has %d occurrences", len(expected))
	case !near(c.Fired, int64(len(fired)), off) || !near(c.Manual, manual, off+int64(len(s.runs))):
		wrong("%d of its occurrences were registered, and %d runs", len(fired), manual)
	case s.firesAll() && len(s.pauses) == 0 && len(s.forms) == 1 && len(fired) != len(expected):
		wrong("%d of %d occurrences fired", len(fired), len(expected))
	}
	for _, r := range s.runs {
		a.checkRun(s, r)
	}
}

func near(a, b, off int64) bool { return max(a-b, b-a) <= off }

// takes reports whether an occurrence of a form may have the body of a job: that of the form, or
// of a later one if its timetable stayed.
func (s *timing) takes(form int, body string) bool {
	n, err := strconv.Atoi(body)
	for err == nil && n > form && s.forms[n].every == s.forms[n-1].every {
		n--
	}
	return err == nil && n == form
}

// changeTakes is how long a decision and a call that changes a schedule may take, in which an occurrence may be
// registered that the change holds for.
const changeTakes = 2 * time.Second

// justBefore reports whether a job may have been registered during a change that holds for its
// occurrence.
func (s *timing) justBefore(due job.Instant) bool {
	before := func(from job.Instant) bool { return from < due && due <= from.Add(changeTakes) }
	return slices.ContainsFunc(s.forms, func(f form) bool { return before(f.from) }) || slices.ContainsFunc(s.pauses, func(p pause) bool { return before(p.from) })
}

// called reports whether a call that changes the schedule was made at a time between from and to.
func (s *timing) called(from, to time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.calls, func(c span) bool { return c.from <= to && c.to >= from })
}

// checkRun: a run without a key is made for each call, one with a key once for all calls.
func (a *auditor) checkRun(s *timing, r *run) {
	created := 0
	for i := range r.answers {
		if r.answers[i].Created {
			created++
		}
		if r.key != "" && r.answers[i].Job.Key != r.answers[0].Job.Key {
			a.wrong(r.answers[i].Job.Key, "run %s made another job, too: %s", r.key, r.answers[0].Job.Key)
		}
	}
	switch {
	case r.key == "" && created != len(r.answers), r.key != "" && created > 1, r.key != "" && r.tries == len(r.answers) && created == 0:
		a.w.Errorf("%s: run %q was answered %d times after %d tries, and made %d jobs", s.name, r.key, len(r.answers), r.tries, created)
	}
}
