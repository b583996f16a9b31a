package dispatcher

import (
	"crypto/tls"
	"net/http"
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

// shielded hides CloseIdleConnections, which the client calls after each failure: one dead
// endpoint would cost all others their connections. It also sets the headers of requests,
// because the client copies the headers it sees, for redirects that are never followed.
type shielded struct{ transport http.RoundTripper }

func (s shielded) RoundTrip(req *http.Request) (*http.Response, error) {
	if t := traceOf(req.Context()); t != nil {
		req.Header = t.header
	}
	return s.transport.RoundTrip(req)
}
