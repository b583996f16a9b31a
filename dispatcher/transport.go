package dispatcher

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"time"
)

// What one answer may cost.
const (
	maxHeaderBytes = 16 << 10
	// drainLimit is how much of a body is read to reuse its connection. A longer body
	// closes it.
	drainLimit = 4 << 10
	// drainTime bounds that read, which would keep a worker busy.
	drainTime = time.Second
)

const (
	idleTimeout = 60 * time.Second
	tlsSessions = 256 // each keeps the certificates of its endpoint
)

// newTransport returns the transport of all deliveries. It only speaks HTTP/1: a request has
// its own connection, so an endpoint cannot disturb several requests through one.
func newTransport(guard *Guard, workers int) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	d := &dialer{dial: traced(guard.dial), tls: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions),
		VerifyConnection:   checkChain,
	}}
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial without the guard
		DialContext:            d.plain,
		DialTLSContext:         d.secure,
		TLSClientConfig:        d.tls, // the one of DialTLSContext
		Protocols:              &protocols,
		DisableCompression:     true, // a small answer must stay small
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConns:           2 * workers,
		MaxIdleConnsPerHost:    workers,
		IdleConnTimeout:        idleTimeout,
	}
}

// layered is the network below a layer.
type layered struct {
	layer   Layer
	network http.RoundTripper
}

func (l layered) RoundTrip(req *http.Request) (*http.Response, error) {
	return l.layer.RoundTrip(req, l.network)
}

// unpooled returns a transport that opens a connection for each request, and closes it afterwards.
func unpooled(pooled *http.Transport) *http.Transport {
	t := pooled.Clone()
	t.MaxIdleConnsPerHost = -1 // DisableKeepAlives would also change the request
	return t
}

// sending sends the request of an attempt once, or twice if the first connection had been used
// before and closed without a byte of an answer: an everyday race. The second request gets a new
// connection, so that a body that crashes its receiver reaches two workers at most.
//
// It also hides CloseIdleConnections, which the client calls after each failure: one dead
// endpoint would cost all others their connections. And it sets the headers of requests,
// because the client copies the headers it sees, for redirects that are never followed.
type sending struct {
	pooled, fresh http.RoundTripper
	again         bool // false: once only
}

func (s sending) RoundTrip(req *http.Request) (*http.Response, error) {
	t := traceOf(req.Context())
	if t == nil {
		return s.pooled.RoundTrip(req)
	}
	req.Header = t.header
	if t.isReplaced() {
		return s.fresh.RoundTrip(req)
	}
	resp, err := s.pooled.RoundTrip(req)
	if err == nil || !s.again || !t.replace(err) {
		return resp, err
	}
	again := req.WithContext(req.Context()) // a copy
	if len(t.body) > 0 {
		again.Body = io.NopCloser(bytes.NewReader(t.body))
	}
	return s.fresh.RoundTrip(again)
}

// once keeps net/http from repeating a request of its own accord. It repeats a request without a
// body, or with one that it can read again, on one idle connection after the other, if the method or
// a header says that it is idempotent (golang/go#22158).
func once(req *http.Request) {
	req.GetBody = nil
	if req.ContentLength > 0 {
		return
	}
	if req.Method == http.MethodGet {
		// An empty body that is not nil. "identity" keeps net/http from looking into it; nothing of it is sent.
		req.Body, req.TransferEncoding = io.NopCloser(bytes.NewReader(nil)), []string{"identity"}
		return
	}
	// Without a body, the header alone decides. net/http looks for its canonical name.
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := req.Header[name]; ok {
			delete(req.Header, name)
			req.Header[strings.ToLower(name)] = values
		}
	}
}
