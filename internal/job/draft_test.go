package job_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// The draft of a job registers a job with the same content.
func TestDraftOfAJobRegistersItAgain(t *testing.T) {
	limits := job.Bounds{MaxBody: 1 << 20, MaxTimeout: time.Minute}
	now := job.InstantOf(time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC))
	draft := func(change func(d *job.Draft)) job.Draft {
		d := job.Draft{Topic: ptr("orders"), ID: ptr("8812"), Destination: ptr(job.Destination("https://shop.example/hook"))}
		change(&d)
		return d
	}
	for name, d := range map[string]job.Draft{
		"only a URL": draft(func(*job.Draft) {}),
		"everything": draft(func(d *job.Draft) {
			d.BizKey, d.OrderKey, d.Method = ptr("b"), ptr("o"), ptr("PUT")
			d.Delay, d.Spread, d.TTL, d.Timeout = ptr(time.Hour), ptr(5*time.Minute), ptr(2*time.Hour), ptr(3*time.Second)
			d.Body, d.ContentType = &job.Body{Form: job.BodyText, Content: []byte("unpaid")}, ptr("text/csv")
			d.Headers, d.Labels = map[string]string{"X-A": "1", "X-B": "2"}, map[string]string{"shop": "7", "eu": ""}
			d.Retry, d.Expect, d.Priority = &job.Retry{Steps: []time.Duration{time.Second}, Limit: ptr(3)}, ptr("success"), ptr(2)
		}),
		"at a time": draft(func(d *job.Draft) { d.At = ptr(now.Add(time.Hour)) }),
		"callbacks": draft(func(d *job.Draft) {
			d.Callbacks = &job.CallbacksDraft{
				Retry: &job.Retry{Limit: ptr(1)},
				On: map[job.CallbackEvent]*job.CallbackDraft{
					job.CallbackDelivered: {Destination: ptr(job.Destination("https://shop.example/done"))},
					job.CallbackDead: {
						Destination: ptr(job.Destination("https://shop.example/dead")), Method: ptr("PATCH"), Headers: map[string]string{"X-C": "3"},
					},
				},
			}
		}),
		"a count without a delay": draft(func(d *job.Draft) {
			d.Count = &job.CountDraft{Target: ptr(int64(100)), AtDeadline: ptr("expire")}
		}),
		"a count that is due at once": draft(func(d *job.Draft) {
			d.Count, d.Delay = &job.CountDraft{Target: ptr(int64(100))}, ptr(time.Duration(0))
		}),
	} {
		first, err := d.Registration(limits, now)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := (&job.Job{Key: first.Key, Spec: first.Spec}).Draft().Registration(limits, now)
		if err != nil {
			t.Fatalf("%s, again: %v", name, err)
		}
		// The draft keeps the defaults of a topic away.
		if first.Spec.Retry == nil {
			first.Spec.Retry = again.Spec.Retry
		}
		if first.Key != again.Key || !reflect.DeepEqual(first.Spec, again.Spec) {
			t.Errorf("%s: registered\n%+v, again\n%+v", name, first, again)
		}
	}
}

func TestRegistrationForAGroup(t *testing.T) {
	for name, c := range map[string]struct {
		d     job.Draft
		wrong string
	}{
		"with a label":     {job.Draft{Group: ptr("shops"), FilterLabel: ptr("eu")}, ""},
		"with a URL":       {job.Draft{Group: ptr("shops"), Destination: ptr(job.Destination("https://a"))}, "url"},
		"with a bad name":  {job.Draft{Group: ptr("a/b")}, "group"},
		"with a bad label": {job.Draft{Group: ptr("shops"), FilterLabel: ptr("\x00")}, "filter_label"},
	} {
		c.d.Headers = map[string]string{"X-A": "1"}
		r, err := c.d.ForGroup(job.Bounds{MaxBody: 100}, 0)
		if c.wrong == "" {
			want := &job.Membership{Group: "shops", FilterLabel: "eu", Headers: 1}
			if err != nil || !reflect.DeepEqual(r.Spec.Group, want) {
				t.Errorf("%s: %+v, %v, want %+v", name, r.Spec.Group, err, want)
			}
			continue
		}
		if got := fieldsOf(t, err); !reflect.DeepEqual(got, []job.Field{job.Field(c.wrong)}) {
			t.Errorf("%s: wrong are %v, want %s", name, got, c.wrong)
		}
	}
}

// fieldsOf are the fields that an error of validation names.
func fieldsOf(t *testing.T, err error) (fields []job.Field) {
	t.Helper()
	var wrong *job.ValidationError
	if !errors.As(err, &wrong) {
		t.Fatalf("the error is %v", err)
	}
	for _, f := range wrong.Fields {
		fields = append(fields, f.Field)
	}
	return fields
}
