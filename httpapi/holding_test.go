package httpapi

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
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
