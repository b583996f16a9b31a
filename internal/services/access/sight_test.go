package access

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/successors"
)

const secretText = "hush-hush"

// secretive is a job with a secret wherever a client can put one.
func secretive() job.Job {
	url := job.Destination("https://shop.example/hook?token=" + secretText)
	headers := []job.Header{{Name: "Authorization", Value: "Bearer " + secretText}, {Name: "X-Own", Value: secretText}}
	return job.Job{
		Key: job.Key{Topic: "t", ID: "id"},
		Spec: job.Spec{
			Destination: url, Headers: headers, Body: []byte(`{"pin":"` + secretText + `"}`), BodyForm: job.BodyJSON,
			Callbacks: &job.Callbacks{By: map[job.CallbackEvent]*job.Callback{job.CallbackDead: {Destination: url, Headers: headers}}},
		},
		LastAttempt: &job.Attempt{ResponseBody: "see " + string(url), ResponseHeaders: []job.Header{{Name: "Location", Value: string(url)}}},
	}
}

func sightOf(t *testing.T, p Principal) Sight {
	t.Helper()
	k, err := New(Options{Namespace: "default"})
	must.OK(t, err)
	return SightOf(k.See(t.Context(), p))
}

// A scope sees what it may, and what it is shown is a copy.
func TestSight(t *testing.T) {
	for scope, sees := range map[Scope]bool{Nobody: false, Public: false, Read: false, Consume: false, Write: true, Admin: true} {
		s, before := sightOf(t, Principal{Scope: scope}), secretive()
		draft, defaults := before.Draft(), job.Defaults{Destination: before.Spec.Destination, Headers: before.Spec.Headers, Callbacks: before.Spec.Callbacks}
		report := job.Job{Spec: job.Spec{Reports: job.CallbackDead, BodyForm: job.BodyJSON}}
		successors.SetReport(&report.Spec, &job.Report{Job: secretive(), Request: true, Response: &job.Response{Body: []byte(secretText)}})
		shown := before
		s.Job(&shown)
		s.Job(&report)
		s.Draft(draft)
		s.Defaults(&defaults)
		for what, v := range map[string]any{
			"a job": shown, "a draft": draft, "defaults": defaults, "a body": string(shown.Spec.Body), "a body of a draft": string(draft.Body.Content),
			"a report": string(report.Spec.Body),
		} {
			text, err := json.Marshal(v)
			must.OK(t, err)
			if strings.Contains(string(text), secretText) != sees {
				t.Errorf("%v is shown %s as %s", scope, what, text)
			}
		}
		if of, err := successors.Report(&report); err != nil || of.Job.Key != before.Key {
			t.Errorf("%v: the report of a callback is %+v, %v", scope, of, err)
		}
		if diff := cmp.Diff(secretive(), before); diff != "" {
			t.Errorf("%v changed what it was shown (-want +got):\n%s", scope, diff)
		}
	}
}

func TestSightOfTexts(t *testing.T) {
	s := sightOf(t, Principal{Scope: Read})
	for given, want := range map[job.Destination]job.Destination{
		"https://a.example/p?q=1":  "https://a.example/p?***",
		"https://a.example/p?q=@b": "https://a.example/p?***",
		"https://a.example":        "https://a.example",
		job.PullQueue:              job.PullQueue,
		"":                         "",
	} {
		if got := s.URL(given); got != want {
			t.Errorf("%q is shown as %q, want %q", given, got, want)
		}
	}
	for form, want := range map[job.BodyForm]string{job.BodyJSON: `"***"`, job.BodyText: "***", job.BodyBase64: "***"} {
		if got := s.body([]byte("x"), form); string(got) != want || s.body(nil, form) != nil {
			t.Errorf("a body is shown as %q, want %q", got, want)
		}
	}
	if got := SightOf(t.Context()).Text("https://a.example/?q"); got != "https://a.example/?q" {
		t.Errorf("the node itself sees %q", got)
	}
}

// Cursors of callers who are restricted to topics reveal nothing, and are those of all nodes.
func TestPaged(t *testing.T) {
	docs := testenv.Store(t, diskstore.Options{})
	node := func() *Keys {
		k, err := New(Options{Namespace: "default", Store: docs})
		must.OK(t, err)
		return k
	}
	page := func(ctx context.Context, cursor string) (begins, next string, err error) {
		next = "a-secret-name"
		err = Paged(ctx, cursor, func(cursor string) (*string, error) {
			begins = cursor
			return &next, nil
		})
		return begins, next, err
	}
	restricted := Principal{Scope: Admin, Topics: job.TopicSet{"own-*"}}
	ctx := node().See(t.Context(), restricted)
	_, next, err := page(ctx, "")
	if err != nil || strings.Contains(next, "name") {
		t.Fatalf("the cursor is %q, %v", next, err)
	}
	if _, again, _ := page(ctx, ""); again == next {
		t.Error("equal cursors look equal")
	}
	if begins, _, err := page(node().See(t.Context(), restricted), next); begins != "a-secret-name" || err != nil {
		t.Errorf("another node reads %q, %v", begins, err)
	}
	for _, forged := range []string{"a-secret-name", next[:len(next)-2], next + "AA", "!"} {
		if begins, _, err := page(ctx, forged); !errors.Is(err, store.ErrBadCursor) || begins != "" {
			t.Errorf("%q begins at %q, %v", forged, begins, err)
		}
	}
	if begins, next, err := page(node().See(t.Context(), Principal{Scope: Read}), "plain"); begins != "plain" || next != "a-secret-name" || err != nil {
		t.Errorf("a key of all topics begins at %q, and continues at %q, %v", begins, next, err)
	}
}
