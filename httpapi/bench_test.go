package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

const typicalJob = `{"topic":"order-timeout","id":"order-8812","biz_key":"8812","url":"https://shop.example/hooks/timeout",
 "delay":"30m","body":{"order_id":8812},"headers":{"x-tenant":"acme"},"retry":{"steps":["15s","3m","10m"],"limit":3},"timeout":"10s","ttl":"2h"}`

func BenchmarkDecode(b *testing.B) {
	s := newAPI(b).server
	large := `{"url":"https://shop.example/hooks/timeout","body":{"text":"` + strings.Repeat("lorem ipsum, ", 20_000) + `"}}`
	for name, body := range map[string]string{"typical": typicalJob, "large": large} {
		b.Run(name, func(b *testing.B) {
			data := []byte(body)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if err := checkJSON(data); err != nil {
					b.Fatal(err)
				}
				if _, err := s.registration(data, scheduler.Origin{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodeJob(b *testing.B) {
	s := newAPI(b).server
	reg, err := s.registration([]byte(typicalJob), scheduler.Origin{})
	if err != nil {
		b.Fatal(err)
	}
	registered, err := s.opts.Scheduler.Register(b.Context(), reg)
	if err != nil {
		b.Fatal(err)
	}
	j := registered[0].Job
	e := echo.New()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		view := viewJob(&j, retrypolicy.Default())
		if err := writeAppended(e.NewContext(r, discard{}), http.StatusOK, &view); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeBatch is of 100 jobs.
func BenchmarkDecodeBatch(b *testing.B) {
	s := newAPI(b).server
	data := []byte(`{"jobs":[` + strings.Repeat(typicalJob+",", 99) + typicalJob + `]}`)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := checkJSON(data); err != nil {
			b.Fatal(err)
		}
		jobs, err := batchJobs(data)
		if err != nil {
			b.Fatal(err)
		}
		for _, raw := range jobs {
			if _, err := s.registration(raw, scheduler.Origin{}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkRegister is a whole request but for the connection and the store.
func BenchmarkRegister(b *testing.B) {
	a := newAPI(b, func(o *testOptions) { o.Logger = nil; o.Store = nullStore{o.Store} })
	bare := echo.New()
	bare.POST("/v1/jobs", func(c echo.Context) error {
		_, err := nullStore{}.Register(c.Request().Context(), []store.Registration{{}})
		if err != nil {
			return err
		}
		return c.NoContent(http.StatusCreated)
	})
	for name, handler := range map[string]http.Handler{"duehook": a.server.Handler(), "bare-echo": bare} {
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
