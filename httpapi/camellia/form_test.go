package camellia

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

const formType = "application/x-www-form-urlencoded"

func TestForm(t *testing.T) {
	f := &form{values: url.Values{"a": {"1"}}}
	f.add("multipart/form-data; boundary=x", []byte("--x\r\nContent-Disposition: form-data; name=\"b\"\r\n\r\nü\r\n--x--\r\n"))
	f.add(formType+"; charset=utf-8", []byte("a=2&c=%2B+&bad=%zz&d=+9+&e=yes"))
	if a, b, c := f.text("a"), f.text("b"), f.text("c"); a != "1,2" || b != "ü" || c != "+ " {
		t.Errorf("%q %q %q", a, b, c)
	}
	if n, truth := f.number("d", 32, -1), f.number("none", 32, -1); n != 9 || truth != -1 {
		t.Errorf("%d %d", n, truth)
	}
	if is, given := f.boolean("e"); !is || !given || f.wrong != "" {
		t.Errorf("%t %t %s", is, given, f.wrong)
	}
	for name, read := range map[string]func(*form){
		"bad": func(f *form) { f.text("bad") }, "c": func(f *form) { f.number("c", 64, 0) }, "none": func(f *form) { f.required("none") },
		"d": func(f *form) { f.boolean("d") },
	} {
		one := &form{values: f.values}
		if read(one); one.wrong != name {
			t.Errorf("%s: %q is wrong", name, one.wrong)
		}
	}
}

func FuzzForm(f *testing.F) {
	f.Add(formType, "topic=t&msgId=o1&msg=close+o1&delayMillis=1800000&ttlMillis=-1&maxRetry=-1")
	f.Add("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"topic\"\r\n\r\nt\r\n--x--\r\n")
	f.Add("multipart/form-data", "--")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		form := &form{values: url.Values{}}
		form.add(contentType, []byte(body))
		millis(form.required("delayMillis"), 0)
		form.number("maxRetry", 32, -1)
		form.boolean("ack")
		for _, text := range []string{form.text("topic"), body} {
			name := job.NameOf(text)
			if got := job.TextOfName(name); got != text {
				t.Errorf("%q became %q, %q", text, name, got)
			}
			if err := job.CheckName(name); err != nil && text != "" && len(name) <= job.MaxName {
				t.Errorf("%q became %q: %v", text, name, err)
			}
		}
	})
}

// A long poll that fails is answered late: the SDK polls again at once.
func TestLongPollsFailSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := httpapi.New(httpapi.Options{Ready: func(context.Context) error { return nil }, Access: nobody{}, Dialects: []httpapi.Dialect{New(Options{})}})
		if err != nil {
			t.Fatal(err)
		}
		for call, want := range map[string]time.Duration{longPoll: errorPause, "pullMsg": 0} {
			begin, answer := time.Now(), httptest.NewRecorder()
			s.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, calls+call, http.NoBody))
			if took := time.Since(begin); took != want || answer.Code != http.StatusUnauthorized { // of the bubble's time
				t.Errorf("%s: %d after %v, want %v", call, answer.Code, took, want)
			}
		}
	})
}

// nobody has no keys.
type nobody struct{}

func (nobody) Authenticate(string) (access.Principal, error) {
	return access.Principal{}, access.ErrMissing
}
func (nobody) Take(access.Principal) access.Quota { return access.Quota{} }

func (nobody) See(ctx context.Context, _ access.Principal) context.Context { return ctx }

// The token is a part of the path.
func TestPaths(t *testing.T) {
	for from, want := range map[string]string{
		"/camellia/delayQueue/sendMsg": "/camellia/delayQueue/sendMsg", "/camellia/dh_1/camellia/delayQueue/sendMsg": "/camellia/delayQueue/sendMsg",
		"/camellia/dh_1//camellia/health/check": "/camellia/health/check", "/camellia/": "/camellia/",
	} {
		if got := withoutToken(from); got != want || strings.Contains(got, "dh_1") {
			t.Errorf("%s became %s", from, got)
		}
	}
}
