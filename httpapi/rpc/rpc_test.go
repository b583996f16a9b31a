package rpc_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/rpc"
	pb "github.com/duehook/duehook/httpapi/rpc/duehookv1"
	v1 "github.com/duehook/duehook/httpapi/v1"
	"github.com/duehook/duehook/internal/testing/fronts"
)

// client is a client of gRPC without TLS.
type client struct {
	*fronts.Server
	conn *grpc.ClientConn
}

func newClient(t *testing.T) *client {
	t.Helper()
	s := fronts.Start(t, "mykit", "order")
	conn, err := grpc.NewClient(strings.TrimPrefix(s.Base, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{s, conn}
}

func (c *client) invoke(method string, in, out proto.Message) error {
	ctx, cancel := context.WithTimeout(c.T.Context(), 30*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.Token)
	return c.conn.Invoke(ctx, "/duehook.v1."+method, in, out)
}

func (c *client) want(method string, in, out proto.Message) {
	c.T.Helper()
	if err := c.invoke(method, in, out); err != nil {
		c.T.Fatalf("%s: %v", method, err)
	}
}

// A job lives by gRPC as it does by the HTTP API.
func TestJobs(t *testing.T) {
	c := newClient(t)
	body, err := structpb.NewValue(map[string]any{"order": 8812, "name": "é"})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	registration := &pb.Registration{
		Topic: new("order"), Id: new("o-1"), Url: new(c.Receiver.URL + "/order"), At: timestamppb.New(at), Body: body,
		Headers: map[string]string{"X-Tenant": "acme"}, Retry: &pb.Retry{Steps: []string{"1s"}, Limit: new(int32(0))}, Labels: map[string]string{"a": "1"},
	}
	var j pb.Job
	c.want("Jobs/Register", registration, &j)
	if j.GetResult() != "created" || j.GetState() != "waiting" || !j.GetDueAt().AsTime().Equal(at) || j.GetLabels()["a"] != "1" || j.GetMaxAttempts() != 1 {
		t.Errorf("registered %v", &j)
	}
	c.want("Jobs/Register", registration, &j)
	if j.GetResult() != "same" {
		t.Errorf("registered again: %v", &j)
	}
	const over = `{"topic":"order","id":"o-1","at":%d,"headers":{"x-tenant":"acme"},"retry":{"limit":0,"steps":[1]},"labels":{"a":"1"},"url":%q,"body":{"order":8812,"name":"é"}}`
	status, answer := c.Call("POST", "/v1/jobs", http.Header{"Content-Type": {"application/json"}}, fmt.Sprintf(over, at.UnixMilli(), c.Receiver.URL+"/order"))
	if status != 200 || !strings.Contains(string(answer), `"result":"same"`) {
		t.Errorf("registered again over HTTP: %d %s", status, answer)
	}
	key := &pb.JobKey{Topic: "order", Id: "o-1"}
	c.want("Jobs/Change", &pb.Registration{Topic: new("order"), Id: new("o-1"), Priority: new(int32(9))}, &j)
	var list pb.ListResponse
	c.want("Jobs/List", &pb.ListRequest{Topic: new("order"), State: []string{"waiting", "dead"}, Limit: new(int32(5))}, &list)
	if len(list.GetData()) != 1 || list.GetData()[0].GetPriority() != 9 {
		t.Errorf("listed %v", &list)
	}
	c.want("Jobs/Run", key, &j)
	d := c.Await("/order", func(fronts.Delivery) bool { return true })
	var got any
	if err := json.Unmarshal(d.Content, &got); err != nil || fmt.Sprint(got) != "map[name:é order:8812]" || d.Header.Get("X-Tenant") != "acme" {
		t.Errorf("delivered %s", d.Content)
	}
	var attempts pb.AttemptsResponse
	for attempts.GetData() == nil {
		c.want("Jobs/Attempts", key, &attempts)
	}
	if attempts.GetData()[0].GetStatus() != 200 {
		t.Errorf("attempts %v", &attempts)
	}
	c.want("Jobs/Get", key, &j)
	if j.GetState() != "delivered" {
		t.Errorf("got %v", &j)
	}
	c.want("Jobs/Replay", &pb.Registration{Topic: new("order"), Id: new("o-1"), BodyBase64: []byte{0xff, 0}, Delay: new("1h")}, &j)
	var ended pb.Cancelled
	c.want("Jobs/Cancel", key, &ended)
	if j.GetState() != "waiting" || ended.GetResult() != "cancelled" {
		t.Errorf("replayed %v, cancelled %v", &j, &ended)
	}
	var batch pb.RegisterBatchResponse
	c.want("Jobs/RegisterBatch", &pb.RegisterBatchRequest{Jobs: []*pb.Registration{{Id: new("b"), Pull: new(true)}, {Id: new("a b")}}}, &batch)
	if r := batch.GetResults(); len(r) != 2 || r[0].GetStatus() != 201 || r[0].GetJob().GetId() != "b" || r[1].GetError().GetCode() != "invalid_request" {
		t.Errorf("a batch: %v", &batch)
	}
}

// An error has the code that fits, and the API's problem.
func TestErrors(t *testing.T) {
	c := newClient(t)
	c.want("Jobs/Register", &pb.Registration{Topic: new("order"), Id: new("o"), Pull: new(true), Delay: new("1h")}, &pb.Job{})
	token := c.Token
	for _, tt := range []struct {
		token, method string
		in            proto.Message
		code          codes.Code
		problem       string
	}{
		{token, "Jobs/Get", &pb.JobKey{Topic: "order", Id: "none"}, codes.NotFound, "job_not_found"},
		{token, "Jobs/Get", &pb.JobKey{Topic: "a/b", Id: "x"}, codes.InvalidArgument, "invalid_request"},
		{token, "Jobs/Get", &pb.JobKey{Topic: "order"}, codes.InvalidArgument, "invalid_request"},
		{token, "Jobs/Register", &pb.Registration{Topic: new("order"), Url: new("ftp://h")}, codes.InvalidArgument, "invalid_request"},
		{token, "Jobs/Register", &pb.Registration{Topic: new("order"), Id: new("o"), Pull: new(true)}, codes.AlreadyExists, "job_exists"},
		{token, "Jobs/Replay", &pb.Registration{Topic: new("order"), Id: new("o")}, codes.FailedPrecondition, "job_in_flight"},
		{"wrong", "Jobs/Run", &pb.JobKey{Topic: "order", Id: "o"}, codes.Unauthenticated, "unauthorized"},
		{c.Reader, "Jobs/Run", &pb.JobKey{Topic: "order", Id: "o"}, codes.PermissionDenied, "forbidden"},
		{c.Reader, "Queue/Pull", &pb.PullRequest{Topics: []string{"order"}}, codes.PermissionDenied, "forbidden"},
		{c.Restricted, "Jobs/Run", &pb.JobKey{Topic: "other", Id: "o"}, codes.PermissionDenied, "forbidden"},
		{token, "Jobs/Nothing", &pb.JobKey{}, codes.Unimplemented, ""},
	} {
		c.Token = tt.token
		err := c.invoke(tt.method, tt.in, &pb.Job{})
		s := status.Convert(err)
		problem := &pb.Problem{}
		for _, d := range s.Details() {
			problem, _ = d.(*pb.Problem)
		}
		if s.Code() != tt.code || problem.GetCode() != tt.problem {
			t.Errorf("%s %v: %v, %q", tt.method, tt.in, err, problem.GetCode())
		}
	}
}

// A consumer waits for a job, extends its lease, gives it back and acknowledges it.
func TestQueue(t *testing.T) {
	c := newClient(t)
	pull := func() *pb.PulledJob {
		t.Helper()
		var pulled pb.PullResponse
		c.want("Queue/Pull", &pb.PullRequest{Topics: []string{"order"}, Wait: new("20s"), Lease: new("1m")}, &pulled)
		if len(pulled.GetJobs()) != 1 {
			t.Fatalf("pulled %v", &pulled)
		}
		return pulled.GetJobs()[0]
	}
	c.want("Jobs/Register", &pb.Registration{Topic: new("order"), Id: new("o"), Pull: new(true), Delay: new("300ms"), BodyBase64: []byte{0xff, 0}}, &pb.Job{})
	first := pull()
	if !bytes.Equal(first.GetBodyBase64(), []byte{0xff, 0}) || first.GetAttempt() != 1 || first.GetJob().GetId() != "o" {
		t.Errorf("pulled %v", first)
	}
	var results pb.Results
	result := func() string { return results.GetResults()[0].GetResult() }
	c.want("Queue/Extend", &pb.ExtendRequest{Receipts: []string{first.GetReceipt()}, Lease: new("5m")}, &results)
	c.want("Queue/Nack", &pb.NackRequest{Receipts: []*pb.Nack{{Receipt: first.GetReceipt(), Delay: new("0s"), Error: new("no")}}}, &results)
	if result() != "ok" {
		t.Errorf("nack: %v", &results)
	}
	second := pull()
	c.want("Queue/Ack", &pb.AckRequest{Receipts: []string{first.GetReceipt()}}, &results)
	if result() != "stale" {
		t.Errorf("a stale ack: %v", &results)
	}
	c.want("Queue/Ack", &pb.AckRequest{Receipts: []string{second.GetReceipt()}}, &results)
	if result() != "ok" || second.GetAttempt() != 2 {
		t.Errorf("ack: %v of %v", &results, second)
	}
}

// The dialect of mykit-delay has its calls, too.
func TestMykit(t *testing.T) {
	c := newClient(t)
	var r pb.MykitResponse
	c.want("Mykit/Push", &pb.MykitJob{Topic: new("order"), Id: new("o-1"), Delay: new(int64(600000)), Body: new("x")}, &r)
	if !r.GetSuccess() || r.GetData() != "o-1" || r.GetCode() != 200 {
		t.Errorf("pushed: %v", &r)
	}
	for method, in := range map[string]proto.Message{
		"ReStoreJob": &pb.MykitID{JobId: new("o-1")}, "ReStore": &pb.MykitReStore{Expire: new(false)}, "Delete": &pb.MykitID{JobId: new("o-1")}, "ClearAll": &pb.MykitNone{},
	} {
		if c.want("Mykit/"+method, in, &r); !r.GetSuccess() {
			t.Errorf("%s: %v", method, &r)
		}
	}
	if c.want("Mykit/Finish", &pb.MykitID{}, &r); r.GetSuccess() || r.GetMessage() != "功能暂未开放" {
		t.Errorf("finish: %v", &r)
	}
}

// JSON over HTTP/1.1, as curl sends it.
func TestJSON(t *testing.T) {
	c := newClient(t)
	h := http.Header{"Content-Type": {"application/json"}}
	status, text := c.Call("POST", "/duehook.v1.Jobs/Register", h, `{"topic":"order","id":"o","pull":true,"delay":"1h"}`)
	if status != http.StatusOK || !strings.Contains(string(text), `"state":"waiting"`) {
		t.Errorf("%d %s", status, text)
	}
	status, text = c.Call("POST", "/duehook.v1.Jobs/Get", h, `{"topic":"order","id":"none"}`)
	if status != http.StatusNotFound || !strings.Contains(string(text), `"code":"not_found"`) {
		t.Errorf("%d %s", status, text)
	}
	for _, kind := range []string{"application/json", "application/json; charset=UTF-8"} {
		h.Set("Content-Type", kind)
		status, text = c.Call("POST", "/duehook.v1.Jobs/Register", h, `{"topic":"order","pull":true,"dellay":"1h"}`)
		if status != http.StatusBadRequest || !strings.Contains(string(text), "dellay") {
			t.Errorf("%s: %d %s", kind, status, text)
		}
	}
	h.Set("Sec-Fetch-Site", "cross-site")
	if status, text = c.Call("POST", "/duehook.v1.Jobs/Run", h, `{"topic":"order","id":"o"}`); status != http.StatusForbidden {
		t.Errorf("from another site: %d %s", status, text)
	}
}

// Every call of the services is answered, and the generated code is that of the source.
func TestServices(t *testing.T) {
	c := newClient(t)
	services := pb.File_duehook_proto.Services()
	for i := range services.Len() {
		for k := range services.Get(i).Methods().Len() {
			m := services.Get(i).Methods().Get(k)
			status, text := c.Call("POST", fmt.Sprintf("/%s/%s", services.Get(i).FullName(), m.Name()), http.Header{"Content-Type": {"application/json"}}, "{}")
			if strings.Contains(string(text), "/openapi.json") {
				t.Errorf("%s: %d %s", m.FullName(), status, text)
			}
		}
	}
	source, err := os.ReadFile("duehookv1/duehook.proto")
	if err != nil {
		t.Fatal(err)
	}
	generated, err := os.ReadFile("duehookv1/duehook.pb.go")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("// Source: sha256 %x\n", sha256.Sum256(source)); !bytes.HasSuffix(generated, []byte(want)) {
		t.Error("the generated code is not current: go -C httpapi/rpc/proto run . ../duehookv1")
	}
}

// broken is the writer of a client that is gone.
type broken struct{ *httptest.ResponseRecorder }

func (broken) Write([]byte) (int, error) { return 0, errors.New("the connection is reset") }

func (broken) FlushError() error { return errors.New("the connection is reset") }

// The jobs of an answer that does not reach its consumer are due again.
func TestPulledJobsComeBack(t *testing.T) {
	var calls http.Handler
	p := fronts.NewParts(t, func(p *fronts.Parts) httpapi.Dialect {
		d, err := v1.New(v1.Options{App: p.App, Groups: p.Groups, Pulls: p.Pulls})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}, func(api http.Handler, known func(*http.Request) (*http.Request, error)) http.Handler {
		calls = rpc.New(api, known)
		return calls
	})
	h := http.Header{"Content-Type": {"application/json"}}
	p.Call(http.MethodPost, "/duehook.v1.Jobs/Register", h, `{"topic":"t","id":"a","pull":true,"retry":{"limit":0}}`)
	const pull = `{"topics":["t"],"max":5}`
	for range 3 { // no attempt is used
		r := httptest.NewRequest(http.MethodPost, "/duehook.v1.Queue/Pull", strings.NewReader(pull))
		r.Header = h.Clone()
		calls.ServeHTTP(broken{httptest.NewRecorder()}, r)
	}
	if _, got, _ := p.Call(http.MethodPost, "/duehook.v1.Queue/Pull", h, pull); !bytes.Contains(got, []byte(`"attempt":1`)) {
		t.Errorf("the job did not come back: %s", got)
	}
	if _, got, _ := p.Call(http.MethodPost, "/duehook.v1.Queue/Pull", h, pull); bytes.Contains(got, []byte(`"attempt"`)) {
		t.Errorf("an answer that arrived gave its job back: %s", got)
	}
}
