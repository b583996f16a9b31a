package tracing

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	tracesPath     = "/v1/traces"
	defaultTimeout = 10 * time.Second // of one export, as the specification of OTLP sets it
	maxRetries     = 4
	maxAnswer      = 4 << 10 // of an answer, for the error message
)

// client sends spans to a collector over HTTP. It replaces otlptracehttp, which
// links gRPC: 11 MB of binary for an encoding that this client does not use.
type client struct {
	http     *retryablehttp.Client
	endpoint string
	headers  http.Header
	gzip     bool
	timeout  time.Duration
}

// newClient reads the OTEL_EXPORTER_OTLP_* variables. A variable for traces
// overrides the general one.
func newClient(getenv func(string) string) (*client, error) {
	env := func(name string) string {
		return cmp.Or(strings.TrimSpace(getenv("OTEL_EXPORTER_OTLP_TRACES_"+name)), strings.TrimSpace(getenv("OTEL_EXPORTER_OTLP_"+name)))
	}
	c := &client{gzip: env("COMPRESSION") == "gzip", timeout: defaultTimeout}
	var err error
	if c.endpoint, err = endpoint(getenv); err != nil {
		return nil, err
	}
	if c.headers, err = headers(env("HEADERS")); err != nil {
		return nil, err
	}
	if value := env("TIMEOUT"); value != "" {
		ms, err := strconv.Atoi(value)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT %q is not a number of milliseconds above 0", value)
		}
		c.timeout = time.Duration(ms) * time.Millisecond
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = tlsConfig(env); err != nil {
		return nil, err
	}
	c.http = retryablehttp.NewClient()
	c.http.HTTPClient = &http.Client{Transport: transport}
	c.http.RetryMax = maxRetries
	c.http.Logger = nil // the exporter reports errors to otel's handler
	c.http.CheckRetry = retry
	c.http.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return c, nil
}

// endpoint is the URL for traces: used as it is when it was set for traces, and
// with the standard path appended otherwise.
func endpoint(getenv func(string) string) (string, error) {
	name, base := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""
	value := strings.TrimSpace(getenv(name))
	if value == "" {
		name, base = "OTEL_EXPORTER_OTLP_ENDPOINT", tracesPath
		value = strings.TrimSpace(getenv(name))
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%s %q is not a URL: set one such as http://127.0.0.1:4318", name, value)
	}
	if base != "" {
		u = u.JoinPath(base)
	}
	return u.String(), nil
}

// headers reads "name=value,name=value" with percent-encoded values.
func headers(list string) (http.Header, error) {
	h := http.Header{}
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !found || name == "" || err != nil {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS cannot be read: set pairs such as api-key=secret,x-tenant=acme") // without the value: it may be secret
		}
		h.Set(name, value)
	}
	return h, nil
}

// tlsConfig is nil unless certificates are set.
func tlsConfig(env func(string) string) (*tls.Config, error) {
	authority, certificate := env("CERTIFICATE"), env("CLIENT_CERTIFICATE")
	if authority == "" && certificate == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority != "" {
		pem, err := os.ReadFile(authority)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s contains no certificate in PEM", authority)
		}
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, env("CLIENT_KEY"))
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// retry follows the specification of OTLP: these statuses are temporary.
func retry(ctx context.Context, answer *http.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		return retryablehttp.DefaultRetryPolicy(ctx, answer, err)
	}
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true, nil
	}
	return false, nil
}

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.HTTPClient.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	// TracesData has the wire format of ExportTraceServiceRequest.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	if c.gzip {
		if body, err = compressed(body); err != nil {
			return err
		}
	}
	request, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, body)
	if err != nil {
		return fmt.Errorf("export spans: %w", err)
	}
	request.Header = c.headers.Clone()
	request.Header.Set("Content-Type", "application/x-protobuf")
	if c.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("export spans: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("export spans: the collector answered %s: %q", answer.Status, text)
	}
	if err != nil {
		return fmt.Errorf("export spans: read the collector's answer: %w", err)
	}
	return nil
}

func compressed(body []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		return nil, fmt.Errorf("compress spans: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress spans: %w", err)
	}
	return b.Bytes(), nil
}
