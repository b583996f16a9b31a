package rpc_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/rpc"
	pb "github.com/duehook/duehook/httpapi/rpc/duehookv1"
)

// post sends a message to a call in Connect's form, and returns the status and the answer.
func (c *client) post(call, mediaType, encoding string, body io.Reader) (int, string) {
	c.T.Helper()
	status, _, text := c.connect(call, mediaType, encoding, body)
	return status, text
}

// connect is post with the header of the answer.
func (c *client) connect(call, mediaType, encoding string, body io.Reader) (int, http.Header, string) {
	c.T.Helper()
	req, err := http.NewRequestWithContext(c.T.Context(), http.MethodPost, c.Base+"/duehook.v1."+call, body)
	if err != nil {
		c.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set("Content-Type", mediaType)
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		c.T.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.T.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// field is an encoded field whose value is a message or a text.
func field(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

// A few megabytes must not become gigabytes in memory.
func TestMessagesThatGrow(t *testing.T) {
	c := newClient(t)
	const many = 600_000
	empty := field(1, nil)
	deep := field(4, []byte("x")) // a text of a Value
	for range 1_000 {
		deep = field(6, field(1, deep)) // a list in a Value
	}
	for name, tt := range map[string]struct {
		call, mediaType string
		message         []byte
		want            string
	}{
		"registrations":            {"Jobs/RegisterBatch", "application/proto", bytes.Repeat(empty, many), "more than 500000 fields"},
		"few, but large in memory": {"Jobs/RegisterBatch", "application/proto", bytes.Repeat(empty, 6_000), "more than 500000 fields"},
		"objects in JSON":          {"Jobs/RegisterBatch", "application/json", []byte(`{"jobs":[` + strings.Repeat("{},", 60_000) + "{}]}"), "more than 500000 fields"},
		"values":                   {"Jobs/Register", "application/proto", field(11, field(6, bytes.Repeat(empty, many))), "more than 500000 fields"},
		"nesting":                  {"Jobs/Register", "application/proto", field(11, deep), "levels deep"},
		"JSON":                     {"Jobs/RegisterBatch", "application/json", []byte(`{"jobs":[` + strings.Repeat("{},", many) + "{}]}"), "more than 500000 fields"},
		"values in JSON": {
			"Jobs/Register", "application/json; charset=utf-8", []byte(`{"body":[` + strings.Repeat("0,", many) + "0]}"), "more than 500000 fields",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if code, text := c.post(tt.call, tt.mediaType, "", bytes.NewReader(tt.message)); code != http.StatusBadRequest || !strings.Contains(text, tt.want) {
				t.Errorf("%d %.300s", code, text)
			}
		})
	}
	for name, body := range map[string][]byte{"no value": nil, "not a number": append([]byte{17}, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f)} {
		if code, text := c.post("Jobs/Register", "application/proto", "", bytes.NewReader(field(11, body))); code != http.StatusBadRequest || !strings.Contains(text, "no form in JSON") {
			t.Errorf("%s: %d %.300s", name, code, text)
		}
	}
	for mediaType, message := range map[string][]byte{
		"application/proto": bytes.Repeat(empty, 1_000), "application/json": []byte(`{"jobs":[` + strings.Repeat("{},", 999) + "{}]}"),
	} {
		if code, text := c.post("Jobs/RegisterBatch", mediaType, "", bytes.NewReader(message)); code != http.StatusOK {
			t.Errorf("as many registrations as allowed: %d %.300s", code, text)
		}
	}
}

// zip is a text in gzip.
func zip(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(text)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// frame is a message of gRPC.
func frame(compressed byte, message []byte) []byte {
	return append([]byte{compressed, byte(len(message) >> 24), byte(len(message) >> 16), byte(len(message) >> 8), byte(len(message))}, message...)
}

// grpc sends a framed message over HTTP/2, and returns the header and the trailer of the answer.
func (c *client) grpc(call, encoding string, body []byte) (header, trailer http.Header) {
	c.T.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(c.T.Context(), http.MethodPost, c.Base+"/"+call, bytes.NewReader(body))
	if err != nil {
		c.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set("Content-Type", "application/grpc")
	if encoding != "" {
		req.Header.Set("Grpc-Encoding", encoding)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		c.T.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		c.T.Fatal(err)
	}
	if resp.Trailer.Get("Grpc-Status") == "" {
		return resp.Header, resp.Header // an answer without a message
	}
	return resp.Header, resp.Trailer
}

// Messages may come in gzip. Other encodings are unimplemented, and the answer says which ones are not.
func TestEncodings(t *testing.T) {
	c := newClient(t)
	registration, err := proto.Marshal(&pb.Registration{Topic: new("order"), Url: new(c.Receiver.URL), Delay: new("1h")})
	if err != nil {
		t.Fatal(err)
	}
	const call, health, reflection = "duehook.v1.Jobs/Register", "grpc.health.v1.Health/Check", "grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	for name, tt := range map[string]struct {
		call, encoding string
		body           []byte
		want           codes.Code
		accepted       string
	}{
		"plain":                       {call, "", frame(0, registration), codes.OK, "identity,gzip"},
		"identity":                    {call, "identity", frame(0, registration), codes.OK, "identity,gzip"},
		"gzip":                        {call, "gzip", frame(1, zip(t, registration)), codes.OK, "identity,gzip"},
		"gzip, but not this message":  {call, "gzip", frame(0, registration), codes.OK, "identity,gzip"},
		"no gzip":                     {call, "gzip", frame(1, registration), codes.InvalidArgument, "identity,gzip"},
		"cut gzip":                    {call, "gzip", frame(1, zip(t, registration)[:20]), codes.InvalidArgument, "identity,gzip"},
		"a compressed one by nothing": {call, "", frame(1, zip(t, registration)), codes.Internal, "identity,gzip"},
		"snappy":                      {call, "snappy", frame(1, registration), codes.Unimplemented, "identity,gzip"},
		"br":                          {call, "br", frame(1, registration), codes.Unimplemented, "identity,gzip"},
		"two":                         {call, "gzip,br", frame(1, registration), codes.Unimplemented, "identity,gzip"},
		"a probe in gzip":             {health, "gzip", frame(1, zip(t, nil)), codes.Unimplemented, "identity"},
		"a description in br":         {reflection, "br", frame(1, nil), codes.Unimplemented, "identity"},
	} {
		header, trailer := c.grpc(tt.call, tt.encoding, tt.body)
		if trailer.Get("Grpc-Status") != strconv.Itoa(int(tt.want)) {
			t.Errorf("%s: %v %v, want %v", name, header, trailer, tt.want)
		}
		if _, empty := header["Grpc-Encoding"]; empty || header.Get("Grpc-Accept-Encoding") != tt.accepted {
			t.Errorf("%s: %v", name, header)
		}
	}
	if code, header, text := c.connect("Jobs/Register", "application/proto", "gzip", bytes.NewReader(zip(t, registration))); code != http.StatusOK || header.Get("Accept-Encoding") != "identity,gzip" {
		t.Errorf("Connect in gzip: %d %v %s", code, header, text)
	}
	if code, text := c.post("Jobs/Register", "application/json", "gzip", bytes.NewReader(zip(t, []byte(`{"topic":"order","url":"`+c.Receiver.URL+`"}`)))); code != http.StatusOK {
		t.Errorf("Connect's JSON in gzip: %d %s", code, text)
	}
	for _, encoding := range []string{"br", "deflate"} {
		if code, header, text := c.connect("Jobs/Register", "application/proto", encoding, bytes.NewReader(registration)); code != http.StatusNotImplemented ||
			!strings.Contains(text, `"unimplemented"`) || header.Get("Accept-Encoding") != "identity,gzip" {
			t.Errorf("Connect in %s: %d %v %s", encoding, code, header, text)
		}
	}
}

// What comes out of gzip counts as it comes: 18 KB must not become as many megabytes.
func TestZippedMessagesThatGrow(t *testing.T) {
	c := newClient(t)
	large := zip(t, field(1, bytes.Repeat([]byte{'x'}, 18<<20)))
	if code, text := c.post("Jobs/Register", "application/proto", "gzip", bytes.NewReader(large)); code != http.StatusTooManyRequests || !strings.Contains(text, "--memory-budget") {
		t.Errorf("Connect: %d %.300s", code, text)
	}
	if _, trailer := c.grpc("duehook.v1.Jobs/RegisterBatch", "gzip", frame(1, large)); trailer.Get("Grpc-Status") != strconv.Itoa(int(codes.ResourceExhausted)) {
		t.Errorf("gRPC: %v", trailer)
	}
}

// A caller without a valid key is refused before its message is read.
func TestUnknownCallersAreNotRead(t *testing.T) {
	c := newClient(t)
	c.Token = "wrong"
	endless, end := io.Pipe() // nobody writes to it
	defer func() { _ = end.Close() }()
	if code, text := c.post("Jobs/RegisterBatch", "application/proto", "", endless); code != http.StatusUnauthorized || !strings.Contains(text, "duehook.v1.Problem") {
		t.Errorf("%d %s", code, text)
	}
	if err := c.invoke("Queue/Pull", &pb.PullRequest{Topics: []string{strings.Repeat("x", 1<<20)}}, &pb.Job{}); status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
}

// A server that is busy with large messages is unavailable, so that clients try again.
func TestBusyWithLargeMessages(t *testing.T) {
	api := rpc.New(http.NotFoundHandler(), func(r *http.Request) (*http.Request, error) { return r, nil })
	for _, mediaType := range []string{"application/json", "application/grpc"} {
		r := httptest.NewRequest(http.MethodPost, "/duehook.v1.Jobs/Register", iotest.ErrReader(&httpapi.Error{Code: httpapi.CodeStoreUnavailable, Detail: "busy"}))
		r.Header.Set("Content-Type", mediaType)
		w := httptest.NewRecorder()
		if api.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable && w.Result().Trailer.Get("Grpc-Status") != strconv.Itoa(int(codes.Unavailable)) {
			t.Errorf("%s: %d %s %v", mediaType, w.Code, w.Body, w.Result().Trailer)
		}
	}
}
