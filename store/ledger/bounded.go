package ledger

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
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

// silence is the limit of all connections of a ledger.
type silence struct {
	limit atomic.Int64
	kept  atomic.Bool // since the last call of why
}

func newSilence() *silence {
	s := &silence{}
	s.limit.Store(int64(silenceLimit))
	return s
}

// patiently calls f with another limit.
func (s *silence) patiently(limit time.Duration, f func() error) error {
	s.limit.Store(int64(limit))
	defer s.limit.Store(int64(silenceLimit))
	return f()
}

// why adds to an error that the server was silent, which not every driver reports.
func (s *silence) why(err error) error {
	if !s.kept.Swap(false) || err == nil {
		return err
	}
	return fmt.Errorf("%w (the server did not answer for %v)", err, silenceLimit)
}

// heard notes an error that comes from silence.
func (s *silence) heard(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.kept.Store(true)
	}
}

// dial connects to a server.
func (s *silence) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: silenceLimit}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &boundedConn{Conn: conn, silence: s}, nil
}

// boundedConn is a connection whose reads and writes end when the peer has been silent for
// too long. The deadlines of the driver hold, too.
type boundedConn struct {
	net.Conn
	silence *silence

	mu          sync.Mutex
	read, write time.Time // the driver's deadlines; zero: none
}

// Read reads before the earlier deadline.
func (c *boundedConn) Read(b []byte) (int, error) {
	if err := c.renew(c.Conn.SetReadDeadline, &c.read); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	c.silence.heard(err)
	return n, err
}

// Write writes before the earlier deadline.
func (c *boundedConn) Write(b []byte) (int, error) {
	if err := c.renew(c.Conn.SetWriteDeadline, &c.write); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	c.silence.heard(err)
	return n, err
}

// SetDeadline sets the driver's deadlines.
func (c *boundedConn) SetDeadline(at time.Time) error {
	if err := c.SetReadDeadline(at); err != nil {
		return err
	}
	return c.SetWriteDeadline(at)
}

// SetReadDeadline sets the driver's deadline, for a read in progress as well.
func (c *boundedConn) SetReadDeadline(at time.Time) error {
	c.note(&c.read, at)
	return c.renew(c.Conn.SetReadDeadline, &c.read)
}

// SetWriteDeadline sets the driver's deadline, for a write in progress as well.
func (c *boundedConn) SetWriteDeadline(at time.Time) error {
	c.note(&c.write, at)
	return c.renew(c.Conn.SetWriteDeadline, &c.write)
}

func (c *boundedConn) note(which *time.Time, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*which = at
}

// renew sets the earlier of the driver's deadline and that of the silence.
func (c *boundedConn) renew(set func(time.Time) error, driver *time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Add(time.Duration(c.silence.limit.Load())) //nolint:forbidigo // the connection's clock is the machine's
	if !driver.IsZero() && driver.Before(at) {
		at = *driver
	}
	return set(at)
}

// SyscallConn is what the driver of MySQL uses to find out whether the server has closed an
// idle connection.
func (c *boundedConn) SyscallConn() (syscall.RawConn, error) {
	if conn, ok := c.Conn.(syscall.Conn); ok {
		return conn.SyscallConn()
	}
	return nil, syscall.EINVAL
}
