package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Inbox is a database whose rows become jobs. Counts end at 10,000.
type Inbox struct {
	Name     string   `json:"name"`
	Database string   `json:"database"` // postgres or mysql
	Topics   []string `json:"topics"`   // that its rows may use; none: all
	Reading  bool     `json:"reading"`  // by the node that answers
	Fresh    int      `json:"fresh"`    // rows to be read
	Waiting  int      `json:"waiting"`  // rows that wait for a topic or a job
	Failed   int      `json:"failed"`
	Error    string   `json:"error"` // of the database
}

// SetAsideRow is a row of an inbox that failed or waits.
type SetAsideRow struct {
	ID        int64      `json:"id"`
	Key       string     `json:"key"`
	Request   string     `json:"request"` // its first 2000 characters
	CreatedAt time.Time  `json:"created_at"`
	FailedAt  *time.Time `json:"failed_at"`
	Error     string     `json:"error"`
	WaitsFor  string     `json:"waits_for"` // a topic, or the topic and id of a job in flight
}

// SetAsideQuery selects rows that failed, or those that wait.
type SetAsideQuery struct {
	State string `query:"state"` // failed, or waiting; empty: failed
	Paging
}

// SetAsideRows selects failed rows: some or all.
type SetAsideRows struct {
	IDs []int64 `json:"ids,omitempty"`
	All bool    `json:"all,omitempty"`
}

// ChangedRows is how many rows a call changed.
type ChangedRows struct {
	Rows int `json:"rows"`
}

// Inboxes lists the inboxes by name.
func (c *Client) Inboxes(ctx context.Context, q Paging) iter.Seq2[Inbox, error] {
	return all[Inbox](ctx, c, q, "v1", "inboxes")
}

// SetAside lists rows of an inbox that failed or wait, by id.
func (c *Client) SetAside(ctx context.Context, inbox string, q SetAsideQuery) iter.Seq2[SetAsideRow, error] {
	return all[SetAsideRow](ctx, c, q, "v1", "inboxes", inbox, "rows")
}

// RetryRows has failed rows read again.
func (c *Client) RetryRows(ctx context.Context, inbox string, rows SetAsideRows) (ChangedRows, error) {
	return do[ChangedRows](ctx, c, newCall(http.MethodPost, true, path("v1", "inboxes", inbox, "retry"), rows, nil))
}

// DropRows deletes failed rows.
func (c *Client) DropRows(ctx context.Context, inbox string, rows SetAsideRows) (ChangedRows, error) {
	return do[ChangedRows](ctx, c, newCall(http.MethodPost, true, path("v1", "inboxes", inbox, "drop"), rows, nil))
}
