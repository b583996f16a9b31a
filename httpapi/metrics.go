package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/kit/metered"
)

// unmatched is the route of requests without one, so that invented paths add no series.
const unmatched = "unmatched"

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duehook_http_requests_total",
			Help: "Requests to the HTTP API, by route, method and status code.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "duehook_http_request_seconds",
			Help:    "Duration of requests to the HTTP API, by route.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
	}
	return m, metered.Register(r, "the API", m.requests, m.seconds)
}

// observe counts a request. It ignores the duration of streams, which depends on clients.
func (m *metrics) observe(route, method string, status int, d time.Duration, stream bool) {
	m.requests.WithLabelValues(route, knownMethod(method), strconv.Itoa(status)).Inc()
	if !stream {
		m.seconds.WithLabelValues(route).Observe(d.Seconds())
	}
}

// knownMethod prevents new series for invented methods.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
