package node

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// supervisor tells systemd how the node is (sd_notify(3)). Without a socket in the environment it tells nobody.
type supervisor struct {
	socket string
	every  time.Duration // between two signs of life; zero: none is asked for
}

func newSupervisor(getenv func(string) string, pid int) supervisor {
	s := supervisor{socket: getenv("NOTIFY_SOCKET")}
	if rest, abstract := strings.CutPrefix(s.socket, "@"); abstract {
		s.socket = "\x00" + rest
	}
	micros, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if of := getenv("WATCHDOG_PID"); err == nil && micros > 0 && (of == "" || of == strconv.Itoa(pid)) {
		s.every = time.Duration(micros) * time.Microsecond / 2 // as sd_watchdog_enabled(3) advises
	}
	return s
}

func (s *supervisor) tell(ctx context.Context, state string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unixgram", s.socket)
	if err != nil {
		return fmt.Errorf("tell systemd %s: %w", state, err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("tell systemd %s: %w", state, err)
	}
	return nil
}

// supervise tells that the node has started, that it lives, and that it stops, until ctx ends. Failures are logged:
// systemd decides what follows.
func (n *node) supervise(ctx context.Context, s supervisor) error {
	if s.socket == "" {
		<-ctx.Done()
		return nil
	}
	tell := func(ctx context.Context, state string) {
		if err := s.tell(ctx, state); err != nil {
			n.Logger.Warn("systemd cannot be reached", "error", err)
		}
	}
	tell(ctx, "READY=1")
	for s.every > 0 && job.Sleep(ctx, job.SystemClock(), s.every) == nil {
		tell(ctx, "WATCHDOG=1")
	}
	<-ctx.Done()
	tell(context.WithoutCancel(ctx), "STOPPING=1")
	return nil
}
