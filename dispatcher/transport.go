package dispatcher

import (
	"crypto/tls"
	"net/http"
	"time"
)

// What one answer may cost.
const (
	maxHeaderBytes = 16 << 10
	// drainLimit is how much of a body is read so that its connection can be
	// used again; a longer one closes it.
	drainLimit = 4 << 10
	// drainTime is for how long: a body that decides nothing is not worth a
	// worker's time.
	drainTime = time.Second
	// expectLimit is how much is read when the body decides.
	expectLimit = 16 << 10
	// excerptLimit is how much is kept in the attempt log.
	excerptLimit = 1 << 10
)

const (
	idleTimeout = 60 * time.Second
	tlsSessions = 256 // each keeps the certificates of its endpoint
)

// newTransport makes the transport of all deliveries. It speaks HTTP/1 only:
// a request has its connection to itself, so what an endpoint does to one does
// not touch another.
func newTransport(guard *Guard, workers int) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	d := &dialer{dial: traced(guard.dial), tls: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions),
		VerifyConnection:   checkChain,
	}}
	return &http.Transport{
		Proxy:                  nil, // the environment's proxy would dial unguarded
		DialContext:            d.plain,
		DialTLSContext:         d.secure,
		TLSClientConfig:        d.tls, // which DialTLSContext goes by
		Protocols:              &protocols,
		DisableCompression:     true, // a small answer must stay small
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConns:           2 * workers,
		MaxIdleConnsPerHost:    workers,
		IdleConnTimeout:        idleTimeout,
	}
}

// shielded is a transport without CloseIdleConnections, which the client calls
// after every failure: one dead endpoint would cost all the others their
// connections. And requests get their headers here, for the client copies those
// that it sees, for redirects which are not followed.
type shielded struct{ transport http.RoundTripper }

func (s shielded) RoundTrip(req *http.Request) (*http.Response, error) {
	if t, ok := req.Context().Value(traceKey{}).(*trace); ok {
		req.Header = t.header
	}
	return s.transport.RoundTrip(req)
}
