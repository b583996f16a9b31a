package access

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Bounds of the lines about callers without a valid key: anybody can make such calls.
const (
	anonymousLines = 20
	anonymousEvery = time.Minute
)

// Audit logs changes: all of callers with a key, and of others anonymousLines each anonymousEvery. A line
// counts those left out. Its methods are safe for concurrent use.
type Audit struct {
	log   *slog.Logger
	clock job.Clock

	mu          sync.Mutex
	began       time.Time // of the interval
	lines, left int       // in the interval
}

// NewAudit returns an Audit that writes to a log.
func NewAudit(log *slog.Logger, clock job.Clock) *Audit { return &Audit{log: log, clock: clock} }

// Log writes the change as a line, unless too many were of callers without a key.
func (a *Audit) Log(ctx context.Context, c *Change) {
	left, leave := a.count(c.Who.KeyID == "")
	if left > 0 {
		a.log.LogAttrs(ctx, slog.LevelWarn, "audit lines of calls without a valid key were left out", slog.Int("lines", left))
	}
	if !leave {
		c.Log(ctx, a.log)
	}
}

// count counts a line. It returns how many an interval that is over left out, and whether to leave this one out.
func (a *Audit) count(anonymous bool) (left int, leave bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.clock.Now(); now.Sub(a.began) >= anonymousEvery || now.Before(a.began) {
		left = a.left
		a.began, a.lines, a.left = now, 0, 0
	}
	if !anonymous {
		return left, false
	}
	if a.lines++; a.lines > anonymousLines {
		a.left++
		return left, true
	}
	return left, false
}

// Change is a change that a caller made, or that was refused. It contains no bodies and no
// secrets.
type Change struct {
	Who Principal
	// What is the call, such as "POST /v1/jobs/{topic}/{id}/run".
	What string
	// Target is the changed object, such as "order-timeout/order-8812".
	Target string
	// Result is "ok" or the code of the error.
	Result string
	// Client is the caller's address.
	Client    string
	RequestID string
}

// maxTarget bounds the target in a line, in bytes: a refused target can be any text.
const maxTarget = 300

// Log writes the change as one line at info level with the message "audit".
func (c *Change) Log(ctx context.Context, log *slog.Logger) {
	log.LogAttrs(ctx, slog.LevelInfo, "audit",
		slog.Any("who", c.Who),
		slog.String("what", c.What),
		slog.String("target", Redact(strings.ToValidUTF8(c.Target[:min(len(c.Target), maxTarget)], "\uFFFD"))),
		slog.String("result", c.Result),
		slog.String("client", c.Client),
		slog.String("request_id", c.RequestID))
}
