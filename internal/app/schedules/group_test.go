package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

// forGroup returns a rig with a group g of members, and a schedule that fires for it each minute.
func forGroup(t *testing.T, members int) (*rig, *groups.Manager, *Draft) {
	r := newRig(t, time.Hour)
	all := groups.New(r.store, app.Guard(nil).Check, nil)
	jobs, err := app.New(app.Options{Store: r.store, Groups: all})
	r.ok(err)
	r.jobs.App = jobs
	r.members(all, members)
	d := every("1m")
	d.Job.Destination, d.Job.Group, d.Overlap = nil, ptr("g"), ptr("skip")
	return r, all, d
}

func (r *rig) members(all *groups.Manager, n int) {
	r.t.Helper()
	draft := groups.Draft{Members: []groups.MemberDraft{}}
	for i := range n {
		draft.Members = append(draft.Members, groups.MemberDraft{Name: ptr(fmt.Sprintf("m%03d", i)), URL: ptr(job.Destination("http://receiver.example/"))})
	}
	g, err := draft.Group("g")
	r.ok(err)
	_, _, err = all.Put(r.ctx, g)
	r.ok(err)
}

// An occurrence makes a job for each member of the time, counts once, and overlaps until the last of its jobs has ended.
func TestAnOccurrenceFansOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // from 2000-01-01 00:00
		r, all, d := forGroup(t, 400)
		m := r.node("a", nil)
		defer r.run(m)()
		r.set(m, "s", d)
		pass(90 * time.Second)
		r.counters(m, "s", Counters{Fired: 1})
		must.Equal(t, "jobs", r.jobs.registered(), 400)
		if uids := r.jobs.created[job.Key{Topic: "default", ID: "s@20000101T000100Z:m399"}]; len(uids) != 1 {
			t.Errorf("the last member has the jobs %v", uids)
		}
		if l := r.get(m, "s").Last; l.Key.ID != "s@20000101T000100Z" || l.UID != "" || l.Outcome != "fired" {
			t.Errorf("%+v", l)
		}
		pass(time.Minute)
		r.counters(m, "s", Counters{Fired: 1, Skipped: 1})
		if n := len(r.deliver()); n != 400 {
			t.Errorf("%d delivered", n)
		}
		r.members(all, 2)
		pass(time.Minute)
		r.counters(m, "s", Counters{Fired: 2, Skipped: 1})
		must.Equal(t, "jobs", r.jobs.registered(), 402)
	})
}

// A run by hand makes a job for each member. A repeated call makes what is missing, and nothing twice; the run counts once and
// overlaps until the last of its jobs has ended.
func TestARunByHandFansOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, all, d := forGroup(t, 4)
		m := r.node("a", nil)
		r.set(m, "s", d)
		m.o.Jobs = halved{r.jobs}
		if _, err := m.RunNow(r.ctx, "s", "key"); !errors.Is(err, errHalf) {
			t.Fatal(err)
		}
		m.o.Jobs = r.jobs
		first, err := m.RunNow(r.ctx, "s", "key")
		r.ok(err)
		again, err := m.RunNow(r.ctx, "s", "key")
		r.ok(err)
		other, err := m.RunNow(r.ctx, "s", "")
		r.ok(err)
		if !first.Created || again.Created || again.FanOut.ID != first.FanOut.ID || !other.Created || other.FanOut.ID == first.FanOut.ID || len(again.Members) != 4 {
			t.Errorf("%+v\n%+v\n%+v", first, again, other)
		}
		must.Equal(t, "jobs", r.jobs.registered(), 8)
		r.counters(m, "s", Counters{Manual: 2})
		if l := r.get(m, "s").Last; l.Key.ID != other.FanOut.ID || l.UID != "" {
			t.Errorf("%+v", l)
		}
		stop := r.run(m)
		pass(90 * time.Second)
		r.counters(m, "s", Counters{Manual: 2, Skipped: 1})
		r.deliver()
		pass(time.Minute)
		r.counters(m, "s", Counters{Manual: 2, Skipped: 1, Fired: 1})
		stop()
		r.ok(all.Delete(r.ctx, "g"))
		var wrong *job.ValidationError
		if _, err := m.RunNow(r.ctx, "s", ""); !errors.As(err, &wrong) {
			t.Error(err)
		}
	})
}

// An occurrence for a group counts as many jobs as the group has members when a schedule is set.
func TestJobsForAGroupHaveARate(t *testing.T) {
	r, all, d := forGroup(t, 100)
	m := r.node("a", nil)
	m.o.MaxRate = 10 // 600 a minute, 300 of a topic
	set := func(name string, d *Draft, refused string) {
		t.Helper()
		_, _, err := m.Set(r.ctx, name, d)
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", name, err, refused)
		}
	}
	often := *d
	often.Every = every("15s").Every
	set("s", &often, "makes up to 400 jobs a minute")
	set("s", d, "")
	set("one", inTopic("default", every("1s")), "")
	r.members(all, 200)
	set("two", inTopic("default", every("1s")), "make 260")
	r.ok(all.Delete(r.ctx, "g"))
	set("two", inTopic("default", every("1s")), "")
}

// An occurrence without members fails, and the schedule goes on.
func TestAnOccurrenceWithoutMembersFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, all, d := forGroup(t, 0)
		m := r.node("a", nil)
		defer r.run(m)()
		r.set(m, "s", d)
		pass(90 * time.Second)
		r.counters(m, "s", Counters{Failed: 1})
		if l := r.get(m, "s").Last; l.Reason != ReasonNoMembers {
			t.Errorf("%+v", l)
		}
		r.ok(all.Delete(r.ctx, "g"))
		pass(time.Minute)
		r.counters(m, "s", Counters{Failed: 2})
		r.members(all, 3)
		pass(time.Minute)
		r.counters(m, "s", Counters{Fired: 1, Failed: 2})
		must.Equal(t, "jobs", r.jobs.registered(), 3)
	})
}

// halved registers half of each call, and then fails.
type halved struct{ *recorder }

var errHalf = errors.New("a crash between members")

func (h halved) RegisterOwn(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	if _, err := h.recorder.RegisterOwn(ctx, regs[:len(regs)/2]); err != nil {
		return nil, err
	}
	return nil, errHalf
}

// A node dies between the jobs of an occurrence, some of which end before the next node looks, or after all of them and
// before it wrote that. Each member gets one job, and the occurrence counts once, also if the schedule was changed.
func TestACrashBetweenMembers(t *testing.T) {
	for _, c := range []struct {
		name     string
		half     bool
		delivers bool
	}{{"half", true, false}, {"half, delivered", true, true}, {"not written", false, false}, {"not written, delivered", false, true}} {
		synctest.Test(t, func(t *testing.T) {
			r, _, d := forGroup(t, 10)
			a := r.node("a", func(step string) error {
				if step == "registered" {
					return errCrash
				}
				return nil
			})
			if c.half {
				a.o.Jobs = halved{r.jobs}
			}
			r.set(a, "s", d)
			sleep(61 * time.Second)
			if _, err := a.round(r.ctx); err == nil {
				t.Fatal("the node lives")
			}
			must.Equal(t, c.name+": jobs at the crash", r.jobs.registered(), map[bool]int{true: 5, false: 10}[c.half])
			if c.delivers {
				r.deliver()
			}
			b := r.node("b", nil)
			stop := r.run(b)
			pass(10 * time.Second)
			stop()
			must.Equal(t, c.name+": jobs", r.jobs.registered(), 10)
			for key, uids := range r.jobs.created {
				must.Equal(t, fmt.Sprintf("%s: %s was registered", c.name, key), len(uids), 1)
			}
		})
	}
}

// An occurrence that a dead node registered for a URL is not made again for the group that the schedule has then.
func TestALeftFormIsNotMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, d := forGroup(t, 3)
		a := r.node("a", func(step string) error {
			if step == "registered" {
				return errCrash
			}
			return nil
		})
		for _, steps := range [][]*Draft{{every("1m"), d}, {d, every("1m")}} {
			r.set(a, "s", steps[0])
			before := r.jobs.registered()
			sleep(61 * time.Second)
			if _, err := a.round(r.ctx); err == nil {
				t.Fatal("the node lives")
			}
			made := r.jobs.registered() - before
			next := *steps[1]
			r.set(a, "s", &next)
			stop := r.run(r.node("b", nil))
			pass(4 * time.Second)
			stop()
			if got := r.jobs.registered() - before; got != made {
				t.Errorf("%d jobs, then %d", made, got)
			}
			r.ok(a.Delete(r.ctx, "s"))
			sleep(2 * time.Hour)
		}
		keys := []string{}
		for key := range r.jobs.created {
			keys = append(keys, key.ID)
		}
		if slices.Sort(keys); len(keys) != 4 {
			t.Errorf("%v", keys)
		}
	})
}
