package redisstore

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/testing/testenv"
)

// liar stands between a client and a Redis: it understands the commands, and
// gives answers of its own where it is told to.
type liar struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	lie   func(cmd []string) string
	conns map[net.Conn]struct{}
	ended bool
}

// What a lie may be, besides the text of a reply.
const (
	truth  = ""        // the server's answer
	cut    = "cut"     // the connection ends, and the server never hears of it
	silent = "silence" // no answer, for as long as the client waits
)

func startLiar(t testing.TB, r *testenv.Redis) *liar {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{target: r.Addr(), listener: listener, conns: map[net.Conn]struct{}{}}
	l.wg.Go(l.accept)
	t.Cleanup(func() {
		l.mu.Lock()
		l.ended = true
		for c := range l.conns {
			_ = c.Close()
		}
		l.mu.Unlock()
		_ = listener.Close()
		l.wg.Wait()
	})
	return l
}

func (l *liar) url() string { return "redis://" + l.listener.Addr().String() }

// tell sets what is answered. The commands by which a client introduces itself
// are answered truly. lie is called by one goroutine at a time.
func (l *liar) tell(lie func(cmd []string) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie = lie
}

// answerAll gives all commands but the first n the answer.
func (l *liar) answerAll(n int, answer string) (answered func() int) {
	return l.answerSome(n, math.MaxInt, answer)
}

// answerSome gives some commands the answer: those after the first n, before
// the end-th. The returned function tells how many got it.
func (l *liar) answerSome(n, end int, answer string) (answered func() int) {
	count, given := 0, 0
	l.tell(func([]string) string {
		count++
		if count <= n || count > end {
			return truth
		}
		given++
		return answer
	})
	return func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return given
	}
}

func (l *liar) answerTo(cmd []string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lie == nil || introduces(cmd) {
		return truth
	}
	return l.lie(cmd)
}

// introduces says whether a command belongs to the beginning of a connection.
func introduces(cmd []string) bool {
	switch strings.ToLower(cmd[0]) {
	case "hello", "info", "config":
		return true
	case "client":
		return strings.EqualFold(cmd[1], "info")
	}
	return false
}

func (l *liar) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.wg.Go(func() { l.serve(client) })
	}
}

// hold registers a connection, to be closed with the test.
func (l *liar) hold(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = c.Close()
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *liar) serve(client net.Conn) {
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", l.target)
	if err != nil {
		_ = client.Close()
		return
	}
	defer client.Close()
	defer server.Close()
	if !l.hold(client) || !l.hold(server) {
		return
	}
	requests, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		cmd, err := readCommand(requests)
		if err != nil {
			return
		}
		reply := l.answerTo(cmd)
		switch reply {
		case cut:
			return
		case silent:
			_, _ = io.Copy(io.Discard, requests)
			return
		case truth:
			if _, err := io.WriteString(server, command(cmd)); err != nil {
				return
			}
			if strings.EqualFold(cmd[0], "subscribe") {
				l.passOn(client, server, requests, replies)
				return
			}
			var b bytes.Buffer
			if err := readReply(replies, &b); err != nil {
				return
			}
			reply = b.String()
		}
		if _, err := io.WriteString(client, reply); err != nil {
			return
		}
	}
}

// passOn passes everything on, in both directions, until one side ends.
func (l *liar) passOn(client, server net.Conn, requests, replies io.Reader) {
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(client, replies)
		_ = client.Close()
	})
	_, _ = io.Copy(server, requests)
	_ = server.Close()
	wg.Wait()
}

// readCommand reads a command: a list of texts.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readCount(r)
	if err != nil {
		return nil, err
	}
	cmd := make([]string, n)
	for i := range cmd {
		size, err := readCount(r)
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		cmd[i] = string(text[:size])
	}
	return cmd, nil
}

func readCount(r *bufio.Reader) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// readReply copies a reply of any kind.
func readReply(r *bufio.Reader, to *bytes.Buffer) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	to.WriteString(line)
	if line[0] != '$' && line[0] != '*' {
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil {
		return err
	}
	if line[0] == '$' && n >= 0 {
		_, err = io.CopyN(to, r, int64(n)+2)
		return err
	}
	for range n {
		if err := readReply(r, to); err != nil {
			return err
		}
	}
	return nil
}

// Answers, as they go over the wire.

func command(args []string) string {
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = text(a)
	}
	return list(parts...)
}

func list(parts ...string) string {
	return "*" + strconv.Itoa(len(parts)) + "\r\n" + strings.Join(parts, "")
}

func text(s string) string    { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }
func refusal(s string) string { return "-" + s + "\r\n" }

const nothing = "$-1\r\n"

// runs says whether a command runs the script.
func runs(cmd []string, script *redis.Script) bool {
	switch strings.ToLower(cmd[0]) {
	case "evalsha":
		return cmd[1] == script.Hash()
	case "eval":
		return redis.NewScript(cmd[1]).Hash() == script.Hash()
	}
	return false
}
