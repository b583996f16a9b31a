package fronts

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/app/pulls"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

// Parts are the services behind dialects, on an empty store in memory. Nothing is delivered, and time
// stands still. A fuzz target makes them anew for each input.
type Parts struct {
	Clock     *testenv.Clock
	App       *app.App
	Schedules *schedules.Manager
	Groups    *groups.Manager
	Topics    *topics.Manager
	Pulls     *pulls.Manager

	tb      testing.TB
	store   diskstore.Embedded
	handler http.Handler
}

// NewParts serves the dialect that build makes of the parts. wrap is httpapi.Options.Wrap.
func NewParts(tb testing.TB, build func(*Parts) httpapi.Dialect, wrap func(http.Handler, func(*http.Request) (*http.Request, error)) http.Handler) *Parts {
	tb.Helper()
	clock := testenv.NewClock(time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC))
	p := &Parts{tb: tb, Clock: clock, store: testenv.Store(tb, diskstore.Options{Clock: clock, Retention: time.Hour})}
	p.Groups = groups.New(p.store, app.Guard(nil).Check, clock)
	var errs [5]error
	p.Topics, errs[0] = topics.New(topics.Options{Store: p.store, Clock: clock})
	p.App, errs[1] = app.New(app.Options{Store: p.store, Topics: p.Topics, Groups: p.Groups, Policy: retrypolicy.Default(), Clock: clock})
	p.Schedules, errs[2] = schedules.New(schedules.Options{Store: p.store, Jobs: p.App, ID: "node", Clock: clock})
	p.Pulls, errs[3] = pulls.New(pulls.Options{Store: p.store, ID: "node", Policy: retrypolicy.Default(), Clock: clock})
	server, err := httpapi.New(httpapi.Options{
		Ready: p.store.Ping, Clock: clock, Logger: slog.New(slog.DiscardHandler), RequestTimeout: time.Minute,
		Wrap: wrap, Dialects: []httpapi.Dialect{build(p)},
	})
	errs[4] = err
	for _, err := range errs {
		if err != nil {
			tb.Fatal(err)
		}
	}
	p.handler = server.Handler()
	return p
}

// Call makes a request, and returns the status and the body of the answer. ok is false if no server
// would get such a request.
func (p *Parts) Call(method, target string, h http.Header, body string) (status int, answer []byte, ok bool) {
	p.tb.Helper()
	if strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }) {
		return 0, nil, false
	}
	if _, err := url.ParseRequestURI(target); err != nil {
		return 0, nil, false
	}
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for name, values := range h {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	if w.Code >= http.StatusInternalServerError || w.Code == http.StatusRequestTimeout {
		p.tb.Errorf("%s %s %v %q: %d %s", method, target, h, body, w.Code, w.Body)
	}
	return w.Code, w.Body.Bytes(), true
}

// listed is more than an input registers.
const listed = 1000

// State is everything that is stored, as text.
func (p *Parts) State() string {
	p.tb.Helper()
	page, err := p.App.List(p.tb.Context(), store.Query{Limit: listed})
	if err != nil {
		p.tb.Fatal(err)
	}
	all := []any{page.Jobs}
	for _, kind := range []string{"topic", "group", "schedule"} {
		docs, err := p.store.ListDocuments(p.tb.Context(), store.DocumentQuery{Kind: kind})
		if err != nil {
			p.tb.Fatal(err)
		}
		all = append(all, docs)
	}
	text, err := json.Marshal(all)
	if err != nil {
		p.tb.Fatal(err)
	}
	return string(text)
}

// Headers are the lines of a fuzzed input as headers.
func Headers(lines string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		h.Add(name, strings.TrimSpace(value))
	}
	return h
}
