package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/store"
)

// losing is a store that loses jobs after it registered them.
type losing struct {
	*recorder
	loses bool
	uids  map[job.Key][]string // of all registrations
}

func (l *losing) RegisterOwn(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	for i := range regs {
		l.uids[regs[i].Key] = append(l.uids[regs[i].Key], regs[i].UID)
	}
	if l.loses {
		return nil, store.ErrUnavailable
	}
	return l.recorder.RegisterOwn(ctx, regs)
}

// A node registers an occurrence and dies, its receiver gets the job, and then the store loses it. It comes
// again with the same uid, whatever a client did to the schedule meanwhile.
func TestTheUIDFollowsFromScheduleAndTime(t *testing.T) {
	for name, change := range map[string]func(r *rig, m *Manager, d *Draft){
		"nothing": func(*rig, *Manager, *Draft) {},
		"another URL": func(r *rig, m *Manager, d *Draft) {
			d.Job.Destination = new(job.Destination("http://other.example/"))
			r.set(m, "s", d)
		},
		"another rule for overlaps": func(r *rig, m *Manager, d *Draft) {
			d.Overlap = new("skip")
			r.set(m, "s", d)
		},
		"a bound": func(r *rig, m *Manager, d *Draft) {
			d.MaxOccurrences = new(int64(7))
			r.set(m, "s", d)
		},
		"a skip": func(r *rig, m *Manager, _ *Draft) {
			_, err := m.Skip(r.ctx, "s", nil)
			r.ok(err)
		},
		"it is late": func(*rig, *Manager, *Draft) { sleep(2 * time.Minute) },
		"there and back": func(r *rig, m *Manager, d *Draft) {
			was := d.Job.Destination
			d.Job.Destination = new(job.Destination("http://other.example/"))
			r.set(m, "s", d)
			d.Job.Destination = was
			r.set(m, "s", d)
		},
	} {
		for _, jitter := range []time.Duration{0, time.Minute} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, time.Hour)
					l := &losing{recorder: r.jobs, loses: true, uids: map[job.Key][]string{}}
					m, err := New(Options{Store: r.store, Jobs: l, ID: "a"})
					r.ok(err)
					d := every("1h")
					d.Jitter = &jitter
					s := r.set(m, "s", d)
					at := s.Next(1)[0].Time
					sleep(time.Until(schedule.Due("s", at, jitter)))
					if _, err := m.round(r.ctx); !errors.Is(err, store.ErrUnavailable) {
						t.Fatal(err)
					}
					l.loses = false
					change(r, m, d)
					sleep(2 * time.Second)
					_, err = m.round(r.ctx)
					r.ok(err)
					key := job.Key{Topic: "default", ID: schedule.ID("s", at)}
					uids := l.uids[key]
					if len(uids) != 2 || uids[0] != uids[1] {
						t.Errorf("jitter %v: %s was registered as %v", jitter, key, uids)
					}
				})
			})
		}
	}
}

// The uids of a schedule differ by its own uid and by the id of the job; those of runs do, too.
func TestUIDsDiffer(t *testing.T) {
	at := job.InstantOf(time.Date(2026, 3, 8, 7, 30, 0, 0, time.UTC))
	key := job.Key{Topic: "t", ID: schedule.ID("s", at.Time())}
	uids := []string{
		uidOf("a", at, key),
		uidOf("b", at, key), // made anew under the name
		uidOf("a", at, job.Key{Topic: "t", ID: "s" + runMark + "1"}),
		uidOf("a", at+1000, job.Key{Topic: "t", ID: schedule.ID("s", at.Time().Add(time.Second))}),
	}
	if again := uidOf("a", at, key); again != uids[0] {
		t.Errorf("%s and %s", again, uids[0])
	}
	slices.Sort(uids)
	if n := len(slices.Compact(uids)); n != 4 {
		t.Errorf("%d of 5 uids differ", n)
	}
}

// A client cancels the job of an occurrence before the schedule has noted it. It stays cancelled, whatever
// the schedule has become.
func TestACancelledOccurrenceStaysCancelled(t *testing.T) {
	for name, change := range map[string]func(d *Draft){
		"nothing":           func(*Draft) {},
		"another URL":       func(d *Draft) { d.Job.Destination = new(job.Destination("http://other.example/")) },
		"another order key": func(d *Draft) { d.Job.OrderKey = new("k") },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, time.Hour)
			a := r.node("a", func(step string) error {
				if step == "registered" {
					return errCrash
				}
				return nil
			})
			d := every("1h")
			s := r.set(a, "s", d)
			at := s.Next(1)[0].Time
			sleep(time.Until(at))
			if _, err := a.round(r.ctx); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			key := job.Key{Topic: "default", ID: schedule.ID("s", at)}
			_, _, err := r.jobs.Cancel(r.ctx, key)
			r.ok(err)
			b := r.node("b", nil)
			change(d)
			r.set(b, "s", d)
			defer r.run(b)()
			pass(10 * time.Second)
			j, err := r.jobs.Get(r.ctx, key)
			r.ok(err)
			if j.State != job.Cancelled || len(r.jobs.created[key]) != 1 {
				t.Errorf("%s: %v, registered as %v", name, j.State, r.jobs.created[key])
			}
			r.counters(b, "s", Counters{Fired: 1})
		})
	}
}

// The jobs that may not have ended are bounded: the latest stay.
func TestOpenJobsAreBounded(t *testing.T) {
	r := record{Def: Definition{Overlap: schedule.Skip}}
	key := func(n int) job.Key { return job.Key{Topic: "t", ID: fmt.Sprint("s", runMark, n)} }
	for n := range maxOpen + 10 {
		r.open(key(n))
		r.open(key(n)) // again
	}
	if len(r.Open) != maxOpen || r.Open[0] != key(10) || r.Open[maxOpen-1] != key(maxOpen+9) {
		t.Errorf("%d jobs from %v", len(r.Open), r.Open[0])
	}
}

// The topics that a schedule left are bounded: the latest stay.
func TestTopicsLeftAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		a, d := r.node("a", nil), every("1s")
		for n := range 2 * maxLeft {
			d.Job.Topic = new(fmt.Sprint("t", n))
			r.set(a, "s", d)
		}
		doc, err := a.docs.Get(r.ctx, "s")
		if n := len(doc.Value.Left); err != nil || n != maxLeft || doc.Value.Left[n-1].Topic != fmt.Sprint("t", 2*maxLeft-2) {
			t.Errorf("%v, %+v", err, doc.Value.Left)
		}
	})
}

// A client changes the topic between the registration of an occurrence and its note, which a crash or the change
// prevents. The occurrence does not come again in the new topic.
func TestAChangeOfTheTopicDoesNotRepeat(t *testing.T) {
	for _, crash := range []error{nil, errCrash} {
		for _, ended := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, time.Hour)
				b, d := r.node("b", nil), every("1h")
				changes := true
				a := r.node("a", func(step string) error {
					if step != "registered" || !changes {
						return nil
					}
					changes = false
					if ended {
						r.deliver()
					}
					d.Job.Topic = new("another")
					r.set(b, "s", d)
					return crash
				})
				s := r.set(a, "s", d)
				sleep(time.Until(s.Next(1)[0].Time))
				if _, err := a.round(r.ctx); !errors.Is(err, crash) || changes {
					t.Fatal(err)
				}
				defer r.run(b)()
				pass(time.Minute)
				if s := r.get(b, "s"); r.jobs.registered() != 1 || s.Fired != 1 || s.Last.Key.Topic != job.DefaultTopic {
					t.Errorf("crash %v, ended %v: %d jobs, %+v, the last is %+v", crash, ended, r.jobs.registered(), s.Counters, s.Last)
				}
				pass(time.Hour)
				if s := r.get(b, "s"); s.Fired != 2 || s.Last.Key.Topic != "another" {
					t.Errorf("crash %v, ended %v: the next is %+v", crash, ended, s.Last)
				}
				r.wantOnce(b, "s", 0)
			})
		}
	}
}
