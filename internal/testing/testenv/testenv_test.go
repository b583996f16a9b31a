package testenv

import (
	"bufio"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/testing/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client speaks the inline form of the Redis protocol.
type client struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must.OK(t, conn.SetDeadline(time.Now().Add(Patience)))
	return &client{t: t, conn: conn, r: bufio.NewReader(conn)}
}

func (c *client) do(command string) (string, error) {
	if _, err := io.WriteString(c.conn, command+"\r\n"); err != nil {
		return "", err
	}
	line, err := c.r.ReadString('\n')
	return line, err
}

func (c *client) want(command, answer string) {
	c.t.Helper()
	got, err := c.do(command)
	if err != nil || got != answer+"\r\n" {
		c.t.Fatalf("%s: got %q, %v; want %q", command, got, err, answer)
	}
}

func TestRedisKeepsPortAndFiles(t *testing.T) {
	r := StartRedis(t, WithAOF())
	addr, pid := r.Addr(), r.PID()
	dial(t, addr).want("INCR n", ":1")

	r.Kill()
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Fatal("a killed server still answers")
	}
	r.Start()
	if r.Addr() != addr || r.PID() == pid {
		t.Fatalf("started again at %s with pid %d; was %s, %d", r.Addr(), r.PID(), addr, pid)
	}
	dial(t, addr).want("INCR n", ":2")

	r.Restart()
	dial(t, addr).want("INCR n", ":3")
}

func TestRedisWithoutAOFForgets(t *testing.T) {
	r := StartRedis(t)
	dial(t, r.Addr()).want("INCR n", ":1")
	r.Restart()
	dial(t, r.Addr()).want("INCR n", ":1")
}

func TestRedisMaxMemoryRefusesWrites(t *testing.T) {
	r := StartRedis(t, WithMaxMemory("1"))
	got, err := dial(t, r.Addr()).do("SET k v")
	if err != nil || got[:4] != "-OOM" {
		t.Fatalf("got %q, %v; want an OOM error", got, err)
	}
}

func TestRedisPause(t *testing.T) {
	r := StartRedis(t)
	c := dial(t, r.Addr())
	r.Pause()
	answered := make(chan error, 1)
	go func() {
		_, err := c.do("PING")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered (%v)", err)
	case <-time.After(50 * time.Millisecond):
	}
	r.Resume()
	must.OK(t, <-answered)
}

func TestProxyDropsRepliesOfRequestsThatWentThrough(t *testing.T) {
	r := StartRedis(t)
	p := StartProxy(t, r.Addr())
	p.DropReplies(First(1, "INCR"))

	c := dial(t, p.Addr())
	c.want("PING", "+PONG")
	if got, err := c.do("INCR n"); err == nil {
		t.Fatalf("the reply %q came through", got)
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("got %v; want a reset", err)
	}
	if p.Dropped() != 1 {
		t.Fatalf("dropped %d replies, want 1", p.Dropped())
	}
	dial(t, p.Addr()).want("INCR n", ":2")
}

func TestProxyCutAll(t *testing.T) {
	r := StartRedis(t)
	p := StartProxy(t, r.Addr())
	c := dial(t, p.Addr())
	c.want("PING", "+PONG")
	p.CutAll()
	if _, err := c.do("PING"); err == nil {
		t.Fatal("a cut connection still works")
	}
	dial(t, p.Addr()).want("PING", "+PONG")
}

func TestProxyRefuse(t *testing.T) {
	r := StartRedis(t)
	p := StartProxy(t, r.Addr())
	p.Refuse(true)
	// The reset may reach the client in the middle of connecting or after.
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		if _, err := (&client{t: t, conn: conn, r: bufio.NewReader(conn)}).do("PING"); err == nil {
			t.Fatal("a refusing proxy passed a request")
		}
		_ = conn.Close()
	}
	p.Refuse(false)
	dial(t, p.Addr()).want("PING", "+PONG")
}

func TestProxyDelay(t *testing.T) {
	r := StartRedis(t)
	p := StartProxy(t, r.Addr())
	c := dial(t, p.Addr())
	const d = 30 * time.Millisecond
	p.Delay(d)
	start := time.Now()
	c.want("PING", "+PONG")
	if took := time.Since(start); took < d {
		t.Fatalf("the reply took %v, want at least %v", took, d)
	}
}

func TestEventually(t *testing.T) {
	n := 0
	Eventually(t, Patience, func() bool { n++; return n == 3 }, "three calls")
	if n != 3 {
		t.Fatalf("%d calls, want 3", n)
	}
}
