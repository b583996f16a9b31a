package job_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/job"
)

func TestCallbackIDs(t *testing.T) {
	const uid = "01KDWCJ2M00000000000000001"
	j := job.Job{UID: uid, Spec: job.Spec{Callbacks: &job.Callbacks{}}}
	replayed := job.Job{UID: uid, Spec: job.Spec{Callbacks: &job.Callbacks{Replays: 2}}}
	for want, got := range map[string]string{
		".delivered":          j.CallbackID(job.CallbackDelivered, 0),
		".attempt_failed.4":   j.CallbackID(job.CallbackAttemptFailed, 4),
		".dead.3":             replayed.CallbackID(job.CallbackDead, 7),
		".attempt_failed.4.3": replayed.CallbackID(job.CallbackAttemptFailed, 4),
	} {
		if got != uid+want {
			t.Errorf("%s, want %s%s", got, uid, want)
		}
		if of, is := job.CallbackOf(got); of != uid || !is {
			t.Errorf("%s is %v the callback of %s", got, is, of)
		}
		if e := job.EventOfCallback(got); !strings.HasPrefix(want, "."+string(e)) || e == "" {
			t.Errorf("%s has the event %s", got, e)
		}
		if job.CheckName(got) != nil {
			t.Errorf("%s is no name", got)
		}
	}
	for _, other := range []string{"", uid, uid + ".", uid + ".done", uid + ".dead.x", uid + "-dead", uid[1:] + ".dead", "i" + uid[1:] + ".dead"} {
		if _, is := job.CallbackOf(other); is || job.EventOfCallback(other) != "" {
			t.Errorf("%q is the id of a callback", other)
		}
	}
}

// The keys of callbacks are those of the successors, whatever happens.
func TestCallbackKeys(t *testing.T) {
	c := &job.Callbacks{}
	for _, e := range job.CallbackEvents {
		c.Set(e, &job.Callback{Destination: "https://a.example"})
	}
	j := job.Job{Key: job.Key{Topic: "t", ID: "a"}, UID: "01KDWCJ2M00000000000000001", Spec: job.Spec{Callbacks: c}}
	var want []job.Key
	for n, kind := range []job.OutcomeKind{job.OutcomeFailed, job.OutcomeReleased, job.OutcomeFailed, job.OutcomeDelivered} {
		o := job.Outcome{Kind: kind}
		if kind != job.OutcomeReleased {
			o.Attempt = &job.Attempt{Number: n}
		}
		s := job.Settle(&j, o, func(int) (time.Duration, bool) { return time.Minute, true })
		change := s.Change(false)
		for _, next := range s.Successors(change, 1) {
			want = append(want, next.Key)
			if next.Spec.Callbacks != nil || next.Report.Job.Attempts != s.Attempts {
				t.Errorf("%s: %+v", next.Key, next)
			}
		}
		j.State, j.Reason, j.Attempts = change.To, change.Reason, s.Attempts
		if diff := cmp.Diff(want, j.CallbackKeys()); diff != "" {
			t.Errorf("after outcome %d (-successors +keys):\n%s", kind, diff)
		}
	}
	if len(want) != 3 {
		t.Errorf("%v", want)
	}
	if err := j.Replay(1); err != nil || len(j.CallbackKeys()) != 0 || j.Spec.Callbacks.Replays != 1 || c.Replays != 0 {
		t.Errorf("after a replay: %v, %v, %+v", err, j.CallbackKeys(), j.Spec.Callbacks)
	}
	earlier := j.EarlierCallbackKeys([]job.Attempt{{Number: 1}, {Number: 3}})
	for _, key := range want {
		if !slices.Contains(earlier, key) {
			t.Errorf("after a replay, %s is not among %v", key, earlier)
		}
	}
	if _, err := j.Cancel(2); err != nil {
		t.Fatal(err)
	}
	if next := j.Ended(job.Waiting); len(next) != 1 || next[0].Key != j.CallbackKeys()[0] || !strings.HasSuffix(next[0].Key.ID, ".cancelled.2") {
		t.Errorf("after a cancel: %+v", next)
	}
}
