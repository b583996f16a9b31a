package testenv

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Proxy forwards TCP connections to a server and injects faults. It is
// safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	ctx      context.Context
	stop     context.CancelFunc
	wg       sync.WaitGroup

	delay   atomic.Int64 // nanoseconds before each piece of a reply
	refuse  atomic.Bool
	dropped atomic.Int64

	mu    sync.Mutex
	drop  func(request []byte) bool
	pairs map[*pair]struct{}
}

// pair is one proxied connection.
type pair struct {
	client, server *net.TCPConn
	// spoiled is set once a request matched: its reply will be swallowed.
	spoiled atomic.Bool
}

// StartProxy listens on a free loopback port and passes connections on to
// target until the test ends.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	p := &Proxy{target: target, listener: l, pairs: map[*pair]struct{}{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.stop()
		_ = l.Close()
		p.CutAll()
		p.wg.Wait()
	})
	return p
}

// Addr is the proxy's host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// CutAll resets every open connection, on both sides.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		reset(c.client)
		reset(c.server)
	}
}

// Refuse makes the proxy reset every new connection until a later call.
func (p *Proxy) Refuse(refuse bool) { p.refuse.Store(refuse) }

// Delay holds back each piece of a reply by d; zero ends it.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// DropReplies asks match about each piece of a request that a client sends.
// When it says yes, the request goes through, its reply is swallowed and the
// client's connection is reset: the client cannot know that it was carried
// out. A nil match ends it. match is called by one goroutine at a time.
func (p *Proxy) DropReplies(match func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop = match
}

// Dropped is the number of replies swallowed so far.
func (p *Proxy) Dropped() int { return int(p.dropped.Load()) }

// First matches the first n requests that contain s (any, if s is empty), for
// DropReplies. A request that arrives in pieces may be missed.
func First(n int, s string) func(request []byte) bool {
	return func(request []byte) bool {
		if n <= 0 || !bytes.Contains(request, []byte(s)) {
			return false
		}
		n--
		return true
	}
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		client := conn.(*net.TCPConn)
		if p.refuse.Load() {
			reset(client)
			continue
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	defer func() { _ = client.Close() }()
	conn, err := (&net.Dialer{}).DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	c := &pair{client: client, server: conn.(*net.TCPConn)}
	defer func() { _ = c.server.Close() }()
	if !p.add(c) {
		return
	}
	defer p.remove(c)

	var requests sync.WaitGroup
	requests.Go(func() { p.passRequests(c) })
	p.passReplies(c)
	_ = client.Close()
	requests.Wait()
}

// add registers c for CutAll; false means that the proxy has ended.
func (p *Proxy) add(c *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.pairs[c] = struct{}{}
	return true
}

func (p *Proxy) remove(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, c)
}

func (p *Proxy) passRequests(c *pair) {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.client.Read(buf)
		if n > 0 {
			if p.matches(buf[:n]) {
				c.spoiled.Store(true)
			}
			if _, err := c.server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = c.server.CloseWrite()
			return
		}
	}
}

func (p *Proxy) matches(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drop != nil && p.drop(request)
}

func (p *Proxy) passReplies(c *pair) {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.server.Read(buf)
		if n > 0 {
			if c.spoiled.Load() {
				p.dropReply(c)
				return
			}
			if d := time.Duration(p.delay.Load()); d > 0 && job.Sleep(p.ctx, job.SystemClock(), d) != nil {
				return
			}
			if _, err := c.client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// dropReply resets the client but ends the server's side in good order, so that
// whatever was sent is still carried out.
func (p *Proxy) dropReply(c *pair) {
	p.dropped.Add(1)
	reset(c.client)
	_ = c.server.CloseWrite()
	_, _ = io.Copy(io.Discard, c.server)
}

// reset closes c so that its peer sees a reset instead of an end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
