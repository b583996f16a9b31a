package dispatcher

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
)

// received is one request as a receiver saw it.
type received struct {
	method string
	header http.Header
	body   string
	length int64
}

// recorder is a receiver that keeps what it is sent.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func recorder(t *testing.T) (url string, requests <-chan received) {
	t.Helper()
	ch := make(chan received, 100)
	url = serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read the request: %v", err)
		}
		ch <- received{method: r.Method, header: r.Header, body: string(body), length: r.ContentLength}
	})
	return url, ch
}

func TestDeliveryCarriesTheDocumentedHeaders(t *testing.T) {
	url, requests := recorder(t)
	due := time.Date(2030, 3, 4, 5, 6, 7, 89_000_000, time.UTC)
	j := newJob("order-1", url+"/hook?x=1")
	j.NextAt = job.InstantOf(due)
	j.Attempts = 2
	j.Spec.Headers = []job.Header{{Name: "X-Tenant", Value: "acme"}, {Name: "duehook-attempt", Value: "99"}}
	j.Spec.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	c := claimOf(j)

	o, health := realSender(t, Options{AllowCIDRs: loopback(), Version: "1.2.3"}).send(t.Context(), c)
	if o.Kind != job.OutcomeDelivered || health != nil {
		t.Fatalf("%+v, %v", o, health)
	}
	got := next(t, requests, "request")
	timestamp, err := strconv.ParseInt(got.header.Get("webhook-timestamp"), 10, 64)
	if err != nil || timestamp != o.Attempt.StartedAt.Time().Unix() {
		t.Errorf("webhook-timestamp %d (%v), want the attempt's start %v", timestamp, err, o.Attempt.StartedAt.Time())
	}
	got.header.Del("webhook-timestamp")
	want := received{
		method: "POST", body: `{"order":1}`, length: 11,
		header: headers(
			"Content-Length", "11",
			"Content-Type", "application/json",
			"X-Tenant", "acme",
			"Traceparent", j.Spec.Traceparent,
			"User-Agent", "duehook/1.2.3",
			"Webhook-Id", "uid-order-1",
			"Duehook-Topic", "orders",
			"Duehook-Job-Id", "order-1",
			"Duehook-Attempt", "3",
			"Duehook-Due-At", "2030-03-04T05:06:07.089Z",
		),
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(received{})); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if o.Attempt.Number != 3 {
		t.Errorf("attempt number %d, want 3", o.Attempt.Number)
	}
}

// A counted job carries its count, also a count of zero.
func TestDeliveryCarriesTheCount(t *testing.T) {
	url, requests := recorder(t)
	s := realSender(t, Options{AllowCIDRs: loopback()})
	for counted, want := range map[int64]string{0: "0", 105: "105", -1: ""} {
		j := newJob("digest", url)
		if counted >= 0 {
			j.Spec.Count, j.Counted = &job.Count{Target: 100}, counted
		}
		if o, _ := s.send(t.Context(), claimOf(j)); o.Kind != job.OutcomeDelivered {
			t.Fatalf("%+v", o.Attempt)
		}
		if got := next(t, requests, "request").header.Get("Duehook-Count"); got != want {
			t.Errorf("Duehook-Count is %q, want %q", got, want)
		}
	}
}

func TestMethodsAndBodies(t *testing.T) {
	url, requests := recorder(t)
	s := realSender(t, Options{AllowCIDRs: loopback()})
	for _, tt := range []struct{ method, body string }{
		{"", ""}, {"PUT", ""}, {"PATCH", "x"}, {"POST", "\x00\xff binary"},
	} {
		j := newJob("m", url)
		j.Spec.Method, j.Spec.Body, j.Spec.ContentType = tt.method, []byte(tt.body), ""
		if o, _ := s.send(t.Context(), claimOf(j)); o.Kind != job.OutcomeDelivered {
			t.Fatalf("%+v: %+v", tt, o.Attempt)
		}
		got := next(t, requests, "request")
		if got.body != tt.body || got.length != int64(len(tt.body)) {
			t.Errorf("%+v: body %q of length %d", tt, got.body, got.length)
		}
		if want := max(tt.method, ""); want != "" && got.method != want || want == "" && got.method != "POST" {
			t.Errorf("%+v: method %s", tt, got.method)
		}
		if ct, ok := got.header["Content-Type"]; ok {
			t.Errorf("%+v: content type %v", tt, ct)
		}
	}
}

// Headers are ASCII, whatever a job's names are.
func TestNamesInHeaders(t *testing.T) {
	at, requests := recorder(t)
	s := realSender(t, Options{AllowCIDRs: loopback()})
	for name, want := range map[string]string{
		"A-Z.a_z:0@9": "A-Z.a_z:0@9", "订单-1": "%E8%AE%A2%E5%8D%95-1", "cafe\u0301": "cafe%CC%81",
	} {
		j := newJob(name, at)
		j.Topic = name
		if o, _ := s.send(t.Context(), claimOf(j)); o.Kind != job.OutcomeDelivered {
			t.Fatalf("%s: %+v", name, o.Attempt)
		}
		got := next(t, requests, "request").header
		if topic, id := got.Get("Duehook-Topic"), got.Get("Duehook-Job-Id"); topic != want || id != want {
			t.Errorf("%s: topic %q, id %q, want %q", name, topic, id, want)
		}
		if back, err := url.PathUnescape(want); err != nil || back != name {
			t.Errorf("%s is read back as %q, %v", name, back, err)
		}
	}
}

type signer func(topic, id string, at time.Time, body []byte) (string, error)

func (f signer) Sign(_ context.Context, topic, id string, at time.Time, body []byte) (string, error) {
	return f(topic, id, at, body)
}

func TestSignerSignsEachAttempt(t *testing.T) {
	url, requests := recorder(t)
	s := realSender(t, Options{AllowCIDRs: loopback(), Signer: signer(
		func(topic, id string, at time.Time, body []byte) (string, error) {
			return topic + "," + strings.ReplaceAll(id, "\n", "|") + "," + strconv.FormatInt(at.Unix(), 10) + "," + string(body), nil
		})})
	o, _ := s.send(t.Context(), claimOf(newJob("s", url)))
	got := next(t, requests, "request").header
	want := "orders,uid-s," + got.Get("webhook-timestamp") + `,{"order":1}`
	if o.Kind != job.OutcomeDelivered || got.Get("webhook-signature") != want {
		t.Errorf("signature %q, want %q", got.Get("webhook-signature"), want)
	}
	want = "orders,topic:orders|uid-s," + got.Get("webhook-timestamp") + ","
	if of := got.Get("Duehook-Topic-Signature"); of != want {
		t.Errorf("the topic is signed as %q, want %q", of, want)
	}
}

func TestUnsignedRequestIsNotSent(t *testing.T) {
	url, requests := recorder(t)
	s := realSender(t, Options{AllowCIDRs: loopback(), Signer: signer(
		func(string, string, time.Time, []byte) (string, error) { return "", errors.New("no secret") })})
	o, health := s.send(t.Context(), claimOf(newJob("s", url)))
	want := job.Outcome{Kind: job.OutcomeReleased, Reason: reasonUnsigned, After: unsentPause}
	if diff := cmp.Diff(want, o); diff != "" || !errors.Is(health, errExcluded) {
		t.Errorf("outcome (-want +got):\n%s health %v", diff, health)
	}
	if len(requests) != 0 {
		t.Error("it was sent all the same")
	}
}

func TestPathsAreSentByteForByte(t *testing.T) {
	var got string
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	s := realSender(t, Options{AllowCIDRs: loopback()})
	for path, want := range map[string]string{
		"/a|b%2Fc": "/a%7Cb%2Fc", "/a^b/%2e%2e/x": "/a%5Eb/%2e%2e/x", "/{a}/%2f%7e?b=c|d%2F": "/%7Ba%7D/%2f%7e?b=c%7Cd%2F",
		"//a/./b/../c;d": "//a/./b/../c;d", "/[a]%5b?": "/[a]%5b?", "": "/",
	} {
		_, _ = s.send(t.Context(), claimOf(newJob("p", url+path)))
		if got != want {
			t.Errorf("%s was sent as %s, want %s", path, got, want)
		}
	}
}
