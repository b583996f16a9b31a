package access

import (
	"context"
	"log/slog"
	"strings"
)

// Change is something that a caller changed, or was refused to. It names
// things; it holds no bodies and no secrets.
type Change struct {
	Who Principal
	// What is the call, such as "POST /v1/jobs/{topic}/{id}/run".
	What string
	// Target is what was to be changed, such as "order-timeout/order-8812".
	Target string
	// Result is "ok" or the code of the error.
	Result string
	// Client is the caller's address.
	Client    string
	RequestID string
}

// maxTarget bounds, in bytes, what a caller can put into a line: a target that
// was refused can be anything.
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
