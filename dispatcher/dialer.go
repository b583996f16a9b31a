package dispatcher

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// What connecting may cost.
const (
	// dialTimeout bounds connecting and the TLS handshake each, also after the request
	// got another connection.
	dialTimeout = 10 * time.Second
	// maxHandshakeBytes bounds what a TLS handshake reads, mostly certificates.
	// crypto/tls alone allows 256 KiB.
	maxHandshakeBytes = 32 << 10
	// maxCertificates bounds a chain. The smallest certificates take 20 times their
	// size in memory.
	maxCertificates = 10
	// maxHeaderLines bounds the lines in the first maxHeaderBytes of an answer:
	// net/http only counts bytes, and the smallest headers take 30 times their size in
	// memory.
	maxHeaderLines = 512
)

var (
	errHandshakeTooLong = fmt.Errorf("tls: the handshake has more than %d bytes", maxHandshakeBytes)
	errChainTooLong     = fmt.Errorf("tls: the chain has more than %d certificates", maxCertificates)
	errTooManyLines     = fmt.Errorf("the response has more than %d lines in its first %d bytes", maxHeaderLines, maxHeaderBytes)
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer makes connections whose cost is bounded.
type dialer struct {
	dial dialFunc
	tls  *tls.Config
}

// plain connects.
func (d *dialer) plain(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := inTime(ctx)
	defer cancel()
	conn, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &boundedConn{Conn: conn}, nil
}

// secure connects with TLS.
func (d *dialer) secure(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	raw, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := d.tls.Clone()
	config.ServerName = host
	limited := &handshakeConn{Conn: raw, left: maxHandshakeBytes}
	conn := tls.Client(limited, config)
	if err := handshake(ctx, conn); err != nil {
		_ = raw.Close()
		return nil, err
	}
	limited.done = true
	return &boundedConn{Conn: conn}, nil
}

// handshake reports to the trace of the request.
func handshake(ctx context.Context, conn *tls.Conn) error {
	if t := traceOf(ctx); t != nil {
		t.enter(phaseTLS)
		defer t.leave(phaseTLS)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return conn.HandshakeContext(ctx)
}

// checkChain is for tls.Config.VerifyConnection.
func checkChain(s tls.ConnectionState) error {
	if len(s.PeerCertificates) > maxCertificates {
		return errChainTooLong
	}
	return nil
}

// inTime adds the deadline of the request.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if t := traceOf(ctx); t != nil && !t.deadline.IsZero() {
		return context.WithDeadline(ctx, t.deadline)
	}
	return ctx, func() {}
}

// handshakeConn bounds what is read in a handshake.
type handshakeConn struct {
	net.Conn
	left int
	done bool
}

func (c *handshakeConn) Read(p []byte) (int, error) {
	if c.done {
		return c.Conn.Read(p)
	}
	if c.left <= 0 {
		return 0, errHandshakeTooLong
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

var newline = []byte("\n")

// boundedConn bounds the number of lines in the beginning of an answer.
type boundedConn struct {
	net.Conn
	read, lines atomic.Int64 // of the current answer
	written     atomic.Bool  // something of the current request
}

// begin is called before each request.
func (c *boundedConn) begin() {
	c.read.Store(0)
	c.lines.Store(0)
	c.written.Store(false)
}

// Write records that bytes may have left. A truncated TLS record does not count: the
// receiver cannot read it.
func (c *boundedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.written.Store(true)
	}
	return n, err
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.lines.Load() > maxHeaderLines {
		return 0, errTooManyLines
	}
	n, err := c.Conn.Read(p)
	if c.read.Load() >= maxHeaderBytes {
		return n, err
	}
	c.read.Add(int64(n))
	if c.lines.Add(int64(bytes.Count(p[:n], newline))) > maxHeaderLines {
		// Parsers take half a line before an error for a whole one.
		return bytes.LastIndex(p[:n], newline) + len(newline), nil
	}
	return n, err
}
