package job_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
)

func headersOf(h map[string]string) ([]job.Header, error) {
	d := job.Draft{Destination: ptr(job.Destination("http://a")), Headers: h}
	r, err := d.Registration(limits, now)
	return r.Spec.Headers, err
}

func many(n int, name string, size int) map[string]string {
	h := map[string]string{}
	for i := range n {
		h[fmt.Sprintf("%s%02d", name, i)] = strings.Repeat("v", size)
	}
	return h
}

func TestHeadersRefused(t *testing.T) {
	one := func(name, value string) map[string]string { return map[string]string{name: value} }
	tests := []struct {
		headers map[string]string
		where   string
		why     string
	}{
		{one("", ""), "headers.", "characters that HTTP allows"},
		{one("a b", ""), "headers.a b", "characters that HTTP allows"},
		{one("a:", ""), "headers.a:", "characters that HTTP allows"},
		{one("a\r\nb", ""), "headers.a\r\nb", "characters that HTTP allows"},
		{one("é", ""), "headers.é", "characters that HTTP allows"},
		{one("a/b~c", ""), "headers.a/b~c", "characters that HTTP allows"},
		{one(strings.Repeat("n", 129), ""), "headers." + strings.Repeat("n", 128), "at most 128"},
		{one("X", strings.Repeat("v", 4097)), "headers.X", "at most 4096"},
		{one("X", "a\nb"), "headers.X", "control characters"},
		{one("X", "a\rb"), "headers.X", "control characters"},
		{one("X", "a\x00b"), "headers.X", "control characters"},
		{one("X", "a\x7f"), "headers.X", "control characters"},
		{one("X", "a\u0085b"), "headers.X", "control characters"},
		{one("X", " a"), "headers.X", "begin or end"},
		{one("X", "a\t"), "headers.X", "begin or end"},
		{one("connection", "close"), "headers.connection", "one connection only"},
		{one("Keep-Alive", "1"), "headers.Keep-Alive", "one connection only"},
		{one("proxy-authorization", "x"), "headers.proxy-authorization", "one connection only"},
		{one("PROXY-ANYTHING", "x"), "headers.PROXY-ANYTHING", "one connection only"},
		{one("TE", "trailers"), "headers.TE", "one connection only"},
		{one("Trailer", "x"), "headers.Trailer", "one connection only"},
		{one("Transfer-Encoding", "chunked"), "headers.Transfer-Encoding", "one connection only"},
		{one("Upgrade", "h2c"), "headers.Upgrade", "one connection only"},
		{one("HTTP2-Settings", "x"), "headers.HTTP2-Settings", "one connection only"},
		{one("transfer_encoding", "chunked"), "headers.transfer_encoding", "one connection only"},
		{one("Duehook_Topic", "x"), "headers.Duehook_Topic", "duehook sets it"},
		{one("Expect", "100-continue"), "headers.Expect", "controls the connection"},
		{one("host", "b"), "headers.host", "from the URL"},
		{one("content-length", "1"), "headers.content-length", "from the body"},
		{one("content-type", "a/b"), "headers.content-type", "use content_type"},
		{one("user-agent", "x"), "headers.user-agent", "duehook sets it"},
		{one("traceparent", "x"), "headers.traceparent", "registration's own"},
		{one("webhook-id", "x"), "headers.webhook-id", "duehook sets it"},
		{one("Webhook-Anything", "x"), "headers.Webhook-Anything", "duehook sets it"},
		{one("duehook-topic", "x"), "headers.duehook-topic", "duehook sets it"},
		{one("Webhook.Id", "x"), `headers.Webhook\.Id`, "duehook sets it"},
		{one("webhook~signature", "x"), "headers.webhook~signature", "duehook sets it"},
		{one("DUEHOOK!Topic", "x"), "headers.DUEHOOK!Topic", "duehook sets it"},
		{one("content.type", "x"), `headers.content\.type`, "use content_type"},
		{one("tracestate", "x"), "headers.tracestate", "registration's own"},
		{map[string]string{"X-A": "1", "x-a": "1"}, "headers.x-a", "given twice"},
		{many(65, "x", 1), "headers", "at most 64 entries"},
		{many(5, "x", 4000), "headers", "at most 16384 bytes"},
	}
	for _, tt := range tests {
		_, err := headersOf(tt.headers)
		fields := complaints(t, err)
		if len(fields) != 1 || !strings.Contains(fields[tt.where], tt.why) {
			t.Errorf("%.60q: refused for %v; want %s: …%s…", slices.Sorted(maps.Keys(tt.headers)), fields, tt.where, tt.why)
		}
	}
}

func TestHeadersAllowed(t *testing.T) {
	for _, h := range []map[string]string{
		many(64, "x", 200),
		{"X": strings.Repeat("v", 4096)},
		{strings.Repeat("n", 128): "v"},
		{"Webhook": "v", "Proxy": "v", "Cookie": "a=b", "Accept-Encoding": "gzip", "!#$%&'*+.^_`|~": "v"},
	} {
		got, err := headersOf(h)
		if err != nil || len(got) != len(h) {
			t.Errorf("%d headers became %d: %v", len(h), len(got), err)
		}
		if !slices.IsSortedFunc(got, func(a, b job.Header) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("not sorted: %v", got)
		}
	}
}

// Names do not depend on case, so neither may the content.
func TestHeadersAreCanonical(t *testing.T) {
	a, errA := headersOf(map[string]string{"x-b": "1", "X-A": "2"})
	b, errB := headersOf(map[string]string{"X-B": "1", "x-a": "2"})
	if diff := gocmp.Diff(a, b); diff != "" || errA != nil || errB != nil {
		t.Errorf("%v, %v\n%s", errA, errB, diff)
	}
}
