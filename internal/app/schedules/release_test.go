package schedules

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/leader"
)

// released is a node with a release of the time zones.
func (r *rig) released(id, release string, alone bool) (*Manager, *bytes.Buffer) {
	r.t.Helper()
	log := &bytes.Buffer{}
	elected := leader.New(leader.Options{Store: r.store, Node: id, Rank: release, Clock: job.SystemClock()})
	if alone {
		elected = nil
	}
	m, err := New(Options{
		Store: r.store, Jobs: r.jobs, ID: id, Leader: elected, TZData: release, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	r.ok(err)
	return m, log
}

// Whichever starts first, the nodes with the newest time zones look after schedules, and others never do again.
func TestNodesWithOldTimeZonesStandBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		first, log := r.released("a", "2025c", false)
		r.set(first, "s", every("1m"))
		stop := r.run(first)
		r.ok(job.Sleep(r.ctx, job.SystemClock(), 150*time.Second))
		if n := r.jobs.registered(); n != 2 {
			t.Fatalf("%d occurrences", n)
		}
		second, _ := r.released("b", "2026b", false)
		third, _ := r.released("c", "2026b", false)
		for _, m := range []*Manager{second, third} {
			defer r.run(m)()
		}
		r.ok(job.Sleep(r.ctx, job.SystemClock(), 2*releaseEvery))
		if leads := [3]bool{leading(first), leading(second), leading(third)}; leads[0] || leads[1] == leads[2] {
			t.Errorf("leading: %v", leads)
		}
		if n := strings.Count(log.String(), "older than those of another node"); n != 1 || !strings.Contains(log.String(), "release=2025c") {
			t.Errorf("the log of the first: %s", log)
		}
		stop()
		r.ok(job.Sleep(r.ctx, job.SystemClock(), 10*time.Minute))
		if n := r.jobs.registered(); n != 12 {
			t.Errorf("%d occurrences, want 12: none is lost, none comes twice", n)
		}
		if newest, err := NewestRelease(r.ctx, r.store); err != nil || newest != "2026b" {
			t.Errorf("the newest release is %q, %v", newest, err)
		}
	})
}

// An older program on the same disk, after the newer one has gone.
func TestALoneNodeWithOldTimeZonesStandsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		newer, _ := r.released("a", "2026b", true)
		r.set(newer, "s", every("1m"))
		stop := r.run(newer)
		r.ok(job.Sleep(r.ctx, job.SystemClock(), 90*time.Second))
		stop()
		older, log := r.released("b", "2026a", true)
		stop = r.run(older)
		r.ok(job.Sleep(r.ctx, job.SystemClock(), 10*time.Minute))
		stop()
		if n := r.jobs.registered(); n != 1 || older.MayPurge() || testutil.ToFloat64(older.metrics.count.WithLabelValues("failing")) != 1 {
			t.Errorf("%d occurrences, may purge %v, %v failing", n, older.MayPurge(), testutil.ToFloat64(older.metrics.count.WithLabelValues("failing")))
		}
		if n := strings.Count(log.String(), "--tzdata"); n != 1 {
			t.Errorf("the log: %s", log)
		}
		helped, _ := r.released("c", "2026c", true)
		defer r.run(helped)()
		r.ok(job.Sleep(r.ctx, job.SystemClock(), time.Minute))
		if n := r.jobs.registered(); n < 2 {
			t.Errorf("%d occurrences with a newer release", n)
		}
	})
}

func leading(m *Manager) bool {
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	return m.engine.leading
}
