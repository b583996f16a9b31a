package v1

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/duehook/duehook/internal/kit/jsonio"
)

// FuzzRegisterBody sends any bytes as a registration. What is accepted must be
// what the standard library's parser finds in them; nothing is an internal
// error, and the contract is kept (api.do sees to that).
func FuzzRegisterBody(f *testing.F) {
	for _, seed := range malformedBodies {
		f.Add([]byte(seed))
	}
	for _, b := range badFields {
		f.Add([]byte(`{"url":"https://shop.example/hook",` + b.members + `}`))
	}
	for _, u := range badURLs {
		f.Add([]byte(`{"url":` + u + `}`))
	}
	f.Add([]byte(typicalJob))
	f.Add([]byte(`{"url":"HTTPS://Shop.Example/hook"}`))
	f.Add([]byte(`{"url":"https://shop.example/hook","body":{"a":[1,{"b":"]}\"\\"}],"a":null}}`))
	f.Add([]byte("\t\r\n {\"url\" : \"https:\\/\\/shop.example\\u002fhook\" , \"body_text\" : \"\\ud83d\\ude00\"}\n"))
	a := newAPI(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		a.t = t
		r := httptest.NewRequest(http.MethodPost, "/v1/jobs", strings.NewReader(string(data)))
		r.Header.Set("Content-Type", "application/json")
		got := a.do(r, data)
		valid := json.Valid(data) && utf8.Valid(data)
		switch got.Code {
		case http.StatusOK, http.StatusCreated:
			var parsed struct {
				ID   *string
				Body json.RawMessage
			}
			if err := json.Unmarshal(data, &parsed); !valid || err != nil {
				t.Fatalf("accepted, but no JSON: %v", err)
			}
			checkKept(t, a, got, parsed.ID, parsed.Body)
		case http.StatusBadRequest:
			if valid && strings.Count(string(data), "{")+strings.Count(string(data), "[") <= jsonio.MaxNesting {
				t.Fatalf("refused as malformed: %s", got.Body)
			}
		case http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			if !valid {
				t.Fatalf("not refused as malformed: %s", got.Body)
			}
		default:
			t.Fatalf("got %d %s", got.Code, got.Body)
		}
	})
}

func checkKept(t *testing.T, a *api, got *httptest.ResponseRecorder, id *string, body json.RawMessage) {
	t.Helper()
	var j jobAddress
	if err := json.Unmarshal(got.Body.Bytes(), &j); err != nil {
		t.Fatal(err)
	}
	if id != nil && *id != j.ID {
		t.Errorf("the id %q became %q", *id, j.ID)
	}
	kept := string(a.stored(j.Topic, j.ID).Spec.Body)
	if body != nil && string(body) != "null" && kept != string(body) {
		t.Errorf("the body %s was kept as %s", body, kept)
	}
}

type jobAddress struct{ Topic, ID string }

// FuzzListQuery sends any query string to the listing.
func FuzzListQuery(f *testing.F) {
	for _, call := range badTargets("/v1/jobs/t/there") {
		if _, query, ok := strings.Cut(call.target, "?"); ok {
			f.Add(query)
		}
	}
	f.Add("topic=t&state=waiting&biz_key=b&limit=2")
	f.Add("limit=0x1&limit=%31")
	f.Add("state=waiting&state=dead&labels=a:b&labels=c:&endpoint=http://shop.example&due_from=2026-01-01T09:00:00Z&due_to=2026-01-01T09:00:00%2B01:00&reason=gone")
	a := listed(f)
	f.Fuzz(func(t *testing.T, query string) {
		a.t = t
		a.fuzzed(&url.URL{Path: "/v1/jobs", RawQuery: query})
	})
}

// FuzzCursor sends any cursor, with and without filters.
func FuzzCursor(f *testing.F) {
	a := listed(f)
	for _, query := range []string{"limit=1", "topic=t&limit=1", "state=waiting&limit=1", "biz_key=b&limit=1"} {
		cursor, _ := a.want(200, "GET", "/v1/jobs?"+query, "")["next_cursor"].(string)
		f.Add(cursor, query)
		for i := range cursor {
			f.Add(cursor[:i], query)
			f.Add(cursor[:i]+"A"+cursor[i+1:], query)
		}
	}
	f.Add("\x00", "")
	f.Add(strings.Repeat("A", 10_000), "state=dead")
	f.Fuzz(func(t *testing.T, cursor, query string) {
		a.t = t
		a.fuzzed(&url.URL{Path: "/v1/jobs", RawQuery: query + "&cursor=" + url.QueryEscape(cursor)})
	})
}

// FuzzPath asks for any path.
func FuzzPath(f *testing.F) {
	for _, call := range badTargets("/v1/jobs/t/there") {
		path, _, _ := strings.Cut(call.target, "?")
		f.Add(path)
	}
	a := listed(f)
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI("/" + strings.TrimPrefix(path, "/"))
		if err != nil {
			return // no server gets such a request
		}
		u.RawQuery = ""
		a.t = t
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.URL = u
		got := httptest.NewRecorder()
		a.server.Handler().ServeHTTP(got, r)
		if got.Code != http.StatusOK && got.Code != http.StatusNotFound && got.Code != http.StatusUnprocessableEntity && got.Code != http.StatusMethodNotAllowed {
			t.Fatalf("%s: got %d %s", path, got.Code, got.Body)
		}
	})
}

// listed is an API with a few jobs to list.
func listed(f *testing.F) *api {
	a := newAPI(f)
	for i := range 5 {
		a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"url":"https://shop.example/hook","topic":"t","id":"%d","biz_key":"b","delay":60}`, i))
	}
	return a
}

func (a *api) fuzzed(u *url.URL) {
	a.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.URL = u
	if got := a.do(r, nil); got.Code != http.StatusOK && got.Code != http.StatusUnprocessableEntity {
		a.t.Fatalf("%s: got %d %s", u, got.Code, got.Body)
	}
}
