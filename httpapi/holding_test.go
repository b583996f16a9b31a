package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/memory"
)

// reader is a client that takes a part of an answer after each pause, as many parts as it reads.
type reader struct {
	http.ResponseWriter
	t      *testing.T
	pause  time.Duration
	reads  int
	within time.Duration // until the deadline
}

func (r *reader) SetWriteDeadline(at time.Time) error {
	r.within = time.Until(at)
	return nil
}

func (r *reader) Write(p []byte) (int, error) {
	pause, taken := r.pause, len(p)
	if r.reads--; r.reads < 0 || pause > r.within {
		pause, taken = r.within, 0
	}
	_ = job.Sleep(r.t.Context(), job.SystemClock(), pause)
	if taken == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return taken, nil
}

// An answer that nobody reads is cut writeProgress after its last part; one that is read slowly is not.
func TestUnreadAnswersAreCut(t *testing.T) {
	const parts = 16
	for name, tc := range map[string]struct {
		reader
		taken int
		took  time.Duration
	}{
		"never read":            {reader{}, 0, 10 * time.Second},
		"read no further":       {reader{pause: time.Second, reads: 3}, 3, 13 * time.Second},
		"read slowly":           {reader{pause: 9 * time.Second, reads: parts}, parts, parts * 9 * time.Second},
		"a part takes too long": {reader{pause: 11 * time.Second, reads: parts}, 0, 10 * time.Second},
		"read at once":          {reader{reads: parts}, parts, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			to := tc.reader
			to.ResponseWriter, to.t = httptest.NewRecorder(), t
			w := &answerWriter{ResponseWriter: &to, control: http.NewResponseController(&to), most: writeProgress}
			n, err := w.Write(make([]byte, parts*writePart))
			if took := time.Since(began); n != tc.taken*writePart || took != tc.took || (err == nil) != (tc.taken == parts) {
				t.Errorf("%s: %d parts after %v, %v; want %d after %v", name, n/writePart, took, err, tc.taken, tc.took)
			}
		})
	}
}

// unread notes what the budget holds while its client takes an answer.
type unread struct {
	*httptest.ResponseRecorder
	budget *memory.Budget
	held   int64
}

func (u *unread) Write(p []byte) (int, error) {
	u.held = max(u.held, u.budget.Held())
	return u.ResponseRecorder.Write(p)
}

// A page of metrics counts what it is made of while it is made, and its text until the client has it.
func TestMetricsCountInTheBudget(t *testing.T) {
	budget := memory.New(memory.Least, job.SystemClock())
	var during int64
	registry := prometheus.NewRegistry()
	many := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "many"}, []string{"n"})
	registry.MustRegister(many, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "held"}, func() float64 {
		during = budget.Held()
		return 0
	}))
	s, err := New(Options{Ready: func(context.Context) error { return nil }, Memory: budget, Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	page := int64(leastPage)
	for _, tc := range []struct {
		series, status int
	}{
		{1_000, http.StatusOK},
		{6_000, http.StatusOK},
		{6_000, http.StatusOK},                     // counted as the page before
		{20_000, http.StatusRequestEntityTooLarge}, // its text alone is larger than a share
	} {
		for i := range tc.series {
			many.WithLabelValues(fmt.Sprint("one of many series ", i)).Set(1)
		}
		u := &unread{ResponseRecorder: httptest.NewRecorder(), budget: budget}
		s.Handler().ServeHTTP(u, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		want := min(requestCost+gathered*max(page, leastPage), budget.Share())
		if during != want {
			t.Errorf("%d series: %d bytes held while the page is made, want %d", tc.series, during, want)
		}
		if u.Code != tc.status || u.Code == http.StatusOK && u.held != int64(requestCost+3*u.Body.Len()) {
			t.Errorf("%d series: %d, and %d bytes held for a page of %d", tc.series, u.Code, u.held, u.Body.Len())
		}
		page = s.lastPage.Load()
	}
	if budget.Held() != 0 {
		t.Errorf("%d bytes are held at the end", budget.Held())
	}
}
