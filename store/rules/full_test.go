package rules

import (
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
)

func TestNeedsRoom(t *testing.T) {
	now := job.Instant(1_900_000_000_000)
	waits := job.Job{Spec: job.Spec{Destination: "https://a.example/", Body: []byte("body")}}
	dead := job.Job{State: job.Dead, EndedAt: now, Spec: waits.Spec}
	reports := dead
	reports.Spec.Callbacks = &job.Callbacks{}
	reports.Spec.Callbacks.Set(job.CallbackDead, &job.Callback{Destination: "https://b.example/"})
	for name, tt := range map[string]struct {
		was    job.Job
		change func(j *job.Job) error
		want   bool
	}{
		"a larger body":            {waits, func(j *job.Job) error { j.Spec.Body = []byte(strings.Repeat("x", 100)); return nil }, true},
		"more headers":             {waits, func(j *job.Job) error { j.Spec.Headers = []job.Header{{Name: "X", Value: "y"}}; return nil }, true},
		"a smaller body":           {waits, func(j *job.Job) error { j.Spec.Body = nil; return nil }, false},
		"another priority":         {waits, func(j *job.Job) error { j.Spec.Priority = 9; return nil }, false},
		"cancel":                   {waits, func(j *job.Job) error { _, err := j.Cancel(now); return err }, false},
		"run":                      {waits, func(j *job.Job) error { return j.Run(now) }, false},
		"replay":                   {dead, func(j *job.Job) error { return j.Replay(now) }, false},
		"replay with callbacks":    {reports, func(j *job.Job) error { return j.Replay(now) }, true},
		"discard, with a callback": {reports, func(j *job.Job) error { return j.Discard(now) }, false},
	} {
		is := tt.was
		if err := tt.change(&is); err != nil {
			t.Fatal(name, err)
		}
		if got := NeedsRoom(&tt.was, &is); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
