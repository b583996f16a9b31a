package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// OperationDraft is a change to many jobs.
type OperationDraft struct {
	Action string    `json:"action"` // cancel, run, replay, reschedule or discard
	Filter JobFilter `json:"filter"`
	All    bool      `json:"all,omitempty"`  // allows an empty filter
	Rate   int       `json:"rate,omitempty"` // most jobs per second; zero means 500
	Delay  Duration  `json:"delay,omitzero"` // of reschedule
	At     time.Time `json:"at,omitzero"`    // of reschedule
	Set    Patch     `json:"set,omitempty"`  // of replay: a change of each job
}

// Operation is a change to many jobs, at work or ended.
type Operation struct {
	ID           string           `json:"id"`
	Action       string           `json:"action"`
	Filter       AppliedFilter    `json:"filter"`
	RescheduleTo time.Time        `json:"reschedule_to"`
	Set          []string         `json:"set"`
	Rate         int              `json:"rate"`
	State        string           `json:"state"` // running, stopped, done or failed
	Worker       string           `json:"worker"`
	By           string           `json:"by"` // the key that began it
	Reason       string           `json:"reason"`
	Estimate     *int64           `json:"estimate"`
	Matched      int64            `json:"matched"`
	Changed      int64            `json:"changed"`
	Skipped      int64            `json:"skipped"`
	Failed       int64            `json:"failed"`
	Errors       []OperationError `json:"errors"`
	UpdatedAt    time.Time        `json:"updated_at"`
	EndedAt      time.Time        `json:"ended_at"`
	CreatedAt    time.Time        `json:"created_at"`
	Version      uint64           `json:"version"`
}

// AppliedFilter is the filter of an operation, with the topics of a restricted key.
type AppliedFilter struct {
	JobFilter
	Topics []string `json:"topics"`
}

// OperationError is a job that an operation could not change.
type OperationError struct {
	Topic   string `json:"topic"`
	ID      string `json:"id"`
	Message string `json:"message"`
}

// Counting is the result of a dry run.
type Counting struct {
	Action   string        `json:"action"`
	Filter   AppliedFilter `json:"filter"`
	Rate     int           `json:"rate"`
	Matched  int64         `json:"matched"`
	DryRun   bool          `json:"dry_run"`  // always true
	Complete bool          `json:"complete"` // false: Matched is a lower bound
}

// StartOperation starts an operation.
func (c *Client) StartOperation(ctx context.Context, d OperationDraft, options ...CallOption) (Operation, error) {
	options = append([]CallOption{WithIdempotencyKey(newID())}, options...)
	return do[Operation](ctx, c, newCall(http.MethodPost, true, "/v1/operations", d, options))
}

// CountOperation counts the jobs that an operation would change.
func (c *Client) CountOperation(ctx context.Context, d OperationDraft) (Counting, error) {
	return do[Counting](ctx, c, newCall(http.MethodPost, true, "/v1/operations", d, []CallOption{DryRun()}))
}

// Operations lists operations, newest first.
func (c *Client) Operations(ctx context.Context, q Paging) iter.Seq2[Operation, error] {
	return all[Operation](ctx, c, q, "v1", "operations")
}

// Operation returns an operation.
func (c *Client) Operation(ctx context.Context, id string) (Operation, error) {
	return do[Operation](ctx, c, read("v1", "operations", id))
}

// StopOperation stops an operation. It can be resumed.
func (c *Client) StopOperation(ctx context.Context, id string, options ...CallOption) (Operation, error) {
	return do[Operation](ctx, c, newCall(http.MethodPost, true, path("v1", "operations", id, "stop"), nil, options))
}

// ResumeOperation continues a stopped operation.
func (c *Client) ResumeOperation(ctx context.Context, id string, options ...CallOption) (Operation, error) {
	return do[Operation](ctx, c, newCall(http.MethodPost, true, path("v1", "operations", id, "resume"), nil, options))
}
