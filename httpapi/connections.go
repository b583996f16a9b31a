package httpapi

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// connections are those of clients. When there are too many, the one that has been idle for longest is closed, so that
// probes and others get in; if none is idle, the one that has been busy for longest.
type connections struct {
	most int // zero: any number

	mu         sync.Mutex
	idle, busy list.List // of net.Conn, the longest first
	of         map[net.Conn]*listed
}

// listed is where a connection is listed.
type listed struct {
	in *list.List
	at *list.Element
}

func newConnections(most int) *connections {
	return &connections{most: most, of: map[net.Conn]*listed{}}
}

// changed notes the state of a connection, see http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.of[conn]; old != nil {
		old.in.Remove(old.at)
		delete(c.of, conn)
	}
	in := &c.idle
	switch state {
	case http.StateActive:
		in = &c.busy
	case http.StateClosed, http.StateHijacked:
		return
	case http.StateNew, http.StateIdle:
	}
	if state == http.StateNew && c.most > 0 && len(c.of) >= c.most {
		c.closeOne()
	}
	c.of[conn] = &listed{in, in.PushBack(conn)}
}

func (c *connections) closeOne() {
	longest := c.idle.Front()
	if longest == nil {
		longest = c.busy.Front()
	}
	conn := longest.Value.(net.Conn)
	old := c.of[conn]
	old.in.Remove(old.at)
	delete(c.of, conn)
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn() // its own Close waits for the client
	}
	_ = conn.Close() // nothing is to be written
}
