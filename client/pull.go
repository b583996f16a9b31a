package client

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// PullRequest asks for jobs of pull queues.
type PullRequest struct {
	Topics []string `json:"topics,omitempty"`
	Max    int      `json:"max,omitempty"`  // 1 to 100; 1 if zero
	Wait   Duration `json:"wait,omitzero"`  // for the first job; at most a minute
	Lease  Duration `json:"lease,omitzero"` // 1 s to 12 h; 30 s if zero
}

// LeasedJob is a job that the caller has until the end of its lease.
type LeasedJob struct {
	Receipt    string            `json:"receipt"`
	Attempt    int               `json:"attempt"` // counts from 1
	LeaseUntil time.Time         `json:"lease_until"`
	Job        Job               `json:"job"`
	Headers    map[string]string `json:"headers"`
	Body       json.RawMessage   `json:"body"`
	BodyText   string            `json:"body_text"`
	BodyBytes  []byte            `json:"body_base64"`
}

// Content is the body as bytes, whatever its form.
func (l *LeasedJob) Content() []byte {
	switch {
	case l.Body != nil:
		return l.Body
	case l.BodyBytes != nil:
		return l.BodyBytes
	}
	return []byte(l.BodyText)
}

// ReceiptResult is what became of a receipt: ok, stale or unknown.
type ReceiptResult struct {
	Receipt string `json:"receipt"`
	Result  string `json:"result"`
}

// Nack gives a leased job up.
type Nack struct {
	Receipt string `json:"receipt"`
	// Delay is the time until the next attempt, up to 365 days; less than zero is zero, and more is 365 days.
	// Nil: the next step of the ladder.
	Delay *Duration `json:"delay,omitempty"`
	Error string    `json:"error,omitempty"` // for the log of attempts
	Dead  bool      `json:"dead,omitempty"`  // no attempt can succeed
	// Unused gives back a job that nobody began: it is due again at once, and no attempt is used. Nothing else may be set.
	Unused bool `json:"unused,omitempty"`
}

// Pull leases due jobs. It waits for the first as long as the request says, and may return none. An
// error may leave jobs leased; they are due again when their leases end.
func (c *Client) Pull(ctx context.Context, r PullRequest, options ...CallOption) ([]LeasedJob, error) {
	target := "/v1/pull"
	if len(r.Topics) == 1 {
		target, r.Topics = path("v1", "topics", r.Topics[0], "pull"), nil
	}
	answer, err := do[struct {
		Jobs []LeasedJob `json:"jobs"`
	}](ctx, c, newCall(http.MethodPost, false, target, r, options))
	return answer.Jobs, err
}

type receiptResults struct {
	Results []ReceiptResult `json:"results"`
}

// Ack ends leased jobs as delivered, up to 100.
func (c *Client) Ack(ctx context.Context, receipts []string, options ...CallOption) ([]ReceiptResult, error) {
	answer, err := do[receiptResults](ctx, c, newCall(http.MethodPost, true, "/v1/pull/ack", map[string]any{"receipts": receipts}, options))
	return answer.Results, err
}

// longestDelay is that of the server.
const longestDelay = Duration(365 * 24 * time.Hour)

// Nack gives leased jobs up, up to 100.
func (c *Client) Nack(ctx context.Context, nacks []Nack, options ...CallOption) ([]ReceiptResult, error) {
	nacks = slices.Clone(nacks)
	for i := range nacks {
		if d := nacks[i].Delay; d != nil { // a handler computes it: one that is out of bounds must not have all refused
			bounded := min(max(*d, 0), longestDelay)
			nacks[i].Delay = &bounded
		}
	}
	answer, err := do[receiptResults](ctx, c, newCall(http.MethodPost, true, "/v1/pull/nack", map[string]any{"receipts": nacks}, options))
	return answer.Results, err
}

// Extend gives leases a new end, lease from now: 1 s to 12 h.
func (c *Client) Extend(ctx context.Context, receipts []string, lease time.Duration, options ...CallOption) ([]ReceiptResult, error) {
	body := map[string]any{"receipts": receipts, "lease": Duration(lease)}
	answer, err := do[receiptResults](ctx, c, newCall(http.MethodPost, true, "/v1/pull/extend", body, options))
	return answer.Results, err
}
