package hostile

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// speech is what a server does with a connection, which is closed afterwards.
type speech = func(ctx context.Context, c net.Conn)

// pace is how often a slow server says something.
const pace = 50 * time.Millisecond

// asked speaks once it has read a request. Whatever were left unread would make
// the kernel reset the connection.
func asked(s speech) speech {
	return func(ctx context.Context, c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err == nil {
			s(ctx, c)
		}
	}
}

// hangUp waits until the other side closes.
func hangUp(_ context.Context, c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func say(c net.Conn, piece string) bool {
	_, err := io.WriteString(c, piece)
	return err == nil
}

// saying says one thing.
func saying(piece string) speech {
	return func(_ context.Context, c net.Conn) { say(c, piece) }
}

// endlessly says first once, and then rest for as long as anybody listens.
func endlessly(first, rest string) speech {
	return func(_ context.Context, c net.Conn) {
		for ok := say(c, first); ok; ok = say(c, rest) {
		}
	}
}

// trickling says first once, and then rest slowly.
func trickling(first, rest string) speech {
	return func(ctx context.Context, c net.Conn) {
		for ok := say(c, first); ok; ok = say(c, rest) {
			if job.Sleep(ctx, job.SystemClock(), pace) != nil {
				return
			}
		}
	}
}

// thenHangUp waits for the other side to close when all is said.
func thenHangUp(s speech) speech {
	return func(ctx context.Context, c net.Conn) {
		s(ctx, c)
		hangUp(ctx, c)
	}
}

// thenReset breaks the connection off when all is said.
func thenReset(s speech) speech {
	return func(ctx context.Context, c net.Conn) {
		s(ctx, c)
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
}
