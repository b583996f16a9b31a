package access

import (
	"context"
	"log/slog"
	"strings"
)

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
