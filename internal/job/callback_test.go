package job_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
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
		for _, next := range s.Successors(change, 1, job.ShedNothing) {
			want = append(want, next.Key)
			if next.Spec.Callbacks != nil || next.Report.Job.Attempts != s.Attempts {
				t.Errorf("%s: %+v", next.Key, next)
			}
		}
		j.State, j.Reason, j.Attempts = change.To, change.Reason, s.Attempts
		must.Same(t, fmt.Sprintf("after outcome %d (-successors +keys)", kind), j.CallbackKeys(), want)
	}
	if len(want) != 3 {
		t.Errorf("%v", want)
	}
	if err := j.Replay(1); err != nil || len(j.CallbackKeys()) != 0 || j.Spec.Callbacks.Replays != 1 || c.Replays != 0 {
		t.Errorf("after a replay: %v, %v, %+v", err, j.CallbackKeys(), j.Spec.Callbacks)
	}
	if _, err := j.Cancel(2); err != nil {
		t.Fatal(err)
	}
	if next := j.Ended(job.Waiting, job.ShedNothing); len(next) != 1 || next[0].Key != j.CallbackKeys()[0] || !strings.HasSuffix(next[0].Key.ID, ".cancelled.2") {
		t.Errorf("after a cancel: %+v", next)
	}
}

// Room that a store lacks is saved on callbacks of failed attempts, then on what reports contain of
// requests and answers, never on the end of a job.
func TestShedding(t *testing.T) {
	type made struct {
		id       string // what follows the uid
		body     string // of the request in the report
		response string
	}
	outcomes := map[string]job.Outcome{
		"failed": {Kind: job.OutcomeFailed}, "dead": {Kind: job.OutcomeRefused}, "delivered": {Kind: job.OutcomeDelivered},
		"snoozed": {Kind: job.OutcomeSnoozed, After: time.Second},
	}
	for _, row := range []struct {
		outcome string
		shed    job.Shed
		want    []made
	}{
		{"failed", job.ShedNothing, []made{{".attempt_failed.1", "old", "answer"}}},
		{"failed", job.ShedPassing, nil},
		{"failed", job.ShedContent, nil},
		{"dead", job.ShedNothing, []made{{".dead", "old", "answer"}, {".attempt_failed.1", "old", "answer"}}},
		{"dead", job.ShedPassing, []made{{".dead", "old", "answer"}}},
		{"dead", job.ShedContent, []made{{".dead", "", ""}}},
		{"delivered", job.ShedPassing, []made{{".delivered", "old", "answer"}}},
		{"delivered", job.ShedContent, []made{{".delivered", "", ""}}},
		{"snoozed", job.ShedContent, nil},
	} {
		c := &job.Callbacks{IncludeRequest: true}
		for _, e := range job.CallbackEvents {
			c.Set(e, &job.Callback{Destination: "https://a.example", Headers: []job.Header{{Name: "X-A", Value: "1"}}})
		}
		spec := job.Spec{Callbacks: c, Headers: []job.Header{{Name: "X-B", Value: "2"}}, Body: []byte("old"), BodyForm: job.BodyText, ContentType: "text/plain"}
		j := job.Job{Key: job.Key{Topic: "t", ID: "a"}, UID: "01KDWCJ2M00000000000000001", Spec: spec}
		o := outcomes[row.outcome]
		o.Attempt, o.Response = &job.Attempt{Number: 1}, &job.Response{Body: []byte("answer")}
		s := job.Settle(&j, o, func(int) (time.Duration, bool) { return time.Minute, true })
		var got []made
		for _, n := range s.Successors(s.Change(false), 2, row.shed) {
			r := n.Report
			m := made{id: n.Key.ID[len(j.UID):], body: string(r.Job.Spec.Body)}
			if r.Response != nil {
				m.response = string(r.Response.Body)
			}
			headers := len(r.Job.Spec.Headers)
			if r.Request != (row.shed < job.ShedContent) || r.Request != (headers == 1) || r.Job.Spec.Callbacks.On(job.CallbackDead).Headers != nil {
				t.Errorf("%s reports %+v", n.Key, r)
			}
			if passing := strings.Contains(m.id, "attempt_failed"); n.Passing != passing {
				t.Errorf("%s is passing: %v", n.Key, n.Passing)
			}
			got = append(got, m)
		}
		must.Same(t, fmt.Sprintf("%s, shed %d", row.outcome, row.shed), got, row.want, cmp.AllowUnexported(made{}))
		if most := s.Sheds(s.Change(false)); (most == job.ShedNothing) != (row.outcome == "snoozed") {
			t.Errorf("%s sheds at most %d", row.outcome, most)
		}
	}
}

// A report has the request only if the registration asks for it.
func TestRequestsInReports(t *testing.T) {
	spec := job.Spec{Body: []byte("body"), ContentType: "text/plain", Headers: []job.Header{{Name: "X-A", Value: "1"}}, Destination: "https://b.example"}
	for _, asked := range []bool{false, true} {
		c := &job.Callbacks{IncludeRequest: asked}
		c.Set(job.CallbackCancelled, &job.Callback{Destination: "https://a.example"})
		spec.Callbacks = c
		j := job.Job{Spec: spec, State: job.Cancelled}
		r := j.Ended(job.Waiting, job.ShedNothing)[0].Report
		s := &r.Job.Spec
		if r.Request != asked || (string(s.Body) == "body") != asked || (len(s.Headers) > 0) != asked || (s.ContentType != "") != asked || s.Destination != spec.Destination {
			t.Errorf("asked %v: %+v", asked, r)
		}
	}
}

// Only another counted attempt of an unfinished job supersedes the callback of a failed one.
func TestSupersedes(t *testing.T) {
	const uid = "01KDWCJ2M00000000000000001"
	failed, other := &job.Callbacks{Replays: 1}, &job.Callbacks{}
	failed.Set(job.CallbackAttemptFailed, &job.Callback{})
	other.Set(job.CallbackDead, &job.Callback{})
	more := func(int) (time.Duration, bool) { return time.Minute, true }
	for name, row := range map[string]struct {
		callbacks *job.Callbacks
		attempts  int
		outcome   job.Outcome
		want      string
	}{
		"first attempt":    {failed, 0, job.Outcome{Kind: job.OutcomeFailed}, ""},
		"later attempt":    {failed, 7, job.Outcome{Kind: job.OutcomeFailed}, uid + ".attempt_failed.7.2"},
		"last attempt":     {failed, 7, job.Outcome{Kind: job.OutcomeRefused, Attempt: &job.Attempt{}}, uid + ".attempt_failed.7.2"},
		"put off":          {failed, 7, job.Outcome{Kind: job.OutcomeRescheduled, At: 1}, uid + ".attempt_failed.7.2"},
		"delivered":        {failed, 7, job.Outcome{Kind: job.OutcomeDelivered}, ""},
		"snoozed":          {failed, 7, job.Outcome{Kind: job.OutcomeSnoozed, After: time.Second}, ""},
		"released":         {failed, 7, job.Outcome{Kind: job.OutcomeReleased}, ""},
		"another callback": {other, 7, job.Outcome{Kind: job.OutcomeFailed}, ""},
		"no callback":      {nil, 7, job.Outcome{Kind: job.OutcomeFailed}, ""},
	} {
		j := job.Job{Key: job.Key{Topic: "t", ID: "a"}, UID: uid, Attempts: row.attempts, Spec: job.Spec{Callbacks: row.callbacks}}
		s := job.Settle(&j, row.outcome, more)
		older, ok := s.Supersedes()
		var want job.Key
		if row.want != "" {
			want = job.Key{Topic: "t", ID: row.want}
		}
		if older != want || ok != (row.want != "") {
			t.Errorf("%s: %v, %v; want %v", name, older, ok, want)
		}
	}
}
