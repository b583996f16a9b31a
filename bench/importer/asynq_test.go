package importer_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/importer"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// read returns the registrations of a source by topic and id, and its notes.
func read(t *testing.T, from string, o importer.Options) (map[string]importer.Job, []string) {
	t.Helper()
	o.Clock = job.SystemClock()
	source, err := importer.Open(t.Context(), from, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.Close() }()
	jobs, notes := map[string]importer.Job{}, []string{}
	for j, err := range source.Jobs {
		switch {
		case err != nil:
			t.Fatal(err)
		case j.Note != "":
			notes = append(notes, j.Note)
		default:
			jobs[j.Registration.Topic+"/"+j.Registration.ID] = j
		}
	}
	return jobs, notes
}

func TestAsynq(t *testing.T) {
	r := testenv.StartRedis(t)
	to := asynq.RedisClientOpt{Addr: r.Addr()}
	c := asynq.NewClient(to)
	defer c.Close()
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	enqueue := func(task *asynq.Task, options ...asynq.Option) {
		t.Helper()
		if _, err := c.Enqueue(task, options...); err != nil {
			t.Fatal(err)
		}
	}
	enqueue(asynq.NewTask("email:deliver", []byte(`{"user": 1}`)), asynq.TaskID("a"), asynq.ProcessAt(at), asynq.MaxRetry(7), asynq.Unique(time.Hour))
	enqueue(asynq.NewTaskWithHeaders("image/resize", []byte("plain"), map[string]string{"X-Tenant": "acme"}), asynq.TaskID("b c"), asynq.ProcessAt(at), asynq.Queue("critical"), asynq.Deadline(at.Add(time.Hour)))
	enqueue(asynq.NewTask("raw", []byte{0xff, 0}), asynq.TaskID("late"), asynq.ProcessAt(at), asynq.Deadline(time.Now().Add(-time.Hour)))
	enqueue(asynq.NewTask("fails", nil), asynq.TaskID("retried"), asynq.MaxRetry(5))
	failed := make(chan struct{})
	server := asynq.NewServer(to, asynq.Config{
		LogLevel: asynq.FatalLevel, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 2 * time.Hour },
		ErrorHandler: asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { close(failed) }),
	})
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errors.New("no") })); err != nil {
		t.Fatal(err)
	}
	<-failed
	server.Shutdown()
	enqueue(asynq.NewTask("now", []byte("1")), asynq.TaskID("pending"))

	jobs, notes := read(t, "asynq", importer.Options{Address: r.URL(), URL: "https://shop.example/{topic}/{type}"})
	retried := jobs["default/retried"].Registration
	if left := time.Until(retried.At); left < time.Hour || left > 2*time.Hour || *retried.Retry.Limit != 4 {
		t.Errorf("the failed task is due at %v with %d retries, want in two hours with 4 left", retried.At, *retried.Retry.Limit)
	}
	delete(jobs, "default/retried")
	b := jobs["critical/:b:20c"].Registration
	if ttl := time.Duration(b.TTL); ttl < time.Hour || ttl > 2*time.Hour {
		t.Errorf("a task with a deadline in two hours has the ttl %v", ttl)
	}
	b.TTL = 0
	want := client.Registration{
		Topic: "default", ID: "a", URL: "https://shop.example/default/email:deliver", At: at, BodyText: `{"user": 1}`, ContentType: "application/json",
		Headers: map[string]string{"Asynq-Type": "email:deliver"}, Retry: &client.Retry{Limit: new(7)}, OnConflict: client.Once,
	}
	if diff := cmp.Diff(want, jobs["default/a"].Registration); diff != "" {
		t.Error(diff)
	}
	want.Topic, want.ID, want.URL, want.BodyText, want.ContentType = "critical", ":b:20c", "https://shop.example/critical/image%2Fresize", "plain", ""
	want.Headers, want.Retry.Limit = map[string]string{"Asynq-Type": "image%2Fresize", "X-Tenant": "acme"}, new(25)
	if diff := cmp.Diff(want, b); diff != "" {
		t.Error(diff)
	}
	if late := jobs["default/late"]; late.Err == nil || !strings.Contains(late.Err.Error(), "deadline") {
		t.Errorf("a task whose deadline has passed: %v", late.Err)
	}
	if got := slices.Sorted(maps.Keys(jobs)); !slices.Equal(got, []string{"critical/:b:20c", "default/a", "default/late"}) {
		t.Errorf("read %v", got)
	}
	if !slices.Equal(notes, []string{"default: 1 pending tasks are left out; --set sets=scheduled,retry,pending includes them"}) {
		t.Errorf("notes %q", notes)
	}
	jobs, _ = read(t, "asynq", importer.Options{Address: r.URL(), Set: map[string]string{"sets": "pending"}, Pull: true})
	if j := jobs["default/pending"].Registration; len(jobs) != 1 || !j.Pull || j.URL != "" || time.Until(j.At) > 0 {
		t.Errorf("pending: %+v", jobs)
	}
}
