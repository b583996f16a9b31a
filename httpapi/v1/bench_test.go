package v1

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
)

const typicalJob = `{"topic":"order-timeout","id":"order-8812","biz_key":"8812","url":"https://shop.example/hooks/timeout",
 "delay":"30m","body":{"order_id":8812},"headers":{"x-tenant":"acme"},"retry":{"steps":["15s","3m","10m"],"limit":3},"timeout":"10s","ttl":"2h"}`

func BenchmarkDecode(b *testing.B) {
	s := newAPI(b).v1
	large := `{"url":"https://shop.example/hooks/timeout","body":{"text":"` + strings.Repeat("lorem ipsum, ", 20_000) + `"}}`
	for name, body := range map[string]string{"typical": typicalJob, "large": large} {
		b.Run(name, func(b *testing.B) {
			data := []byte(body)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if err := jsonio.Check(data); err != nil {
					b.Fatal(err)
				}
				draft, errs := decode.Decode(data, draftFields)
				if _, err := s.prepare(draft, errs, app.Origin{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodeJob(b *testing.B) {
	s := newAPI(b).v1
	draft, errs := decode.Decode([]byte(typicalJob), draftFields)
	reg, err := s.prepare(draft, errs, app.Origin{})
	if err != nil {
		b.Fatal(err)
	}
	registered, err := s.App.Register(b.Context(), reg)
	if err != nil {
		b.Fatal(err)
	}
	j := registered[0].Job
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		if err := decode.Answer(&httpapi.Call{Request: r, Writer: discard{}}, http.StatusOK, jsonio.Shown(s.writeJob, &j)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeBatch is of 100 jobs.
func BenchmarkDecodeBatch(b *testing.B) {
	s := newAPI(b).v1
	data := []byte(`{"jobs":[` + strings.Repeat(typicalJob+",", 99) + typicalJob + `]}`)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := jsonio.Check(data); err != nil {
			b.Fatal(err)
		}
		jobs, err := batchJobs(data)
		if err != nil {
			b.Fatal(err)
		}
		for _, raw := range jobs {
			draft, errs := decode.Decode(raw, draftFields)
			if _, err := s.prepare(draft, errs, app.Origin{}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkBatch is a whole request of 1,000 jobs but for the connection and the store. Jobs that are wrong must cost less than
// right ones.
func BenchmarkBatch(b *testing.B) {
	a := newAPI(b, func(o *testOptions) { o.Logger = nil; o.Store = nullStore{o.Store} })
	wrong := func(member string) string {
		var text strings.Builder
		for i := range 32 {
			fmt.Fprintf(&text, member, i)
		}
		return strings.TrimSuffix(text.String(), ",")
	}
	for name, one := range map[string]string{
		"right": typicalJob, "type": strings.Replace(typicalJob, `"10s"`, "true", 1), "unknown": strings.Replace(typicalJob, `"ttl"`, `"tlt"`, 1),
		"right headers": `{"url":"https://shop.example","headers":{` + wrong(`"a-b%d":"x",`) + "}}",
		"many unknown":  `{"url":"https://shop.example",` + wrong(`"topik%d":1,`) + "}", "wrong headers": `{"url":"https://shop.example","headers":{` + wrong(`"a b%d":"x",`) + "}}",
	} {
		b.Run(name, func(b *testing.B) {
			body := `{"jobs":[` + strings.Repeat(one+",", 999) + one + `]}`
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/v1/jobs/batch", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				a.server.Handler().ServeHTTP(discard{}, r)
			}
		})
	}
}

// BenchmarkRegister is a whole request but for the connection and the store.
func BenchmarkRegister(b *testing.B) {
	a := newAPI(b, func(o *testOptions) { o.Logger = nil; o.Store = nullStore{o.Store} })
	bare := http.NewServeMux()
	bare.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		if _, err := (nullStore{}).Register(r.Context(), []store.Registration{{}}); err != nil {
			b.Error(err)
		}
		w.WriteHeader(http.StatusCreated)
	})
	for name, handler := range map[string]http.Handler{"duehook": a.server.Handler(), "bare": bare} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/v1/jobs", strings.NewReader(typicalJob))
				r.Header.Set("Content-Type", "application/json")
				handler.ServeHTTP(discard{}, r)
			}
		})
	}
}

// nullStore registers nothing at all.
type nullStore struct{ Store }

func (nullStore) Register(_ context.Context, regs []store.Registration) ([]store.Registered, error) {
	out := make([]store.Registered, len(regs))
	for i, r := range regs {
		out[i].Job = r.Job(1)
	}
	return out, nil
}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

// discard is a client that reads nothing.
type discard struct{}

func BenchmarkCallbackBody(b *testing.B) {
	a := newAPI(b)
	draft, errs := decode.Decode([]byte(typicalJob), draftFields)
	reg, err := a.v1.prepare(draft, errs, app.Origin{})
	if err != nil {
		b.Fatal(err)
	}
	registered, err := a.v1.App.Register(b.Context(), reg)
	if err != nil {
		b.Fatal(err)
	}
	j := registered[0].Job
	j.State, j.Attempts = job.Delivered, 1
	j.LastAttempt = &job.Attempt{Number: 1, Status: 200, ResponseHeaders: []job.Header{{Name: "Content-Length", Value: "2"}, {Name: "Date", Value: "Mon, 23 Nov 2026 06:54:33 GMT"}}}
	report := job.Report{Job: j, Response: &job.Response{Body: []byte("ok")}}
	callback := job.Job{Key: j.Key, Spec: job.Spec{Reports: job.CallbackDelivered, Body: encoding.AppendReport(nil, &report)}}
	body := jobjson.CallbackBody(retrypolicy.Default())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := body(&callback); err != nil {
			b.Fatal(err)
		}
	}
}
