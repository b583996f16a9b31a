package job_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

const countNow = job.Instant(1_000_000)

// counted is a waiting job that fires at 10, with a count of 8, or in an hour.
func counted(change func(*job.Job)) *job.Job {
	j := &job.Job{
		Spec:  job.Spec{Count: &job.Count{Target: 10, AtDeadline: job.DeadlineFires}},
		DueAt: countNow.Add(time.Hour), NextAt: countNow.Add(time.Hour), Counted: 8,
	}
	if change != nil {
		change(j)
	}
	return j
}

func expiring(j *job.Job) { j.Spec.Count.AtDeadline = job.DeadlineExpires }

func TestTally(t *testing.T) {
	one, two, known, fresh := job.Add{N: 1}, job.Add{N: 2}, job.Add{N: 5, Key: "known"}, job.Add{N: 1, Key: "new"}
	past := func(j *job.Job) { j.DueAt = countNow - 1 }
	for _, c := range []struct {
		name string
		job  *job.Job
		adds []job.Add
		want job.Tally
		err  error
	}{
		{"below the target", counted(nil), []job.Add{one}, job.Tally{Added: []job.Added{{Count: 9}}, Count: 9}, nil},
		{"at the target", counted(nil), []job.Add{one, one, one}, job.Tally{
			Added: []job.Added{{Count: 9}, {Count: 10, Fired: true}, {Count: 11, Fired: true}}, Count: 11, Fired: true, Due: true,
		}, nil},
		{"beyond the target", counted(nil), []job.Add{{N: 1000}}, job.Tally{
			Added: []job.Added{{Count: 1008, Fired: true}}, Count: 1008, Fired: true, Due: true,
		}, nil},
		{"a known key", counted(nil), []job.Add{known}, job.Tally{Added: []job.Added{{Count: 8, Repeated: true}}, Count: 8}, nil},
		{"a key twice", counted(nil), []job.Add{fresh, fresh}, job.Tally{
			Added: []job.Added{{Count: 9}, {Count: 9, Repeated: true}}, Count: 9, Keys: []string{"new"},
		}, nil},
		{"fires once", counted(func(j *job.Job) { j.Counted, j.Fired = 10, true }), []job.Add{one}, job.Tally{
			Added: []job.Added{{Count: 11, Fired: true}}, Count: 11, Fired: true,
		}, nil},
		{"after the deadline", counted(past), []job.Add{two}, job.Tally{
			Added: []job.Added{{Count: 10, Fired: true}}, Count: 10, Fired: true,
		}, nil},
		{"an expiring job after its deadline", counted(func(j *job.Job) { past(j); expiring(j) }), []job.Add{one, one}, job.Tally{
			Added: []job.Added{{Count: 9}, {Count: 10, Fired: true}}, Count: 10, Fired: true, Due: true,
		}, nil},
		{"on the ready list", counted(func(j *job.Job) { j.State = job.Ready; past(j) }), []job.Add{one}, job.Tally{
			Added: []job.Added{{Count: 9, Fired: true}}, Count: 9,
		}, nil},
		{"in flight", counted(func(j *job.Job) { j.State, j.Fired = job.Running, true }), []job.Add{one}, job.Tally{
			Added: []job.Added{{Count: 9, Fired: true}}, Count: 9, Fired: true,
		}, nil},
		{"between attempts", counted(func(j *job.Job) { j.State, j.Attempts = job.Retrying, 1 }), []job.Add{two}, job.Tally{
			Added: []job.Added{{Count: 10, Fired: true}}, Count: 10, Fired: true,
		}, nil},
		{"about to expire", counted(func(j *job.Job) { j.State = job.Running; past(j); expiring(j) }), []job.Add{one}, job.Tally{}, job.ErrInFlight},
		{"delivered", counted(func(j *job.Job) { j.State, j.Attempts = job.Delivered, 1 }), []job.Add{one, known}, job.Tally{
			Added: []job.Added{{Count: 8, Fired: true, Late: true}, {Count: 8, Fired: true, Repeated: true}}, Count: 8,
		}, nil},
		{"cancelled before it fired", counted(func(j *job.Job) {
			past(j)
			j.State, j.EndedAt = job.Cancelled, j.DueAt-1
		}), []job.Add{known}, job.Tally{}, job.ErrFinished},
		{"cancelled after it fired", counted(func(j *job.Job) {
			past(j)
			j.State, j.EndedAt = job.Cancelled, j.DueAt
		}), []job.Add{one}, job.Tally{Added: []job.Added{{Count: 8, Fired: true, Late: true}}, Count: 8}, nil},
		{"without a count", &job.Job{}, []job.Add{one}, job.Tally{}, job.ErrNotCounted},
		{"at the end of numbers", counted(func(j *job.Job) { j.Counted, j.Fired = job.MaxCount-1, true }), []job.Add{two}, job.Tally{
			Added: []job.Added{{Count: job.MaxCount, Fired: true}}, Count: job.MaxCount, Fired: true,
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := job.CountFacts{Now: countNow, Keys: 1, Known: func(key string) bool { return key == "known" }}
			got, err := c.job.Tally(c.adds, is)
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			must.Same(t, "result", got, c.want, cmpopts.EquateEmpty(), cmpopts.EquateErrors())
		})
	}
}

// A job remembers so many keys and no more; without a key it counts on.
func TestTallyOfTooManyKeys(t *testing.T) {
	is := job.CountFacts{Now: countNow, Keys: job.MaxCountKeys - 1, Known: func(string) bool { return false }}
	got, err := counted(nil).Tally([]job.Add{{N: 1, Key: "last"}, {N: 1, Key: "over"}, {N: 1}}, is)
	must.OK(t, err)
	want := []job.Added{{Count: 9}, {Count: 9, Err: job.ErrCountKeys}, {Count: 10, Fired: true}}
	must.Same(t, "result", got.Added, want, cmpopts.EquateErrors())
}

// The count makes a waiting job due now, and a client's "run" and "replay" send it
// whatever its count.
func TestCountFires(t *testing.T) {
	j := counted(expiring)
	tally, err := j.Tally([]job.Add{{N: 2}}, job.CountFacts{Now: countNow, Known: func(string) bool { return false }})
	must.OK(t, err)
	tally.Apply(j, countNow)
	if j.NextAt != countNow || j.DueAt != countNow.Add(time.Hour) || !j.Fired || j.Counted != 10 {
		t.Errorf("after its target: %+v", j)
	}
	for name, do := range map[string]func(*job.Job) error{
		"due":    func(*job.Job) error { return nil },
		"run":    func(j *job.Job) error { return j.Run(countNow) },
		"replay": func(j *job.Job) error { j.State = job.Expired; return j.Replay(countNow) },
	} {
		j := counted(expiring)
		must.OK(t, do(j))
		o := j.Before(job.Ready, 0, j.DueAt)
		if sent := o == nil; sent != (name != "due") {
			t.Errorf("%s: outcome %+v", name, o)
		}
		if o != nil {
			s := job.Settle(j, *o, nil)
			if s.To != job.Expired || s.Reason != job.ReasonCountMissed || !s.Keep {
				t.Errorf("%s: settlement %+v", name, s)
			}
		}
	}
	if o := counted(nil).Before(job.Ready, 0, countNow.Add(time.Hour)); o != nil {
		t.Errorf("at the deadline of a job that fires then: %+v", o)
	}
}

// New terms that the count has reached make the job due.
func TestRecount(t *testing.T) {
	for target, due := range map[int64]bool{8: true, 9: false} {
		j := counted(nil)
		j.Spec.Count = &job.Count{Target: target}
		j.Recount(countNow)
		if (j.NextAt == countNow) != due || j.Fired != due {
			t.Errorf("target %d: due %v, fired %v", target, j.NextAt == countNow, j.Fired)
		}
	}
}

func TestCountDraft(t *testing.T) {
	url := job.Destination("https://example.com/")
	target, deadline := int64(100), "expire"
	d := job.Draft{Destination: &url, Count: &job.CountDraft{Target: &target, AtDeadline: &deadline}}
	r, err := d.Registration(job.Bounds{}, countNow)
	must.OK(t, err)
	if want := (job.Count{Target: 100, AtDeadline: job.DeadlineExpires}); *r.Spec.Count != want || r.Spec.When.Delay != job.MaxDelay {
		t.Errorf("count %+v, delay %v", *r.Spec.Count, r.Spec.When.Delay)
	}
	target, deadline = 0, "explode"
	_, err = d.Registration(job.Bounds{}, countNow)
	d.Count.Target = nil
	_, missing := d.Registration(job.Bounds{}, countNow)
	for text, err := range map[string]error{
		"count.target: must be from 1 to 1000000000": err, `count.at_deadline: must be "fire" or "expire"`: err,
		"count.target: is required": missing,
	} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
	}
}

func TestAddDraft(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	key := func(s string) *string { return &s }
	for _, c := range []struct {
		draft job.AddDraft
		want  job.Add
		err   string
	}{
		{job.AddDraft{}, job.Add{N: 1}, ""},
		{job.AddDraft{N: n(job.MaxAdd), Key: key("order 7: größe")}, job.Add{N: job.MaxAdd, Key: "order 7: größe"}, ""},
		{job.AddDraft{N: n(0)}, job.Add{}, "add: must be from 1 to 1000000"},
		{job.AddDraft{N: n(-1)}, job.Add{}, "add: must be from 1 to 1000000"},
		{job.AddDraft{N: n(job.MaxAdd + 1)}, job.Add{}, "add: must be from 1 to 1000000"},
		{job.AddDraft{Key: key("")}, job.Add{}, "key: must not be empty; leave it out for none"},
		{job.AddDraft{Key: key(strings.Repeat("ü", job.MaxCountKey+1))}, job.Add{}, "key: must have at most 128 characters"},
		{job.AddDraft{Key: key("a\nb")}, job.Add{}, "key: must not contain control characters"},
		{job.AddDraft{Key: key("a\xff")}, job.Add{}, "key: must be valid UTF-8"},
	} {
		got, err := c.draft.Add()
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%+v, %v, want %+v", got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("error %v, want %q", err, c.err)
		}
	}
}
