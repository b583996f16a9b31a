package contender

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/duehook/duehook/httpapi"
	v1 "github.com/duehook/duehook/httpapi/v1"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/diskstore"
)

func TestLoadMakesEachJobOnce(t *testing.T) {
	l := Load{First: 100, Jobs: 2500, URL: "http://x/", Due: func(n int) time.Time { return time.UnixMilli(int64(n)) }, Topic: func(int) string { return "t" }}
	ids, batches := map[string]bool{}, 0
	err := l.Batches(1000, func(jobs []Job) error {
		batches++
		for _, j := range jobs {
			if len(j.ID) != 36 || len(j.Body) != BodySize {
				t.Fatalf("id %q, body of %d bytes", j.ID, len(j.Body))
			}
			ids[j.ID] = true
		}
		return nil
	})
	if err != nil || batches != 3 || len(ids) != 2500 {
		t.Errorf("%d batches with %d ids, %v", batches, len(ids), err)
	}
	if got := l.Job(5).Due; !got.Equal(time.UnixMilli(105)) {
		t.Errorf("due at %v", got)
	}
	wrong := errors.New("wrong")
	if err := l.Batches(10, func([]Job) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
}

// TestJSONIsWhatTheAPITakes holds the generator against duehook's own rules.
func TestJSONIsWhatTheAPITakes(t *testing.T) {
	due := time.UnixMilli(1_800_000_000_123)
	l := Load{Jobs: 1, URL: "http://127.0.0.1:80/hook", Due: func(int) time.Time { return due }, Topic: func(int) string { return "t" }}
	l.Callback = func(int) string { return "http://127.0.0.1:80/callback/1" }
	l.OrderKey = func(int) string { return "k" }
	j := l.Job(0)
	mem := testenv.Store(t, diskstore.Options{})
	jobs, err := app.New(app.Options{Store: mem})
	if err != nil {
		t.Fatal(err)
	}
	calls, err := v1.New(v1.Options{App: jobs})
	if err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Options{Dialects: []httpapi.Dialect{calls}, Ready: mem.Ping})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/jobs", bytes.NewReader(j.JSON()))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	api.Handler().ServeHTTP(answer, request)
	if answer.Code != http.StatusCreated {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	got, err := mem.Get(t.Context(), job.Key{Topic: "t", ID: j.ID})
	if err != nil || got.DueAt != job.InstantOf(due) || string(got.Spec.Body) != string(j.Body) || got.Spec.OrderKey != "k" {
		t.Errorf("registered as %+v, %v", got, err)
	}
	if c := got.Spec.Callbacks.On(job.CallbackDelivered); c == nil || string(c.Destination) != j.Callback {
		t.Errorf("registered with the callbacks %+v", got.Spec.Callbacks)
	}
}

func TestPostFailsUnlessAccepted(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	p := newPoster(1)
	defer p.client.CloseIdleConnections()
	if err := p.post(t.Context(), server.URL, []byte("x")); err != nil {
		t.Error(err)
	}
	status = http.StatusInternalServerError
	if err := p.post(t.Context(), server.URL, []byte("x")); err == nil {
		t.Error("500 is taken for success")
	}
}

func TestCostSub(t *testing.T) {
	got := Cost{5 * time.Second, 3 * time.Second}.Sub(Cost{time.Second, 2 * time.Second})
	if got != (Cost{4 * time.Second, time.Second}) {
		t.Errorf("got %+v", got)
	}
}
