package rpc_test

import (
	"bytes"
	"compress/gzip"
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

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/rpc"
	pb "github.com/duehook/duehook/httpapi/rpc/duehookv1"
)

// post sends a message to a call in Connect's form, and returns the status and the answer.
func (c *client) post(call, mediaType, encoding string, body io.Reader) (int, string) {
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
	return resp.StatusCode, string(text)
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
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(field(1, field(1, []byte("order"))))
	_ = z.Close()
	if code, text := c.post("Jobs/RegisterBatch", "application/proto", "gzip", &b); code != http.StatusNotImplemented || !strings.Contains(text, "unknown compression") {
		t.Errorf("gzip: %d %s", code, text)
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
