package httpapi

import (
	"net"
	"net/http"
	"testing"
)

// fakeConn notes whether it was closed.
type fakeConn struct {
	net.Conn
	closed bool
}

func (c *fakeConn) Close() error {
	c.closed = true
	return nil
}

// When connections run out, the one that has been idle for longest is closed, and a busy one only if none is idle. One that
// was closed by its client leaves its place.
func TestTheLongestIdleConnectionGivesWay(t *testing.T) {
	c := newConnections(3)
	var all []*fakeConn
	open := func() *fakeConn {
		conn := &fakeConn{}
		c.changed(conn, http.StateNew)
		all = append(all, conn)
		return conn
	}
	want := func(what string, closed ...*fakeConn) {
		t.Helper()
		for i, conn := range all {
			is := false
			for _, one := range closed {
				is = is || one == conn
			}
			if conn.closed != is {
				t.Errorf("%s: connection %d: closed is %v", what, i, conn.closed)
			}
		}
	}
	busy, first, second := open(), open(), open()
	c.changed(busy, http.StateActive)
	c.changed(first, http.StateActive)
	c.changed(first, http.StateIdle) // second has been idle for longer now
	third := open()
	want("one more", second)
	c.changed(second, http.StateClosed)
	c.changed(third, http.StateClosed)
	third.closed = true
	fourth := open()
	want("in a free place", second, third)
	c.changed(first, http.StateActive)
	c.changed(fourth, http.StateActive)
	open()
	want("while all are busy", second, third, busy)
	if n := len(c.of); n != 3 {
		t.Errorf("%d connections have places", n)
	}
	unbounded := newConnections(0)
	for range 10 {
		unbounded.changed(&fakeConn{}, http.StateNew)
	}
}
