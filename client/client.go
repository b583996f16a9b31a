package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client calls one server. It is safe for concurrent use. New makes it.
type Client struct {
	base      *url.URL
	http      *http.Client
	token     string
	userAgent string
	inject    func(ctx context.Context, h http.Header)
	retry     Retrying
}

// Option changes a Client.
type Option func(*Client)

// WithToken sends the token of an API key with each call.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithHTTPClient uses an HTTP client of the caller, for example one with certificates. It must
// not have a Timeout shorter than a stream of events may last.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) { c.http = cmp.Or(h, c.http) }
}

// WithUserAgent sets the header User-Agent.
func WithUserAgent(name string) Option { return func(c *Client) { c.userAgent = name } }

// WithTraceContext has inject write the trace context of each call into its headers. Deliveries
// continue the trace of the registration. With OpenTelemetry:
//
//	client.WithTraceContext(func(ctx context.Context, h http.Header) {
//		otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(h))
//	})
func WithTraceContext(inject func(ctx context.Context, h http.Header)) Option {
	return func(c *Client) {
		if inject != nil {
			c.inject = inject
		}
	}
}

// Retrying is how often and after which pauses a safe call is repeated.
type Retrying struct {
	Attempts int           // at most this many requests; 1 means no repetition
	Pause    time.Duration // before the second request; each further pause is twice as long
	Longest  time.Duration // the longest pause; a call whose answer has a longer Retry-After is not repeated
}

// WithRetrying replaces the default of 5 requests with pauses from 100 ms to 5 s.
func WithRetrying(r Retrying) Option { return func(c *Client) { c.retry = r } }

// New returns a client of the server at an address such as http://127.0.0.1:7788.
func New(address string, options ...Option) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil {
		return nil, fmt.Errorf("the address of the server: %w", err)
	}
	if (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("the address of the server, %q, must begin with http:// or https:// and name a host", address)
	}
	c := &Client{
		base:      base,
		http:      &http.Client{Transport: transport()},
		userAgent: "duehook-go",
		inject:    func(context.Context, http.Header) {},
		retry:     Retrying{Attempts: 5, Pause: 100 * time.Millisecond, Longest: 5 * time.Second},
	}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

// transport keeps as many idle connections as a busy service has calls in flight.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	t.ResponseHeaderTimeout = 90 * time.Second
	return t
}

// Close closes idle connections.
func (c *Client) Close() {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}
