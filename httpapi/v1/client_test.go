package v1

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/httpapi"
)

// clientCall is a call of the Go client.
type clientCall struct {
	operation string
	call      func(ctx context.Context, c *client.Client) (any, error)
	request   any    // what the call sends, if it has a type of its own
	answer    string // the schema of the answer, if the document has several
}

// one drops the type of an answer.
func one[T any](v T, err error) (any, error) { return v, err }

// firstOf reads a list up to its first entry.
func firstOf[T any](entries iter.Seq2[T, error]) (any, error) {
	for v, err := range entries {
		return client.Page[T]{Data: []T{v}}, err
	}
	return client.Page[T]{}, nil
}

type ctx = context.Context

var (
	aRegistration = client.Registration{Topic: "t", ID: "j", URL: "https://shop.example/hook", Delay: client.Duration(time.Hour), Body: map[string]int{"n": 1}}
	aSchedule     = client.ScheduleDraft{Every: client.Duration(time.Hour), Job: client.Registration{URL: "https://shop.example/hook"}}
	aSecret       = "whsec_YW4gZXhhbXBsZTsgbmV2ZXIgdXNlIGl0IGluIGVhcm4="
	someJobs      = client.OperationDraft{Action: "cancel", Filter: client.JobFilter{Topic: "t"}}
)

// clientCalls are all calls of the client. Their answers may be refusals.
var clientCalls = []clientCall{
	{"POST /v1/jobs", func(ctx ctx, c *client.Client) (any, error) { return one(c.Register(ctx, aRegistration)) }, client.Registration{}, "RegisteredJob"},
	{"PUT /v1/groups/{group}", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.PutGroup(ctx, "g", []client.Member{{Name: "m", URL: "https://shop.example/hook"}}))
	}, client.Group{}, ""},
	{"POST /v1/jobs", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.RegisterGroup(ctx, client.Registration{Group: "g"}))
	}, nil, "FanOut"},
	{"POST /v1/jobs/batch", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.RegisterBatch(ctx, []client.Registration{aRegistration}))
	}, nil, "none"},
	{"POST /v1/jobs/plan", func(ctx ctx, c *client.Client) (any, error) { return one(c.PlanJob(ctx, aRegistration)) }, nil, ""},
	{"GET /v1/jobs", func(ctx ctx, c *client.Client) (any, error) {
		return firstOf(c.Jobs(ctx, client.JobQuery{JobFilter: client.JobFilter{Topic: "t", State: []client.State{"waiting", "ready"}, DueFrom: time.Unix(1767225600, 0)}}))
	}, nil, ""},
	{"GET /v1/jobs/{topic}/{id}", func(ctx ctx, c *client.Client) (any, error) { return one(c.Job(ctx, "t", "j")) }, nil, ""},
	{"PATCH /v1/jobs/{topic}/{id}", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.ChangeJob(ctx, "t", "j", client.Patch{"delay": "2h"}))
	}, nil, ""},
	{"GET /v1/jobs/{topic}/{id}/attempts", func(ctx ctx, c *client.Client) (any, error) { return firstOf(c.Attempts(ctx, "t", "j")) }, nil, ""},
	{"GET /v1/jobs/{topic}/{id}/explain", func(ctx ctx, c *client.Client) (any, error) { return one(c.Explain(ctx, "t", "j")) }, nil, ""},
	{"GET /v1/jobs/{topic}/{id}/registration", func(ctx ctx, c *client.Client) (any, error) { return one(c.JobRegistration(ctx, "t", "j")) }, nil, ""},
	{"POST /v1/jobs/{topic}/{id}/run", func(ctx ctx, c *client.Client) (any, error) { return one(c.RunJob(ctx, "t", "j")) }, nil, ""},
	{"POST /v1/jobs/{topic}/{id}/finish", func(ctx ctx, c *client.Client) (any, error) { return one(c.FinishJob(ctx, "t", "j")) }, nil, ""},
	{"POST /v1/jobs/{topic}/{id}/count", func(ctx ctx, c *client.Client) (any, error) { return one(c.CountJob(ctx, "t", "j", 1, "")) }, nil, ""},
	{"DELETE /v1/jobs/{topic}/{id}", func(ctx ctx, c *client.Client) (any, error) { return one(c.CancelJob(ctx, "t", "j")) }, nil, ""},
	{"POST /v1/jobs/{topic}/{id}/replay", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.ReplayJob(ctx, "t", "j", client.Patch{"delay": "1h"}))
	}, nil, ""},
	{"GET /v1/dead", func(ctx ctx, c *client.Client) (any, error) { return firstOf(c.DeadGroups(ctx, client.DeadQuery{})) }, nil, ""},
	{"GET /v1/groups/{group}/members", func(ctx ctx, c *client.Client) (any, error) {
		return firstOf(c.Members(ctx, "g", client.MemberQuery{Q: "m"}))
	}, nil, ""},
	{"GET /v1/groups", func(ctx ctx, c *client.Client) (any, error) { return firstOf(c.Groups(ctx, client.Paging{Limit: 1})) }, nil, ""},
	{"GET /v1/groups/{group}", func(ctx ctx, c *client.Client) (any, error) { return one(c.Group(ctx, "g")) }, nil, ""},
	{"PATCH /v1/groups/{group}", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.PatchGroup(ctx, "g", client.Patch{"members": map[string]any{"m": nil}}))
	}, nil, ""},
	{"DELETE /v1/groups/{group}", func(ctx ctx, c *client.Client) (any, error) { return one(c.DeleteGroup(ctx, "g")) }, nil, ""},
	{"PUT /v1/schedules/{schedule}", func(ctx ctx, c *client.Client) (any, error) { return one(c.PutSchedule(ctx, "s", aSchedule)) }, client.ScheduleDraft{}, ""},
	{"PATCH /v1/schedules/{schedule}", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.PatchSchedule(ctx, "s", client.Patch{"jitter": "1m"}))
	}, nil, ""},
	{"GET /v1/schedules/{schedule}", func(ctx ctx, c *client.Client) (any, error) { return one(c.Schedule(ctx, "s")) }, nil, ""},
	{"GET /v1/schedules", func(ctx ctx, c *client.Client) (any, error) {
		return firstOf(c.Schedules(ctx, client.ScheduleQuery{State: []string{"active"}}))
	}, nil, ""},
	{"POST /v1/schedules/preview", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.PreviewSchedule(ctx, client.Preview{ScheduleDraft: aSchedule, Limit: 2}))
	}, client.Preview{}, ""},
	{"GET /v1/schedules/{schedule}/registration", func(ctx ctx, c *client.Client) (any, error) { return one(c.ScheduleRegistration(ctx, "s")) }, nil, ""},
	{"GET /v1/schedules/{schedule}/occurrences", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.Occurrences(ctx, "s", client.OccurrenceQuery{Paging: client.Paging{Limit: 2}}))
	}, nil, ""},
	{"GET /v1/schedules/{schedule}/runs", func(ctx ctx, c *client.Client) (any, error) { return firstOf(c.Runs(ctx, "s")) }, nil, ""},
	{"POST /v1/schedules/{schedule}/pause", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.PauseSchedule(ctx, "s", client.PauseOptions{Note: "n"}))
	}, nil, ""},
	{"POST /v1/schedules/{schedule}/resume", func(ctx ctx, c *client.Client) (any, error) { return one(c.ResumeSchedule(ctx, "s")) }, nil, ""},
	{"POST /v1/schedules/{schedule}/skip", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.SkipOccurrence(ctx, "s", time.Time{}))
	}, nil, ""},
	{"POST /v1/schedules/{schedule}/unskip", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.UnskipOccurrence(ctx, "s", time.Time{}))
	}, nil, ""},
	{"POST /v1/schedules/{schedule}/run", func(ctx ctx, c *client.Client) (any, error) { return one(c.RunSchedule(ctx, "s")) }, nil, ""},
	{"DELETE /v1/schedules/{schedule}", func(ctx ctx, c *client.Client) (any, error) { return one(c.DeleteSchedule(ctx, "s")) }, nil, ""},
	{"PUT /v1/topics/{topic}", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.PutTopic(ctx, "t", client.TopicSettings{Rate: 2}))
	}, client.TopicSettings{}, ""},
	{"PATCH /v1/topics/{topic}", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.PatchTopic(ctx, "t", client.Patch{"rate": nil, "capacity": 5}))
	}, nil, ""},
	{"GET /v1/topics/{topic}", func(ctx ctx, c *client.Client) (any, error) { return one(c.Topic(ctx, "t")) }, nil, ""},
	{"GET /v1/topics", func(ctx ctx, c *client.Client) (any, error) { return firstOf(c.Topics(ctx, client.TopicQuery{Q: "t"})) }, nil, ""},
	{"PUT /v1/topics/{topic}/limits", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.PutTopicLimits(ctx, "t", client.TopicLimits{Rate: 5}))
	}, client.TopicLimits{}, ""},
	{"GET /v1/topics/{topic}/limits", func(ctx ctx, c *client.Client) (any, error) { return one(c.TopicLimits(ctx, "t")) }, nil, ""},
	{"DELETE /v1/topics/{topic}/limits", func(ctx ctx, c *client.Client) (any, error) { return one(c.DeleteTopicLimits(ctx, "t")) }, nil, ""},
	{"POST /v1/topics/{topic}/pause", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.PauseTopic(ctx, "t", client.PauseOptions{Note: "n"}))
	}, nil, ""},
	{"POST /v1/topics/{topic}/drain", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.DrainTopic(ctx, "t", client.DrainOptions{Note: "n"}))
	}, nil, ""},
	{"POST /v1/topics/{topic}/resume", func(ctx ctx, c *client.Client) (any, error) { return one(c.ResumeTopic(ctx, "t")) }, nil, ""},
	{"DELETE /v1/topics/{topic}", func(ctx ctx, c *client.Client) (any, error) { return one(c.DeleteTopic(ctx, "t")) }, nil, ""},
	{"GET /v1/endpoints", func(ctx ctx, c *client.Client) (any, error) { return firstOf(c.Endpoints(ctx, client.EndpointQuery{})) }, nil, ""},
	{"POST /v1/endpoints/try", func(ctx ctx, c *client.Client) (any, error) { return one(c.TryEndpoint(ctx, "https://shop.example")) }, nil, ""},
	{"POST /v1/endpoints/test", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.TestEndpoint(ctx, client.Test{URL: "https://shop.example/hook"}))
	}, client.Test{}, ""},
	{"POST /v1/operations", func(ctx ctx, c *client.Client) (any, error) { return one(c.CountOperation(ctx, someJobs)) }, nil, "DryRun"},
	{"POST /v1/operations", func(ctx ctx, c *client.Client) (any, error) { return one(c.StartOperation(ctx, someJobs)) }, client.OperationDraft{}, "Operation"},
	{"GET /v1/operations", func(ctx ctx, c *client.Client) (any, error) { return firstOf(c.Operations(ctx, client.Paging{})) }, nil, ""},
	{"GET /v1/operations/{id}", func(ctx ctx, c *client.Client) (any, error) { return one(c.Operation(ctx, "o")) }, nil, ""},
	{"POST /v1/operations/{id}/stop", func(ctx ctx, c *client.Client) (any, error) { return one(c.StopOperation(ctx, "o")) }, nil, ""},
	{"POST /v1/operations/{id}/resume", func(ctx ctx, c *client.Client) (any, error) { return one(c.ResumeOperation(ctx, "o")) }, nil, ""},
	{"PUT /v1/alerts/rules/{rule}", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.PutRule(ctx, "r", client.RuleDraft{Metric: "open_circuits"}))
	}, client.RuleDraft{}, ""},
	{"PATCH /v1/alerts/rules/{rule}", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.PatchRule(ctx, "r", client.Patch{"for": "2m"}))
	}, nil, ""},
	{"GET /v1/alerts/rules/{rule}", func(ctx ctx, c *client.Client) (any, error) { return one(c.Rule(ctx, "r")) }, nil, ""},
	{"GET /v1/alerts/rules", func(ctx ctx, c *client.Client) (any, error) { return firstOf(c.Rules(ctx, client.Paging{})) }, nil, ""},
	{"DELETE /v1/alerts/rules/{rule}", func(ctx ctx, c *client.Client) (any, error) { return one(c.DeleteRule(ctx, "r")) }, nil, ""},
	{"GET /v1/alerts", func(ctx ctx, c *client.Client) (any, error) {
		return firstOf(c.Alerts(ctx, client.Paging{}))
	}, nil, ""},
	{"GET /v1/inboxes", func(ctx ctx, c *client.Client) (any, error) { return firstOf(c.Inboxes(ctx, client.Paging{})) }, nil, ""},
	{"GET /v1/inboxes/{inbox}/rows", func(ctx ctx, c *client.Client) (any, error) {
		return firstOf(c.SetAside(ctx, "orders", client.SetAsideQuery{State: "waiting"}))
	}, nil, ""},
	{"POST /v1/inboxes/{inbox}/retry", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.RetryRows(ctx, "orders", client.SetAsideRows{All: true}))
	}, client.SetAsideRows{}, ""},
	{"POST /v1/inboxes/{inbox}/drop", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.DropRows(ctx, "orders", client.SetAsideRows{IDs: []int64{1}}))
	}, nil, ""},
	{"POST /v1/topics/{topic}/pull", func(ctx ctx, c *client.Client) (any, error) {
		jobs, err := c.Pull(ctx, client.PullRequest{Topics: []string{"pulled"}})
		return struct {
			Jobs []client.LeasedJob `json:"jobs"`
		}{jobs}, err
	}, nil, ""},
	{"POST /v1/pull", func(ctx ctx, c *client.Client) (any, error) {
		_, err := c.Pull(ctx, client.PullRequest{Topics: []string{"t", "u"}})
		return nil, err
	}, client.PullRequest{}, ""},
	{"POST /v1/pull/ack", func(ctx ctx, c *client.Client) (any, error) {
		results, err := c.Ack(ctx, []string{"r"})
		return struct {
			Results []client.ReceiptResult `json:"results"`
		}{results}, err
	}, nil, ""},
	{"POST /v1/pull/nack", func(ctx ctx, c *client.Client) (any, error) {
		_, err := c.Nack(ctx, []client.Nack{{Receipt: "r"}})
		return nil, err
	}, struct {
		Receipts []client.Nack `json:"receipts"`
	}{}, ""},
	{"POST /v1/pull/extend", func(ctx ctx, c *client.Client) (any, error) {
		_, err := c.Extend(ctx, []string{"r"}, time.Minute)
		return nil, err
	}, nil, ""},
	{"GET /v1/whoami", func(ctx ctx, c *client.Client) (any, error) { return one(c.WhoAmI(ctx)) }, nil, ""},
	{"POST /v1/keys", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.CreateKey(ctx, client.KeyDraft{Name: "k", Scope: "read"}))
	}, client.KeyDraft{}, ""},
	{"GET /v1/keys", func(ctx ctx, c *client.Client) (any, error) { return firstOf(c.Keys(ctx, client.Paging{})) }, nil, ""},
	{"GET /v1/keys/{id}", func(ctx ctx, c *client.Client) (any, error) { return one(c.Key(ctx, "k")) }, nil, ""},
	{"DELETE /v1/keys/{id}", func(ctx ctx, c *client.Client) (any, error) { return one(c.RevokeKey(ctx, "k")) }, nil, ""},
	{"PUT /v1/signing", func(ctx ctx, c *client.Client) (any, error) { return one(c.SetSecret(ctx, "", aSecret)) }, nil, ""},
	{"GET /v1/signing", func(ctx ctx, c *client.Client) (any, error) { return one(c.Secrets(ctx, "")) }, nil, ""},
	{"POST /v1/signing/rotate", func(ctx ctx, c *client.Client) (any, error) { return one(c.RotateSecret(ctx, "", client.Rotation{})) }, client.Rotation{}, ""},
	{"PUT /v1/topics/{topic}/signing", func(ctx ctx, c *client.Client) (any, error) { return one(c.SetSecret(ctx, "t", "")) }, nil, ""},
	{"GET /v1/topics/{topic}/signing", func(ctx ctx, c *client.Client) (any, error) { return one(c.Secrets(ctx, "t")) }, nil, ""},
	{"POST /v1/topics/{topic}/signing/rotate", func(ctx ctx, c *client.Client) (any, error) { return one(c.RotateSecret(ctx, "t", client.Rotation{})) }, nil, ""},
	{"DELETE /v1/topics/{topic}/signing", func(ctx ctx, c *client.Client) (any, error) { return one(c.DeleteSecrets(ctx, "t")) }, nil, ""},
	{"GET /v1/overview", func(ctx ctx, c *client.Client) (any, error) { return one(c.Overview(ctx)) }, nil, ""},
	{"GET /v1/activity", func(ctx ctx, c *client.Client) (any, error) {
		return one(c.Activity(ctx, client.ActivityQuery{Window: "24h", Topic: "t"}))
	}, nil, ""},
	{"GET /v1/nodes", func(ctx ctx, c *client.Client) (any, error) { return firstOf(c.Nodes(ctx, client.Paging{})) }, nil, ""},
	{"GET /v1/events", func(ctx ctx, c *client.Client) (any, error) {
		for _, err := range c.Events(ctx, client.EventQuery{Topic: "t"}) {
			if !errors.Is(err, client.ErrUnreachable) { // the stream of this test ends at once
				return client.Event{}, err
			}
		}
		return client.Event{}, nil
	}, nil, "Event"},
	{"GET /livez", func(ctx ctx, c *client.Client) (any, error) { return nil, c.Live(ctx) }, nil, ""},
	{"GET /readyz", func(ctx ctx, c *client.Client) (any, error) { return nil, c.Ready(ctx) }, nil, ""},
	{"GET /metrics", func(ctx ctx, c *client.Client) (any, error) { return nil, textIn(c.Metrics(ctx)) }, nil, ""},
	{"GET /openapi.json", func(ctx ctx, c *client.Client) (any, error) { return nil, textIn(c.Document(ctx)) }, nil, ""},
}

func textIn(data []byte, err error) error {
	if err == nil && len(data) == 0 {
		return errors.New("the answer is empty")
	}
	return err
}

// inProcess is a transport that calls a server in this process.
type inProcess struct {
	a    *keyedAPI
	last string // the operation of the last call
}

func (t *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	op, known := theContract().find(r)
	if !known {
		t.a.t.Errorf("%s %s is no call of the document", r.Method, r.URL)
	}
	t.last = op.method + " " + op.path
	var headers []string
	for name, values := range r.Header {
		headers = append(headers, name, values[0])
	}
	return t.a.call(r.Method, r.URL.RequestURI(), string(sent), headers...).Result(), nil
}

// TestGoClient calls every operation of the document by the Go client, and holds its types against
// the schemas: it fails for a field that either of them lacks.
func TestGoClient(t *testing.T) {
	transport := &inProcess{a: newKeyedAPI(t)}
	c, err := client.New("http://duehook.test", client.WithToken(transport.a.token), client.WithHTTPClient(&http.Client{Transport: transport}),
		client.WithRetrying(client.Retrying{Attempts: 1}))
	if err != nil {
		t.Fatal(err)
	}
	fields := fieldsOfSchemas{t: t, known: map[reflect.Type]map[string]bool{}}
	called := map[string]bool{}
	for _, k := range clientCalls {
		got, err := k.call(t.Context(), c)
		if refused := new(client.Error); err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %v", k.operation, err)
		}
		if transport.last != k.operation {
			t.Errorf("got %s, want %s", transport.last, k.operation)
		}
		called[k.operation] = true
		fields.ofCall(k, got)
	}
	for _, op := range theContract().operations {
		if name := op.method + " " + op.path; !called[name] {
			t.Errorf("the Go client does not call %s", name)
		}
	}
	fields.check()
}

// TestGoClientCodes holds the codes of the client against the document.
func TestGoClientCodes(t *testing.T) {
	_, schema := theContract().at("/components/schemas/Problem/properties/code")
	for _, code := range object(schema)["enum"].([]any) {
		if !slices.Contains(client.Codes, client.Code(code.(string))) {
			t.Errorf("the Go client has no code %s", code)
		}
	}
	if got, want := len(client.Codes), len(object(schema)["enum"].([]any)); got != want {
		t.Errorf("the Go client has %d codes, the document %d", got, want)
	}
}

// fieldsOfSchemas compares types of the client with schemas.
type fieldsOfSchemas struct {
	t     *testing.T
	known map[reflect.Type]map[string]bool // the properties of all schemas of a type
}

func (f *fieldsOfSchemas) ofCall(k clientCall, got any) {
	method, path, _ := strings.Cut(k.operation, " ")
	at := "/paths/" + httpapi.EscapePointer(path) + "/" + strings.ToLower(method)
	if k.request != nil {
		f.add(at+"/requestBody/content/application~1json/schema", reflect.TypeOf(k.request))
	}
	switch {
	case got == nil || k.answer == "none":
	case k.answer != "":
		f.add("/components/schemas/"+k.answer, reflect.TypeOf(got))
	default:
		for _, status := range []string{"200", "201", "202"} {
			if at, response := theContract().at(at + "/responses/" + status); response != nil {
				f.add(at+"/content/application~1json/schema", reflect.TypeOf(got))
			}
		}
	}
}

// add wants a type to have all properties of a schema, and remembers these.
func (f *fieldsOfSchemas) add(at string, typ reflect.Type) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	properties := map[string]string{}
	gather(at, properties)
	if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[time.Time]() || len(properties) == 0 {
		return
	}
	if f.known[typ] == nil {
		f.known[typ] = map[string]bool{}
	}
	fields := jsonFields(typ)
	for name, at := range properties {
		field, ok := fields[name]
		switch {
		case !ok:
			f.t.Errorf("%v has no field %q of %s", typ, name, at)
		case !f.known[typ][name]:
			f.known[typ][name] = true
			f.add(at, field)
		}
	}
}

// check wants each field of a type to be in one of its schemas.
func (f *fieldsOfSchemas) check() {
	for typ, known := range f.known {
		for name := range jsonFields(typ) {
			if !known[name] {
				f.t.Errorf("no schema of %v has its field %q", typ, name)
			}
		}
	}
}

// jsonFields are the fields of a struct, with those of embedded ones.
func jsonFields(typ reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(typ) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = field.Type
		}
	}
	return fields
}

// gather finds the properties of an object, or of the entries of an array, in all parts of a
// schema.
func gather(at string, to map[string]string) {
	parent, name := at[:strings.LastIndex(at, "/")], at[strings.LastIndex(at, "/")+1:]
	parent, above := theContract().at(parent)
	at = parent + "/" + name
	s := object(object(above)[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]) // with what stands beside a reference
	for name := range object(s["properties"]) {
		to[name] = at + "/properties/" + httpapi.EscapePointer(name)
	}
	if ref, ok := s["$ref"].(string); ok {
		gather(strings.TrimPrefix(ref, "#"), to)
	}
	for _, parts := range []string{"allOf", "anyOf", "oneOf"} {
		all, _ := s[parts].([]any)
		for _, part := range all {
			if ref, ok := object(part)["$ref"].(string); ok {
				gather(strings.TrimPrefix(ref, "#"), to)
			}
		}
	}
	if s["items"] != nil {
		gather(at+"/items", to)
	}
}

// TestInboxRow: the client refuses for the same fields as a server what is in no inbox, and writes what a server accepts.
func TestInboxRow(t *testing.T) {
	a := newAPI(t)
	c, err := client.New("http://duehook.test", client.WithHTTPClient(&http.Client{Transport: &inProcess{a: &keyedAPI{api: a}}}), client.WithRetrying(client.Retrying{Attempts: 1}))
	if err != nil {
		t.Fatal(err)
	}
	const url = "https://shop.example/hook"
	long, hour := strings.Repeat("x", 129), client.Duration(time.Hour)
	for _, r := range []client.Registration{
		{Topic: "a b", URL: url},
		{Topic: long, ID: "..", URL: url},
		{ID: "a/b", BizKey: "é ", OrderKey: "\xff", URL: url},
		{URL: "ftp://shop.example"},
		{URL: "shop.example/hook"},
		{URL: "https://user:secret@shop.example/"},
		{URL: "https:///hook"},
		{URL: "https://shop.example/a b#c"},
		{URL: "https://shop.example/" + strings.Repeat("x", 2048)},
		{URL: "https://shop.example:x/"},
		{URL: url, Pull: true},
		{URL: url, FilterLabel: "x"},
		{URL: url, Group: "g"},
		{Group: "g", Pull: true},
		{URL: url, Method: "HEAD"},
		{URL: url, Delay: -hour},
		{URL: url, Delay: 9000 * hour},
		{URL: url, Delay: hour, At: time.Unix(1767225600, 0)},
		{URL: url, TTL: -hour, Spread: 25 * hour, Timeout: -hour},
		{URL: url, TTL: 18000 * hour},
		{URL: url, Body: 1, BodyText: "1"},
		{URL: url, BodyText: "1", BodyBytes: []byte("1")},
		{URL: url, Priority: 10},
		{URL: url, Priority: -1},
		{URL: url, OnConflict: "maybe"},
		{URL: url, Labels: map[string]string{"1": "", "2": "", "3": "", "4": "", "5": "", "6": "", "7": "", "8": "", "9": ""}},
	} {
		_, err := client.InboxRow(r)
		_, refused := c.Register(t.Context(), r)
		if got, want := fieldsOf(t, err), fieldsOf(t, refused); !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("%+v: the client refuses %v, the server %v", r, got, want)
		}
	}
	if _, err := client.InboxRow(client.Registration{UID: "01JZX3V5M9T8KQ2W7R4Y6B1N0C", URL: url}); !slices.Equal(fieldsOf(t, err), []string{"/uid"}) {
		t.Errorf("with a uid: %v", err)
	}
	for _, r := range []client.Registration{
		aRegistration,
		{URL: url},
		{Topic: "größe", ID: "a.b_c:d@e-f", URL: url, Priority: 9, Delay: client.Duration(366 * 24 * time.Hour)},
		{Pull: true, BodyText: "text", Spread: hour, TTL: hour, OnConflict: client.Once, Labels: map[string]string{"a": "b"}},
		{URL: url, Method: "DELETE", At: time.Unix(1767225600, 0), BodyBytes: []byte{0}},
	} {
		row, err := client.InboxRow(r)
		if err != nil {
			t.Errorf("%+v: %v", r, err)
			continue
		}
		if got := a.call(http.MethodPost, "/v1/jobs", row, "Content-Type", "application/json"); got.Code != http.StatusCreated {
			t.Errorf("%s: the server answers %d: %s", row, got.Code, got.Body)
		}
	}
}

// fieldsOf are the wrong fields of a registration, sorted.
func fieldsOf(t *testing.T, err error) (pointers []string) {
	t.Helper()
	refused := new(client.Error)
	if !errors.As(err, &refused) || !errors.Is(err, client.ErrInvalidRequest) {
		t.Errorf("got %v, want an invalid request", err)
	}
	for _, f := range refused.Errors {
		pointers = append(pointers, f.Pointer)
	}
	slices.Sort(pointers)
	return slices.Compact(pointers)
}
