package ledger_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
)

// spoil makes a ledger with four jobs that cannot be read as they are, of which
// one lacks an attempt only, and one that can.
func (r *rig) spoil() {
	r.T.Helper()
	r.Add(reg("log", 0))
	r.RunOne(job.OutcomeFailed, time.Hour)
	for _, id := range []string{"good", "spec", "payload", "state"} {
		r.Add(reg(id, time.Hour))
	}
	noError(r.T, "Flush", r.Flush())
	const of = "(SELECT seq FROM message WHERE id = "
	for _, text := range []string{
		"UPDATE flow SET log = " + r.B.Hex("c1") + " WHERE log IS NOT NULL",
		"UPDATE payload SET spec = " + r.B.Hex("c1") + " WHERE seq = " + of + "'spec')",
		"DELETE FROM payload WHERE seq = " + of + "'payload')",
		"UPDATE message SET status = 99 WHERE id = 'state'",
	} {
		noError(r.T, text, r.Exec(r.T.Context(), text))
	}
}

// observed gives an option that keeps the log, and the metrics.
func observed() (*bytes.Buffer, *prometheus.Registry, with) {
	log, registry := &bytes.Buffer{}, prometheus.NewRegistry()
	return log, registry, func(o *options) {
		o.Logger, o.Metrics = slog.New(slog.NewTextHandler(log, nil)), registry
	}
}

// told fails the test unless the log and the metrics tell of the spoilt jobs.
func told(t *testing.T, log *bytes.Buffer, registry *prometheus.Registry) {
	t.Helper()
	for _, id := range []string{"log", "spec", "payload", "state"} {
		if !strings.Contains(log.String(), key(id).String()) {
			t.Errorf("%s is not named in the log: %s", id, log)
		}
	}
	want := `# HELP duehook_restore_unreadable_jobs Jobs of the ledger that this node could not read in its last complete pass.
# TYPE duehook_restore_unreadable_jobs gauge
duehook_restore_unreadable_jobs 4
`
	noError(t, "metrics", testutil.GatherAndCompare(registry, strings.NewReader(want), "duehook_restore_unreadable_jobs"))
}

// What cannot be read does not keep the rest from being put back.
func TestSweepPassesOverWhatCannotBeRead(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		log, registry, option2 := observed()
		r := freshRig(t, b, retention, option, option2)
		r.spoil()
		l.flush(t)
		report := r.reconcile()
		equal(t, "restored", report.Restored, int64(2))
		equal(t, "jobs that cannot be read", report.Unreadable, int64(4))
		equal(t, "their names", strings.Join(report.UnreadableJobs, " "), "t/log t/spec t/payload t/state")
		told(t, log, registry)
		r.Job("good")
		equal(t, "attempts", r.Job("log").Attempts, 1)
		for _, id := range []string{"spec", "payload", "state"} {
			if _, _, err := r.RestoreJob(t.Context(), key(id)); !errors.Is(err, store.ErrUnreadable) {
				t.Errorf("RestoreJob %s: %v", id, err)
			}
		}
		equal(t, "restored by the next pass", r.reconcile().Restored, int64(0))

		want := map[string]ledger.Difference{}
		for _, id := range []string{"log", "spec", "payload", "state"} {
			want[id] = ledger.UnreadableInLedger
		}
		equal(t, "differences", r.verify(), want)
	})(t)
}
