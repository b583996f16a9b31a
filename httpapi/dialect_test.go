package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
)

// fakeAccess knows one key, whose token is "secret".
type fakeAccess struct{}

func (fakeAccess) Authenticate(authorization string) (access.Principal, error) {
	if authorization != "Bearer secret" {
		return access.Principal{}, access.ErrUnknown
	}
	return access.Principal{KeyID: "k", Scope: access.Write}, nil
}

func (fakeAccess) Take(access.Principal) access.Quota { return access.Quota{Allowed: true} }

func (fakeAccess) See(ctx context.Context, _ access.Principal) context.Context { return ctx }

// foreign is a dialect with a token in the query, and statuses and errors of its own.
func foreign() Dialect {
	return Dialect{
		Prefix: "/queue/",
		Authorization: func(r *http.Request) string {
			return "Bearer " + r.URL.Query().Get("token")
		},
		Path: func(escaped string) string { return strings.Replace(escaped, "/Names/", "/names/", 1) },
		WriteError: func(c *Call, e *Error) error {
			return c.WriteJSON(http.StatusOK, map[string]any{"code": e.Code.Status, "msg": e.Code.Name})
		},
		Routes: []Route{
			{Method: http.MethodPost, Path: "/queue/push", Scope: access.Write, Handle: func(c *Call) error {
				b, err := c.ReadBody(8)
				if err != nil {
					return err
				}
				defer Release(b)
				c.Target = "pushed"
				return c.Write(http.StatusOK, "text/plain", b.Bytes())
			}},
			{Method: http.MethodGet, Path: "/queue/{name}", Scope: access.Read, Handle: func(c *Call) error {
				return fmt.Errorf("look up %s: %w", c.Param("name"), store.ErrNotFound)
			}},
			{Method: http.MethodPost, Path: "/queue/to/*", Scope: access.Write, Safe: true, Handle: func(c *Call) error {
				return c.Write(http.StatusAccepted, "text/plain", []byte(c.Request.RequestURI))
			}},
			{Method: http.MethodGet, Path: "/queue/names/{name}", Scope: access.Read, Handle: func(c *Call) error {
				return c.Write(http.StatusOK, "text/plain", []byte(c.Param("name")))
			}},
			{Method: http.MethodPut, Path: "/queue/admin", Scope: access.Admin, Handle: func(*Call) error { return nil }},
			{Method: http.MethodDelete, Path: "/queue/defect", Scope: access.Write, Handle: func(*Call) error { panic("a defect") }},
		},
	}
}

// A dialect has its own paths, errors, statuses and credentials; the rest is the
// server's.
func TestDialects(t *testing.T) {
	var log bytes.Buffer
	s, err := New(Options{
		Ready: func(context.Context) error { return nil }, Access: fakeAccess{},
		Logger: slog.New(slog.NewJSONHandler(&log, nil)), Dialects: []Dialect{foreign()},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"POST", "/queue/push?token=secret", "hello", 200, "hello"},
		{"POST", "/queue/push?token=secret", "too much of it", 200, `{"code":413,"msg":"body_too_large"}`},
		{"POST", "/queue/push", "hello", 200, `{"code":401,"msg":"unauthorized"}`},
		{"GET", "/queue/a?token=secret", "", 200, `{"code":404,"msg":"job_not_found"}`},
		{"GET", "/queue/names/a%20%C3%A9?token=secret", "", 200, "a é"},
		{"GET", "/queue/names/a%2Fb%25?token=secret", "", 200, "a/b%"},
		{"GET", "/queue/Names/a%2Fb?token=secret", "", 200, "a/b"},
		{"POST", "/queue/to/https://shop.example//a%2Fb?x=1&token=secret", "", 202, "/queue/to/https://shop.example//a%2Fb?x=1&token=secret"},
		{"PUT", "/queue/admin?token=secret", "", 200, `{"code":403,"msg":"forbidden"}`},
		{"DELETE", "/queue/defect?token=secret", "", 200, `{"code":500,"msg":"internal_error"}`},
		{"DELETE", "/queue/push", "", 200, `{"code":405,"msg":"method_not_allowed"}`},
		{"GET", "/queue/a/b/c", "", 200, `{"code":404,"msg":"not_found"}`},
		{"GET", "/elsewhere", "", 404, `"code":"not_found"`},
		{"GET", "/livez", "", 200, `{"status":"ok"}`},
	} {
		got := httptest.NewRecorder()
		s.Handler().ServeHTTP(got, httptest.NewRequest(tt.method, tt.target, strings.NewReader(tt.body)))
		if got.Code != tt.status || !strings.Contains(got.Body.String(), tt.want) || got.Header().Get("X-Request-Id") == "" {
			t.Errorf("%s %s: got %d %s, want %d %s", tt.method, tt.target, got.Code, got.Body, tt.status, tt.want)
		}
	}
	var audited []string
	for line := range strings.Lines(log.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r["target"] != nil {
			audited = append(audited, fmt.Sprint(r["target"], " ", r["result"]))
		}
	}
	if got := strings.Join(audited, ", "); got != "pushed ok,  body_too_large,  unauthorized,  forbidden,  internal_error" {
		t.Errorf("the audit log has %q", got)
	}
}

// Pages of other sites change nothing through a browser. Without HTTPS it names no site in a GET.
func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	s, err := New(Options{Ready: func(context.Context) error { return nil }, Dialects: []Dialect{{Routes: []Route{
		{Method: http.MethodGet, Path: "/clear", Changes: true, Handle: func(*Call) error { return nil }},
		{Method: http.MethodGet, Path: "/look", Handle: func(*Call) error { return nil }},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	for _, tt := range []struct {
		path, agent, site, origin string
		want                      int
	}{
		{"/clear", "okhttp/4.9.3", "", "", 200},
		{"/clear", "", "", "", 200},
		{"/clear", browser, "", "", 403},
		{"/clear", browser, "cross-site", "", 403},
		{"/clear", browser, "", "http://evil.example", 403},
		{"/clear", browser, "", "http://example.com", 200},
		{"/clear", browser, "same-origin", "", 200},
		{"/clear", browser, "none", "", 200}, // typed by the user
		{"/look", browser, "", "", 200},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r := httptest.NewRequest(method, tt.path, http.NoBody)
			for name, value := range map[string]string{"User-Agent": tt.agent, "Sec-Fetch-Site": tt.site, "Origin": tt.origin} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			got := httptest.NewRecorder()
			if s.Handler().ServeHTTP(got, r); got.Code != tt.want {
				t.Errorf("%s %+v: %d", method, tt, got.Code)
			}
		}
	}
}

// A protocol that knows the caller of a request passes it on: the key is checked once.
func TestKnownCallers(t *testing.T) {
	keys := &countingAccess{}
	s, err := New(Options{
		Ready: func(context.Context) error { return nil }, Access: keys, Dialects: []Dialect{foreign()},
		Wrap: func(api http.Handler, known func(*http.Request) (*http.Request, error)) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r, err := known(r); err == nil {
					api.ServeHTTP(w, r)
				}
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	call := func(method, path, token string) string {
		r := httptest.NewRequest(method, path, strings.NewReader("hello"))
		r.Header.Set("Authorization", "Bearer "+token)
		got := httptest.NewRecorder()
		s.Handler().ServeHTTP(got, r)
		return got.Body.String()
	}
	if got := call("POST", "/queue/push", "secret"); got != "hello" || keys.asked != 1 {
		t.Errorf("%s, after %d checks", got, keys.asked)
	}
	if got := call("PUT", "/queue/admin", "secret"); !strings.Contains(got, "forbidden") {
		t.Errorf("beyond the scope of the caller: %s", got)
	}
	if got := call("POST", "/queue/push", "wrong"); got != "" {
		t.Errorf("an unknown caller: %s", got)
	}
}

type countingAccess struct {
	fakeAccess
	asked int
}

func (a *countingAccess) Authenticate(authorization string) (access.Principal, error) {
	a.asked++
	return a.fakeAccess.Authenticate(authorization)
}

// A stream ends with the server. Other calls have a time limit.
func TestStreamsEndWithTheServer(t *testing.T) {
	var limited bool
	s, err := New(Options{Ready: func(context.Context) error { return nil }, Dialects: []Dialect{{Routes: []Route{
		{Method: http.MethodGet, Path: "/stream", Stream: true, Handle: func(c *Call) error {
			_, limited = c.Context().Deadline()
			<-c.Context().Done()
			return nil
		}},
		{Method: http.MethodGet, Path: "/call", Handle: func(c *Call) error {
			_, limited = c.Context().Deadline()
			return nil
		}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/stream", http.NoBody))
	if limited {
		t.Error("a stream has a time limit")
	}
	s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/call", http.NoBody))
	if !limited {
		t.Error("a call has no time limit")
	}
}
