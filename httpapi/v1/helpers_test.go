package v1

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/memory"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/internal/services/nodes"
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/listing"
)

// Store is a store as the API's tests need it.
type Store interface {
	app.Store
	Ping(ctx context.Context) error
}

type (
	jobsOptions   = app.Options
	serverOptions = httpapi.Options
)

// testOptions are those of a server and of the App below it, which have the
// store, the clock and the metrics in common.
type testOptions struct {
	Options
	serverOptions
	jobsOptions
	Store   Store
	Clock   job.Clock
	Metrics *prometheus.Registry
}

// api is a server on a store in memory, each of whose answers is held against the
// contract.
type api struct {
	t      testing.TB
	clock  *testenv.Clock
	mem    diskstore.Embedded
	faults *faultyStore
	server *httpapi.Server
	budget *memory.Budget
	v1     *API
	jobs   *app.App
	// signing keeps the signing secrets, of which secret is the default.
	signing *signing.Secrets
	secret  string
	// operations changes many jobs; nothing works on them.
	operations *operations.Manager
	alerts     *alerts.Manager // nothing evaluates
	events     *events.Hub
	recent     *recent.Recorder
	endpoints  *fakeEndpoints
	schedules  *schedules.Manager
	// token is sent by call unless the test sets the header itself.
	token string

	mu   sync.Mutex
	seen map[outcome]bool
}

func newAPI(t testing.TB, change ...func(*testOptions)) *api {
	t.Helper()
	clock := testenv.NewClock(time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC))
	mem := testenv.Store(t, diskstore.Options{Clock: clock, Retention: time.Hour})
	a := &api{t: t, clock: clock, mem: mem, faults: &faultyStore{Store: mem}, seen: map[outcome]bool{}}
	a.events = a.newEvents()
	a.signing = a.newSigning(faultyDocuments{mem, a.faults}, documents.GenerateMasterKey(), "")
	if err := errors.Join(a.signing.EnsureDefault(t.Context(), func(made string) error { a.secret = made; return nil }), a.signing.Load(t.Context())); err != nil {
		t.Fatal(err)
	}
	var err error
	settings := a.newTopics()
	a.recent, a.endpoints = recent.New(recent.Options{}), &fakeEndpoints{faults: a.faults}
	o := testOptions{
		Options: Options{
			Pulls: a.newPulls(), Signing: a.signing, Events: faultyEvents{a.events, a.faults}, Inboxes: newFakeInboxes(a.faults),
		},
		serverOptions: serverOptions{Logger: slog.New(slog.DiscardHandler), RequestTimeout: time.Minute}, // on a busy machine, 10 s were not enough
		jobsOptions:   jobsOptions{Recent: a.recent, Endpoints: a.endpoints, Topics: settings, Policy: retrypolicy.Default()},
		Store:         a.faults, Clock: clock,
	}
	for _, c := range change {
		c(&o)
	}
	o.Options.Groups = groups.New(faultyDocuments{mem, a.faults}, o.Guard.Check, clock)
	o.jobsOptions.Groups = o.Options.Groups
	o.jobsOptions.Store, o.jobsOptions.Clock = o.Store, o.Clock
	if o.Metrics != nil {
		o.jobsOptions.Metrics = o.Metrics
	}
	o.serverOptions.Ready, o.serverOptions.Clock, o.serverOptions.Metrics = o.Store.Ping, o.Clock, o.Metrics
	a.jobs, err = app.New(o.jobsOptions)
	if err != nil {
		t.Fatal(err)
	}
	documents := operationsStore{a.faults, faultyDocuments{mem, a.faults}, mem}
	a.schedules, err = schedules.New(schedules.Options{Store: documents, Jobs: a.jobs, ID: "node", Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	o.Options.Nodes = nodes.New(nodes.Options{Facts: nodes.Facts{ID: "node", Host: "host", Version: "1", Store: "redis"}, Store: documents, Clock: clock})
	a.operations, err = operations.New(operations.Options{Store: documents, Jobs: a.jobs, ID: "node", Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	a.alerts, err = alerts.New(alerts.Options{Store: documents, Jobs: a.jobs, Counts: alerts.NewCounts(mem, clock, nil), Silent: func(context.Context) ([]string, error) { return nil, nil }, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	o.App, o.Operations, o.Alerts, o.Schedules = a.jobs, a.operations, a.alerts, a.schedules
	if a.v1, err = build(o.Options); err != nil {
		t.Fatal(err)
	}
	a.budget = memory.New(httpapi.DefaultMemory, job.SystemClock())
	o.Dialects, o.serverOptions.Memory = []httpapi.Dialect{a.v1.dialect()}, a.budget
	if a.server, err = httpapi.New(o.serverOptions); err != nil {
		t.Fatal(err)
	}
	return a
}

// switchedAccess are keys that a test can replace.
type switchedAccess struct{ *access.Keys }

// allRoutes are the calls of v1, and those of every server.
var allRoutes = append(slices.Clone(routes),
	route{method: "GET", path: "/livez", scope: access.Public, body: bodyIgnored},
	route{method: "GET", path: "/readyz", scope: access.Public, body: bodyIgnored},
	route{method: "GET", path: "/metrics", scope: access.Read, body: bodyIgnored},
	route{method: "GET", path: "/openapi.json", scope: access.Public, body: bodyIgnored},
)

// bodyIgnored is what the server's own calls do: they look at no body.
const bodyIgnored bodyKind = 255

// call makes a request. A body means that of application/json.
func (a *api) call(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	a.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" && !slices.Contains(headers, "Authorization") {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
		if headers[i] == "Content-Type" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return a.do(r, []byte(body))
}

func (a *api) do(r *http.Request, sent []byte) *httptest.ResponseRecorder {
	a.t.Helper()
	if r.URL.Path == eventsPath { // it would go on for ever
		ctx, end := context.WithCancel(r.Context())
		end()
		r = r.WithContext(ctx)
	}
	got := httptest.NewRecorder()
	a.server.Handler().ServeHTTP(got, r)
	o, err := theContract().check(r, sent, got)
	if err != nil {
		a.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	a.mu.Lock()
	a.seen[o] = true
	a.mu.Unlock()
	return got
}

// want makes a request and fails the test on another status. It returns the
// answer's JSON.
func (a *api) want(status int, method, target, body string, headers ...string) map[string]any {
	a.t.Helper()
	got := a.call(method, target, body, headers...)
	if got.Code != status {
		a.t.Fatalf("%s %s: got %d, want %d: %s", method, target, got.Code, status, got.Body)
	}
	var v map[string]any
	if err := json.Unmarshal(got.Body.Bytes(), &v); err != nil {
		a.t.Fatalf("%s %s: %v: %s", method, target, err, got.Body)
	}
	return v
}

// wantProblem makes a request and fails the test on another error code.
func (a *api) wantProblem(want httpapi.Code, method, target, body string, headers ...string) httpapi.Problem {
	a.t.Helper()
	got := a.call(method, target, body, headers...)
	p := decodeProblem(got)
	if p.Code != want.Name || got.Code != want.Status {
		a.t.Fatalf("%s %s: got %d %s, want %d %s: %s", method, target, got.Code, p.Code, want.Status, want.Name, got.Body)
	}
	return p
}

// refuses makes a call with each body, or with each query of a GET. It is refused for the fields at the pointers.
func (a *api) refuses(method, path string, sent map[string]string) {
	a.t.Helper()
	for body, want := range sent {
		target := path
		if method == http.MethodGet {
			target, body = path+body, ""
		}
		var got []string
		for _, e := range a.wantProblem(httpapi.CodeInvalidRequest, method, target, body).Errors {
			got = append(got, e.Pointer)
		}
		if strings.Join(got, " ") != want {
			a.t.Errorf("%s %s %.200s: got %q, want %q", method, target, body, got, want)
		}
	}
}

// claim takes whatever is due, as a dispatcher does.
func (a *api) claim() []store.Claimed {
	a.t.Helper()
	ctx := context.Background()
	taken, err := a.mem.Take(ctx, 0, store.TakeOptions{Max: 1000, Lease: 20 * time.Second, LeaseMargin: 10 * time.Second})
	if err != nil {
		a.t.Fatal(err)
	}
	return taken.Claims
}

// settle ends a claim as a dispatcher does, with an attempt of 87 ms.
func (a *api) settle(c store.Claimed, kind job.OutcomeKind, attempt job.Attempt) {
	a.t.Helper()
	attempt.Number, attempt.StartedAt, attempt.Duration = c.Job.Attempts+1, c.Now, 87*time.Millisecond
	attempt.Version = c.Job.Version
	a.clock.Advance(attempt.Duration)
	policy := retrypolicy.Default()
	policy.Jitter = 0
	s := job.Settle(&c.Job, job.Outcome{Kind: kind, Attempt: &attempt, Reason: job.ReasonGone}, func(n int) (time.Duration, bool) {
		return policy.For(c.Job.Spec.Retry).Next(n, nil)
	})
	if _, err := a.mem.Settle(context.Background(), []job.Settlement{s}); err != nil {
		a.t.Fatal(err)
	}
}

// end makes whatever is due end with an outcome.
func (a *api) end(kind job.OutcomeKind) {
	a.t.Helper()
	claimed := a.claim()
	if len(claimed) == 0 {
		a.t.Fatal("no job is due")
	}
	for _, c := range claimed {
		a.settle(c, kind, job.Attempt{Status: 200, ResponseBody: "ok"})
	}
}

// held is everything that the store holds.
func (a *api) held() []job.Job {
	a.t.Helper()
	page, err := listing.List(context.Background(), a.mem, store.Query{Limit: 1000})
	if err != nil {
		a.t.Fatal(err)
	}
	return page.Jobs
}

// operationsStore is a store as operations need it.
type operationsStore struct {
	*faultyStore
	store.Documents
	store.Messaging
}

// faultyStore is a Store that can be told to fail, or to panic.
type faultyStore struct {
	Store
	mu   sync.Mutex
	fail func() error
}

func (f *faultyStore) set(fail func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *faultyStore) err() error {
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail()
}

func (f *faultyStore) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.Register(ctx, regs)
}

func (f *faultyStore) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	if err := f.err(); err != nil {
		return job.Job{}, err
	}
	return f.Store.Update(ctx, key, change)
}

func (f *faultyStore) Count(ctx context.Context, c store.Count) (store.Counted, error) {
	if err := f.err(); err != nil {
		return store.Counted{}, err
	}
	return f.Store.Count(ctx, c)
}

func (f *faultyStore) Get(ctx context.Context, key job.Key) (job.Job, error) {
	if err := f.err(); err != nil {
		return job.Job{}, err
	}
	return f.Store.Get(ctx, key)
}

func (f *faultyStore) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	if err := f.err(); err != nil {
		return store.Outlook{}, err
	}
	return f.Store.Outlook(ctx, key)
}

func (f *faultyStore) Names(ctx context.Context, q store.NameQuery) ([]string, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.Names(ctx, q)
}

func (f *faultyStore) Entries(ctx context.Context, of store.Index, span store.Span) ([]store.Entry, *store.Position, error) {
	if err := f.err(); err != nil {
		return nil, nil, err
	}
	return f.Store.Entries(ctx, of, span)
}

func (f *faultyStore) Read(ctx context.Context, q store.ReadQuery) (store.Records, error) {
	if err := f.err(); err != nil {
		return store.Records{}, err
	}
	return f.Store.Read(ctx, q)
}

func (f *faultyStore) Figures(ctx context.Context, q store.FigureQuery) (store.Figures, error) {
	if err := f.err(); err != nil {
		return store.Figures{}, err
	}
	return f.Store.Figures(ctx, q)
}

func (f *faultyStore) Ping(ctx context.Context) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Store.Ping(ctx)
}

// headings are the headings of a Markdown file that begin with prefix.
func headings(t testing.TB, file, prefix string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		if heading, ok := strings.CutPrefix(line, prefix); ok {
			found = append(found, strings.TrimSpace(heading))
		}
	}
	return found
}

// heldClock says when it is asked for a timer, which fires when fire is closed.
type heldClock struct {
	*testenv.Clock
	asked chan time.Duration
	fire  chan time.Time
}

func newHeldClock() *heldClock {
	return &heldClock{Clock: testenv.NewClock(time.Unix(1_767_258_000, 0)), asked: make(chan time.Duration, 1), fire: make(chan time.Time)}
}

func (c *heldClock) NewTimer(d time.Duration) job.Timer {
	c.asked <- d
	return heldTimer{c.fire}
}

type heldTimer struct{ fire chan time.Time }

func (t heldTimer) C() <-chan time.Time { return t.fire }
func (heldTimer) Stop() bool            { return true }

// newTopics keeps settings of topics in documents that fail when the store does.
func (a *api) newTopics() *topics.Manager {
	a.t.Helper()
	manager, err := topics.New(topics.Options{Store: topicsStore{a.mem, faultyDocuments{a.mem, a.faults}}, Clock: a.clock})
	if err != nil {
		a.t.Fatal(err)
	}
	return manager
}

type topicsStore struct {
	store.Store
	documents faultyDocuments
}

func (s topicsStore) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	return s.documents.ListDocuments(ctx, q)
}
