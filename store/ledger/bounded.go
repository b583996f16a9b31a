package ledger

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// silenceLimit is how long a server may be silent while a call waits for it. A context
	// does not bound every wait: the driver of MySQL commits without one.
	silenceLimit = 4 * time.Second
	// migrationLimit is silenceLimit while tables are migrated.
	migrationLimit = time.Hour
)

// silence bounds how long the server of a ledger may be silent.
type silence struct {
	migrating atomic.Bool // tables are migrated
	kept      atomic.Bool // since the last call of why
}

// why adds to an error that the server was silent, which not every driver reports.
func (s *silence) why(err error) error {
	if !s.kept.Swap(false) || err == nil {
		return err
	}
	return fmt.Errorf("%w (the server did not answer for %v)", err, silenceLimit)
}

// dial connects to a server.
func (s *silence) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: silenceLimit}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &boundedConn{conn.(socket), s}, nil //nolint:forcetypeassert // connections over TCP and local ones are
}

// socket is a connection that the driver of MySQL can ask whether the server has closed it.
type socket interface {
	net.Conn
	syscall.Conn
}

// boundedConn is a connection whose reads and writes end when the peer has been silent for
// too long.
type boundedConn struct {
	socket
	silence *silence
}

// Read reads before the peer has been silent for too long.
func (c *boundedConn) Read(b []byte) (int, error) {
	return c.bounded(c.SetReadDeadline, c.socket.Read, b)
}

// Write writes before the peer has been silent for too long.
func (c *boundedConn) Write(b []byte) (int, error) {
	return c.bounded(c.SetWriteDeadline, c.socket.Write, b)
}

func (c *boundedConn) bounded(limit func(time.Time) error, do func([]byte) (int, error), b []byte) (int, error) {
	patience := silenceLimit
	if c.silence.migrating.Load() {
		patience = migrationLimit
	}
	if err := limit(time.Now().Add(patience)); err != nil { //nolint:forbidigo // the connection's clock is the machine's
		return 0, err
	}
	n, err := do(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.silence.kept.Store(true)
	}
	return n, err
}
