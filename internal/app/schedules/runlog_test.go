package schedules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/store"
)

// watchedRig is a rig whose store a log of runs observes, and a node with it.
func watchedRig(t *testing.T) (*rig, *RunLog, *Manager, store.Store) {
	r := newRig(t, time.Hour)
	h := NewRunLog(r.store, nil, nil)
	observed := feed.Observe(r.store, h.Subscriber())
	jobs, err := app.New(app.Options{Store: observed})
	r.ok(err)
	r.jobs.App = jobs
	m, err := New(Options{Store: r.store, Jobs: r.jobs, ID: "a", RunLog: h, Logger: slog.New(slog.DiscardHandler)})
	r.ok(err)
	return r, h, m, observed
}

// end claims the due jobs and ends them as a receiver with a status would.
func (r *rig) end(s store.Store, status int) {
	r.t.Helper()
	taken, err := r.store.Take(r.ctx, 0, store.TakeOptions{Max: 1000, Lease: time.Minute, Limits: store.FlightLimits{HalfOpenLimit: 1}})
	r.ok(err)
	claimed := taken.Claims
	for i := range claimed {
		o := job.Outcome{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{StartedAt: job.InstantOf(time.Now()), Duration: 40 * time.Millisecond, Status: status}}
		if status >= 300 {
			o.Kind, o.Attempt.Error = job.OutcomeFailed, fmt.Sprint("http_", status)
		}
		if status == 410 {
			o.Kind, o.Reason = job.OutcomeRefused, job.ReasonGone
		}
		_, err := s.Settle(r.ctx, []job.Settlement{job.Settle(&claimed[i].Job, o, func(int) (time.Duration, bool) { return 0, false })})
		r.ok(err)
	}
}

func TestRunsOutliveTheirJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h, m, observed := watchedRig(t)
		r.set(m, "s", every("1000h"))
		for _, status := range []int{200, 503} {
			_, err := m.RunNow(r.ctx, "s", "")
			r.ok(err)
			r.end(observed, status)
			sleep(time.Minute)
		}
		cancelled, err := m.RunNow(r.ctx, "s", "")
		r.ok(err)
		_, _, err = r.jobs.Cancel(r.ctx, cancelled.Job.Key)
		r.ok(err)

		runs, err := m.Runs(r.ctx, "s") // before they are written
		r.ok(err)
		h.write(r.ctx)
		sleep(48 * time.Hour)
		_, err = r.store.Purge(r.ctx, 1000)
		r.ok(err)
		if _, err := r.jobs.Get(r.ctx, cancelled.Job.Key); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("the job is kept: %v", err)
		}
		written, err := m.Runs(r.ctx, "s")
		r.ok(err)
		want := "[delivered 1 200  40ms manual] [dead 1 503 http_503 40ms manual] [cancelled 0 0  0s manual]"
		for _, got := range []string{textOf(runs), textOf(written)} {
			if got != want {
				t.Errorf("runs %s, want %s", got, want)
			}
		}
	})
}

func textOf(runs []Run) (text string) {
	for i, r := range runs {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprint("[", r.State, " ", r.Attempts, " ", r.Status, " ", r.Error, " ", r.Duration, " ", r.Kind, "]")
	}
	return text
}

func TestRunsAreBounded(t *testing.T) {
	r, h, m, _ := watchedRig(t)
	s := r.set(m, "s", every("1h"))
	for i := range 3 * MaxRuns {
		h.note("s", Run{UID: fmt.Sprint(i / 2), Ended: s.CreatedAt.Add(time.Duration(i) * time.Second), Attempts: i})
		if i%70 == 0 {
			h.write(r.ctx)
		}
	}
	runs, err := m.Runs(r.ctx, "s")
	r.ok(err)
	first, last := runs[0], runs[len(runs)-1]
	if len(runs) != MaxRuns || last.Attempts != 3*MaxRuns-1 || first.Attempts != MaxRuns+1 {
		t.Errorf("%d runs from %+v to %+v, want the last ends of the last jobs", len(runs), first, last)
	}
	long := r.set(m, "long", every("1h"))
	for i := range MaxRuns {
		h.note("long", Run{Key: job.Key{ID: strings.Repeat("x", 400)}, UID: fmt.Sprint(i), Ended: long.CreatedAt.Add(time.Duration(i) * time.Second), Attempts: i})
	}
	h.write(r.ctx)
	d, err := h.docs.Get(r.ctx, "long")
	r.ok(err)
	if n := len(d.Value.Runs); len(d.Data) > MaxRunBytes || n < MaxRunBytes/600 || d.Value.Runs[n-1].Attempts != MaxRuns-1 {
		t.Errorf("%d runs in %d bytes, want the last ones, in %d bytes at most", n, len(d.Data), MaxRunBytes)
	}
	for range 2 * maxPending {
		h.note("s", Run{})
	}
	if h.count != maxPending {
		t.Errorf("%d runs are kept for a store that is away", h.count)
	}
}

// A deleted schedule leaves no runs, even if its jobs end later, and gives none to another one.
func TestRunsOfADeletedSchedule(t *testing.T) {
	r, h, m, _ := watchedRig(t)
	s := r.set(m, "s", every("1h"))
	past := Run{UID: "a", Ended: s.CreatedAt}
	h.note("s", past)
	h.write(r.ctx)
	r.ok(m.Delete(r.ctx, "s"))
	h.note("s", past)
	h.write(r.ctx)
	if _, err := h.docs.Get(r.ctx, "s"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the runs are kept: %v", err)
	}
	if _, err := m.Runs(r.ctx, "s"); !errors.Is(err, ErrNotFound) {
		t.Errorf("runs of no schedule: %v", err)
	}
	past.Ended = r.set(m, "s", every("2h")).CreatedAt - 1
	h.note("s", past)
	if runs, err := m.Runs(r.ctx, "s"); err != nil || len(runs) != 0 {
		t.Errorf("runs of a schedule of the same name: %+v, %v", runs, err)
	}
}

func TestRunsAreWrittenAtTheEnd(t *testing.T) {
	r, h, m, _ := watchedRig(t)
	s := r.set(m, "s", every("1h"))
	h.note("s", Run{UID: "a", Ended: s.CreatedAt})
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	r.ok(h.Run(ctx))
	if d, err := h.docs.Get(r.ctx, "s"); err != nil || len(d.Value.Runs) != 1 {
		t.Errorf("%+v, %v", d.Value, err)
	}
}

// A receiver that accepts no more pauses its schedule, with a reason and an event.
func TestAGoneReceiverPausesItsSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h, m, observed := watchedRig(t)
		var seen []events.Event
		m.o.Emit = func(e ...events.Event) { seen = append(seen, e...) }
		r.set(m, "s", every("1000h"))
		sleep(time.Second)
		_, err := m.RunNow(r.ctx, "s", "")
		r.ok(err)
		r.end(observed, 410)
		h.write(r.ctx)
		s := r.get(m, "s")
		if s.State != Paused || s.Pause.Reason != job.PausedGone || !strings.Contains(s.Pause.Note, s.Last.Key.String()) {
			t.Errorf("%s, paused by %+v", s.State, s.Pause)
		}
		if last := seen[len(seen)-1]; last.Type != events.SchedulePaused || last.Reason != job.PausedGone || last.Schedule != "s" {
			t.Errorf("reported as %+v", last)
		}
		if runs, err := m.Runs(r.ctx, "s"); err != nil || textOf(runs) != "[dead 1 410 http_410 40ms manual]" {
			t.Errorf("runs %+v, %v", runs, err)
		}
		if page, err := r.jobs.List(r.ctx, store.Query{States: []job.State{job.Dead}, Limit: 10}); err != nil || len(page.Jobs) != 1 {
			t.Errorf("%d dead letters are kept, %v", len(page.Jobs), err)
		}
	})
}

// What ends of jobs pause a schedule, and what do not.
func TestEndsThatPause(t *testing.T) {
	const here, there = job.Destination("http://receiver.example/"), job.Destination("http://receiver.example/old")
	run := func(n int, state job.State, reason string, to job.Destination) Run {
		return Run{UID: fmt.Sprint(n), State: state, Reason: reason, Time: job.Instant(n) * 1000, to: to}
	}
	times := func(n int, state job.State) (all []Run) {
		for range n {
			all = append(all, run(len(all)+1, state, job.ReasonRetryLimit, here))
		}
		return all
	}
	for name, c := range map[string]struct {
		ends []Run
		want string // the reason; empty: it stays active
	}{
		"410":                              {[]Run{run(1, job.Dead, job.ReasonGone, here)}, job.PausedGone},
		"410 of the receiver of before":    {[]Run{run(1, job.Dead, job.ReasonGone, there)}, ""},
		"410 of an occurrence of before":   {[]Run{run(0, job.Dead, job.ReasonGone, here)}, ""},
		"another refusal":                  {[]Run{run(1, job.Dead, job.ReasonAborted, here)}, ""},
		"one that died of retries":         {times(1, job.Dead), ""},
		"a hundred in a row":               {times(100, job.Dead), job.PausedDead},
		"ninety-nine":                      {times(99, job.Dead), ""},
		"a delivery between":               {append(append(times(99, job.Dead), run(100, job.Delivered, "", here)), times(99, job.Dead)...), ""},
		"a cancelled one between":          {append(append(times(99, job.Dead), run(100, job.Cancelled, "", here)), run(101, job.Dead, job.ReasonBlocked, here)), job.PausedDead},
		"a hundred jobs of one occurrence": {slices.Repeat([]Run{run(1, job.Dead, job.ReasonRetryLimit, here)}, 100), ""},
		"a hundred delivered":              {times(100, job.Delivered), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, h, m, _ := watchedRig(t)
			began := r.set(m, "s", every("1h")).Since
			for i, one := range c.ends {
				one.Time, one.Ended = one.Time+began, began.Add(time.Duration(i)*time.Second)
				h.note("s", one)
				if i%30 == 0 {
					h.write(r.ctx)
				}
			}
			h.write(r.ctx)
			reason := ""
			if s := r.get(m, "s"); s.Pause != nil {
				reason = s.Pause.Reason
			}
			if reason != c.want {
				t.Errorf("paused by %q, want %q", reason, c.want)
			}
			if c.want == "" {
				return
			}
			// Resumed, it begins to count anew.
			_, err := m.Resume(r.ctx, "s")
			r.ok(err)
			h.note("s", run(1, job.Dead, job.ReasonRetryLimit, here))
			h.write(r.ctx)
			if s := r.get(m, "s"); s.Pause != nil {
				t.Errorf("paused again by %+v", s.Pause)
			}
		})
	}
}
