package schedules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/store"
)

// damaged has a key whose job cannot be read.
type damaged struct {
	*recorder
	on atomic.Bool
}

func (d *damaged) RegisterOwn(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	if d.on.Load() && strings.HasPrefix(regs[0].Key.ID, "a@") {
		return nil, fmt.Errorf("%w: %s", store.ErrUnreadable, regs[0].Key)
	}
	return d.recorder.RegisterOwn(ctx, regs)
}

// rewrite replaces a part of a document, and sends no message about that.
func (r *rig) rewrite(kind, name, from, to string) {
	r.t.Helper()
	d, err := store.ReadDocument(r.ctx, r.store, kind, name)
	r.ok(err)
	d.Kind, d.Data = kind, bytes.Replace(d.Data, []byte(from), []byte(to), 1)
	_, err = store.PutDocument(r.ctx, r.store, d)
	r.ok(err)
}

// What cannot be read of a schedule stops that one, and no other. Once it can be read, its misfire policy decides
// about what is late by then.
func TestAScheduleFailsAlone(t *testing.T) {
	const is, newer = `{"`, `{"from_a_newer_version":1,"`
	for name, c := range map[string]struct {
		fail, repair func(r *rig, j *damaged)
		shown        bool // by Get
	}{
		"its document": {
			func(r *rig, _ *damaged) { r.rewrite(documentKind, "a", is, newer) },
			func(r *rig, _ *damaged) { r.rewrite(documentKind, "a", newer, is) }, false,
		},
		"settings of another version": {
			func(r *rig, _ *damaged) {
				r.rewrite(documentKind, "a", `"Zone":"UTC"`, `"Zone":"Mars"`)
				r.rewrite(documentKind, "a", `"version":1`, `"version":2`)
			},
			func(r *rig, _ *damaged) { r.rewrite(documentKind, "a", `"Zone":"Mars"`, `"Zone":"UTC"`) }, false,
		},
		"its job": {
			func(_ *rig, j *damaged) { j.on.Store(true) },
			func(_ *rig, j *damaged) { j.on.Store(false) }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, time.Hour)
				j := &damaged{recorder: r.jobs}
				var log strings.Builder
				m, err := New(Options{Store: r.store, Jobs: j, ID: "a", Logger: slog.New(slog.NewTextHandler(&log, nil))})
				r.ok(err)
				d := every("1m")
				d.Policy, d.Timezone = new("fire_all"), new("UTC")
				r.set(m, "a", d)
				r.set(m, "b", every("1m"))
				stop := r.run(m)
				pass(90 * time.Second)
				c.fail(r, j)
				pass(5 * time.Minute)
				r.counters(m, "b", Counters{Fired: 6})
				if r.jobs.registered() != 7 || m.MayPurge() || testutil.ToFloat64(m.metrics.count.WithLabelValues("failing")) != 1 {
					t.Errorf("%d jobs; ended ones may be purged: %v; the metric counts %v that fail", r.jobs.registered(), m.MayPurge(),
						testutil.ToFloat64(m.metrics.count.WithLabelValues("failing")))
				}
				switch s, err := m.Get(r.ctx, "a"); {
				case !c.shown && !errors.Is(err, store.ErrNewer):
					t.Errorf("it is shown as %+v, error %v", s, err)
				case c.shown && (err != nil || s.State != Active || s.LastError == nil || s.LastError.Reason != ReasonUnreadable):
					t.Errorf("%s, %+v, error %v", s.State, s.LastError, err)
				}
				page, err := m.List(r.ctx, Query{Limit: 10})
				r.ok(err)
				if n := len(page.Schedules); n != map[bool]int{true: 2, false: 1}[c.shown] {
					t.Errorf("%d schedules are listed", n)
				}
				c.repair(r, j)
				pass(time.Minute)
				r.counters(m, "a", Counters{Fired: 7})
				r.counters(m, "b", Counters{Fired: 7})
				if s := r.get(m, "a"); s.LastError != nil || !m.MayPurge() {
					t.Errorf("repaired: %+v; ended jobs may be purged: %v", s.LastError, m.MayPurge())
				}
				stop()
				if n := strings.Count(log.String(), "level=ERROR"); n != 1 || strings.Contains(log.String(), "executing schedules") {
					t.Errorf("%d errors in the log:\n%s", n, log.String())
				}
			})
		})
	}
}

// A schedule that cannot be read can be deleted, so that ended jobs are purged again.
func TestAnUnreadableScheduleCanBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		defer r.run(m)()
		r.set(m, "s", every("1m"))
		r.set(m, "other", every("1m"))
		r.rewrite(documentKind, "s", `{"`, `{"from_a_newer_version":1,"`)
		pass(90 * time.Second)
		if _, _, err := m.Set(r.ctx, "s", every("2m")); !errors.Is(err, store.ErrNewer) || m.MayPurge() {
			t.Errorf("Set: %v; ended jobs may be purged: %v", err, m.MayPurge())
		}
		r.ok(m.Delete(r.ctx, "s"))
		pass(time.Second)
		if _, err := m.Get(r.ctx, "s"); !errors.Is(err, ErrNotFound) || !m.MayPurge() {
			t.Errorf("Get: %v; ended jobs may be purged: %v", err, m.MayPurge())
		}
		r.set(m, "s", every("1m"))
		pass(time.Minute)
		r.counters(m, "s", Counters{Fired: 1})
	})
}
