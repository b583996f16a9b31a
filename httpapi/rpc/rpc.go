// Package rpc answers gRPC, gRPC-Web and Connect by calls of the HTTP API in the same process: the
// message becomes the JSON of the call, and its answer the message. So decoding, rules, keys and limits are those
// of the API.
package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/duehook/duehook/httpapi"
	pb "github.com/duehook/duehook/httpapi/rpc/duehookv1"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/kit/memory"
)

// maxMessage bounds a request; the calls have their own limits.
const maxMessage = 20 << 20

// prefix begins the paths of all calls.
const prefix = "/duehook.v1."

// New answers the calls, and passes all other requests to the API. It reads no call of an unknown caller: known returns an
// error for one, and otherwise the request with its caller, whom the API then knows.
func New(api http.Handler, known func(*http.Request) (*http.Request, error)) http.Handler {
	calls := map[string]unary{
		"Jobs/Register":      call(api, "POST /v1/jobs", new(pb.Registration), new(pb.Job)),
		"Jobs/RegisterBatch": call(api, "POST /v1/jobs/batch", new(pb.RegisterBatchRequest), new(pb.RegisterBatchResponse)),
		"Jobs/Get":           call(api, "GET /v1/jobs/{topic}/{id}", new(pb.JobKey), new(pb.Job)),
		"Jobs/List":          call(api, "GET /v1/jobs", new(pb.ListRequest), new(pb.ListResponse)),
		"Jobs/Attempts":      call(api, "GET /v1/jobs/{topic}/{id}/attempts", new(pb.JobKey), new(pb.AttemptsResponse)),
		"Jobs/Change":        call(api, "PATCH /v1/jobs/{topic}/{id}", new(pb.Registration), new(pb.Job)),
		"Jobs/Cancel":        call(api, "DELETE /v1/jobs/{topic}/{id}", new(pb.JobKey), new(pb.Cancelled)),
		"Jobs/Run":           call(api, "POST /v1/jobs/{topic}/{id}/run", new(pb.JobKey), new(pb.Job)),
		"Jobs/Replay":        call(api, "POST /v1/jobs/{topic}/{id}/replay", new(pb.Registration), new(pb.Job)),
		"Queue/Pull":         call(api, "POST /v1/pull", new(pb.PullRequest), new(pb.PullResponse)),
		"Queue/Ack":          call(api, "POST /v1/pull/ack", new(pb.AckRequest), new(pb.Results)),
		"Queue/Nack":         call(api, "POST /v1/pull/nack", new(pb.NackRequest), new(pb.Results)),
		"Queue/Extend":       call(api, "POST /v1/pull/extend", new(pb.ExtendRequest), new(pb.Results)),
		"Mykit/Push":         call(api, "POST /push", new(pb.MykitJob), new(pb.MykitResponse)),
		"Mykit/Delete":       call(api, "GET /delete", new(pb.MykitID), new(pb.MykitResponse)),
		"Mykit/Finish":       call(api, "GET /finish", new(pb.MykitID), new(pb.MykitResponse)),
		"Mykit/ReStoreJob":   call(api, "GET /reStoreJob", new(pb.MykitID), new(pb.MykitResponse)),
		"Mykit/ReStore":      call(api, "GET /reStore", new(pb.MykitReStore), new(pb.MykitResponse)),
		"Mykit/ClearAll":     call(api, "GET /clearAll", new(pb.MykitNone), new(pb.MykitResponse)),
	}
	g := gate{api: api, known: known, refusals: connect.NewErrorWriter(), calls: calls, tools: toolsOf(api)}
	return http.HandlerFunc(g.serve)
}

// gate passes requests on to calls and tools.
type gate struct {
	api      http.Handler
	known    func(*http.Request) (*http.Request, error)
	refusals *connect.ErrorWriter
	calls    map[string]unary
	tools    map[string]http.Handler
}

func (g *gate) serve(w http.ResponseWriter, r *http.Request) {
	name, own := strings.CutPrefix(r.URL.Path, prefix)
	if call, ok := g.calls[name]; own && ok {
		g.call(encodingWriter{w, accepted}, r, call)
		return
	}
	service, _, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if tool := g.tools[service]; ok && tool != nil {
		g.tool(encodingWriter{w, identity}, r, tool, service)
		return
	}
	g.api.ServeHTTP(w, r)
}

// call answers a call. Nothing is read of the message of an unknown caller.
func (g *gate) call(w http.ResponseWriter, r *http.Request, call unary) {
	authenticated, err := g.known(r)
	if err != nil {
		g.refuse(w, r, refusal(g.api, w, r))
		return
	}
	of := &outer{writer: w, request: r}
	r = authenticated.WithContext(context.WithValue(authenticated.Context(), outerKey{}, of))
	if r, err = unpacked(r, call.in); err != nil {
		g.refuse(w, authenticated, err)
		return
	}
	call.ServeHTTP(w, r)
	if of.undo != nil && !httpapi.Sent(w, r) {
		of.undo()
	}
}

// tool answers a tool. Only the health check needs no key, as /readyz.
func (g *gate) tool(w http.ResponseWriter, r *http.Request, tool http.Handler, service string) {
	_, _, err := encodingOf(r)
	if err == nil && httpapi.Refused(r.Context()) != nil {
		err = noRoom(httpapi.Refused(r.Context()))
	}
	if err == nil && service != grpchealth.HealthV1ServiceName {
		if _, unknown := g.known(r); unknown != nil {
			err = refusal(g.api, w, r)
		}
	}
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	tool.ServeHTTP(w, r)
}

func (g *gate) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // the server would wait for the message before it answers
	}
	_ = g.refusals.Write(w, r, err) // the client is gone
}

// outer is the request that a call of the API answers.
type outer struct {
	writer  http.ResponseWriter
	request *http.Request
	undo    func() // if the client does not get the answer
}

type outerKey struct{}

// unary is a call with one message and one answer.
type unary struct {
	http.Handler
	in proto.Message // the type of the message
}

// message is the request or the answer of any call. Connect's handlers are generic: with a type for all
// calls, the compiler copies them once.
type message struct{ proto.Message }

// like is an empty message of the same type.
func like(m proto.Message) message { return message{m.ProtoReflect().New().Interface()} }

// call is a handler that answers with a call of the API, such as "GET /v1/jobs/{topic}/{id}".
func call(api http.Handler, route string, in, out proto.Message) unary {
	method, path, _ := strings.Cut(route, " ")
	return unary{in: in, Handler: connect.NewUnaryHandler(prefix, func(ctx context.Context, r *connect.Request[message]) (*connect.Response[message], error) {
		m := like(out)
		answer := connect.NewResponse(&m)
		if err := pass(ctx, api, method, path, r.Msg, m, answer.Header()); err != nil {
			return nil, err
		}
		return answer, nil
	}, connect.WithRequestInitializer(func(_ connect.Spec, m any) error {
		*m.(*message) = like(in)
		return nil
	}), connect.WithReadMaxBytes(maxMessage), uncompressed, connect.WithCodec(binary{}), connect.WithCodec(strictJSON("json")), connect.WithCodec(strictJSON("json; charset=utf-8")))}
}

// uncompressed leaves compressed messages to unpacked: few bytes must not become many.
var uncompressed = connect.WithCompression("gzip", nil, nil)

// refusal is the API's error for a caller who is not known.
func refusal(api http.Handler, w http.ResponseWriter, r *http.Request) error {
	call, err := request(r.Context(), r, http.MethodGet, "/v1/whoami", &pb.MykitNone{})
	if err != nil {
		return err
	}
	a := newAnswer(w)
	api.ServeHTTP(a, call)
	return a.problem()
}

// pass makes the call.
func pass(ctx context.Context, api http.Handler, method, path string, in, out proto.Message, header http.Header) error {
	of := ctx.Value(outerKey{}).(*outer)
	r, err := request(ctx, of.request, method, path, in)
	if err != nil {
		return err
	}
	w := newAnswer(of.writer)
	w.of, w.hold = of, memory.Of(ctx)
	api.ServeHTTP(w, r)
	if w.refused != nil {
		return noRoom(w.refused)
	}
	if w.Status > 299 {
		return w.problem()
	}
	if err := lenient.Unmarshal(w.Body.Bytes(), out); err != nil {
		return connect.NewError(connect.CodeInternal, fmt.Errorf("encode the answer: %w", err))
	}
	for _, name := range passedBack {
		if values := w.Header().Values(name); len(values) > 0 {
			header[name] = values
		}
	}
	return nil
}

// strictJSON refuses unknown members, as the API does. Connect's own codec of that name ignores them.
type strictJSON string

func (s strictJSON) Name() string                { return string(s) }
func (strictJSON) Marshal(m any) ([]byte, error) { return protojson.Marshal(m.(proto.Message)) }
func (strictJSON) Unmarshal(data []byte, m any) error {
	if jsonio.Parts(data, maxParts) > maxParts {
		return errTooManyParts
	}
	return protojson.Unmarshal(data, m.(proto.Message))
}

var (
	lenient = protojson.UnmarshalOptions{DiscardUnknown: true}
	strict  = protojson.MarshalOptions{UseProtoNames: true}
	// passedOn and passedBack are the headers that calls of the API read and set.
	passedOn   = []string{"Authorization", "Idempotency-Key", "If-Match", "If-None-Match", "Traceparent", "Tracestate", "X-Request-Id", "Origin", "Sec-Fetch-Site"}
	passedBack = []string{"Etag", "X-Request-Id"}

	pathName = regexp.MustCompile(`\{([a-z]+)\}`)
)

// request is the call of the API. Fields of the message that its path names go there, the others into
// the query of a GET, otherwise into the body.
func request(ctx context.Context, from *http.Request, method, path string, in proto.Message) (*http.Request, error) {
	text, err := strict.Marshal(in)
	if err != nil { // such as a google.protobuf.Value without a value, or a number that is none
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the message has no form in JSON: %w", err))
	}
	body := text
	if inQuery := method == http.MethodGet || method == http.MethodDelete; inQuery || strings.Contains(path, "{") {
		if path, body, err = spread(path, text, inQuery); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, name := range passedOn {
		if values := from.Header.Values(name); len(values) > 0 {
			r.Header[name] = values
		}
	}
	if body != nil {
		r.Header.Set("Content-Type", httpapi.MIMEJSON)
	}
	r.Host, r.RemoteAddr, r.RequestURI, r.TLS = from.Host, from.RemoteAddr, path, from.TLS
	return r, nil
}

// spread moves fields of a message into the path that names them, and the others into the query; otherwise they are the body.
func spread(path string, text []byte, inQuery bool) (to string, body []byte, err error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", nil, err
	}
	to = pathName.ReplaceAllStringFunc(path, func(name string) string {
		name = strings.Trim(name, "{}")
		value := texts(fields[name])
		delete(fields, name)
		if len(value) == 0 || value[0] == "" {
			return "%20" // no name: the API says which one is wrong
		}
		return url.PathEscape(value[0])
	})
	if inQuery {
		query := url.Values{}
		for name, value := range fields {
			query[name] = texts(value)
		}
		return to + "?" + query.Encode(), nil, nil
	}
	body, err = json.Marshal(fields)
	return to, body, err
}

// texts are the values of a field for a path or a query.
func texts(value json.RawMessage) (all []string) {
	if len(value) > 0 && value[0] == '[' {
		var list []json.RawMessage
		_ = json.Unmarshal(value, &list) // it was encoded before
		for _, one := range list {
			all = append(all, texts(one)...)
		}
		return all
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	return []string{text}
}

// answer is the answer of the API.
type answer struct {
	*httpapi.Kept
	of    *outer // nil for a refusal
	outer http.ResponseWriter
	hold  *memory.Hold
	// refused is why there was no room for the whole body.
	refused error
}

func newAnswer(outer http.ResponseWriter) *answer {
	return &answer{Kept: httpapi.NewKept(new(bytes.Buffer)), outer: outer}
}

// Write counts the answer as often as it is held: as JSON, as a message, and encoded.
func (a *answer) Write(p []byte) (int, error) {
	if err := a.hold.Add(answerWeight * int64(len(p))); err != nil {
		a.refused = err
		return 0, err
	}
	return a.Body.Write(p)
}

// answerWeight is how many times the bytes of an answer count.
const answerWeight = 6

func (a *answer) Unwrap() http.ResponseWriter { return a.outer } // for its deadlines
func (a *answer) Defer(undo func())           { a.of.undo = undo }

// codes are the codes of HTTP statuses.
var codes = map[int]connect.Code{
	http.StatusBadRequest: connect.CodeInvalidArgument, http.StatusUnprocessableEntity: connect.CodeInvalidArgument,
	http.StatusRequestEntityTooLarge: connect.CodeInvalidArgument,
	http.StatusUnauthorized:          connect.CodeUnauthenticated, http.StatusForbidden: connect.CodePermissionDenied,
	http.StatusNotFound: connect.CodeNotFound, http.StatusConflict: connect.CodeFailedPrecondition,
	http.StatusPreconditionFailed: connect.CodeAborted, http.StatusTooManyRequests: connect.CodeResourceExhausted,
	http.StatusServiceUnavailable: connect.CodeUnavailable,
}

// Codes of the API for which the status says too little.
var codesByName = map[string]connect.Code{
	httpapi.CodeJobExists.Name: connect.CodeAlreadyExists, httpapi.CodeNotFound.Name: connect.CodeUnimplemented,
}

// problem is the error of an answer, with the API's as its detail.
func (a *answer) problem() error {
	p := &pb.Problem{}
	if err := lenient.Unmarshal(a.Body.Bytes(), p); err != nil || p.Code == "" {
		p = &pb.Problem{Status: int32(a.Status), Detail: strings.TrimSpace(a.Body.String())}
	}
	code, known := codesByName[p.Code]
	if !known {
		if code, known = codes[a.Status]; !known {
			code = connect.CodeInternal
		}
	}
	text := p.Detail
	for _, f := range p.Errors {
		text += " " + f.Pointer + " " + f.Message + "."
	}
	err := connect.NewError(code, errors.New(text))
	if detail, failed := connect.NewErrorDetail(p); failed == nil {
		err.AddDetail(detail)
	}
	for _, name := range []string{"Retry-After", "X-Request-Id"} {
		if value := a.Header().Get(name); value != "" {
			err.Meta().Set(name, value)
		}
	}
	return err
}
