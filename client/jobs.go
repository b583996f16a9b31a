package client

import (
	"context"
	"crypto/rand"
	"iter"
	"net/http"
	"time"
)

// Patch changes the fields that it names; nil removes a field (JSON Merge Patch, RFC 7396).
type Patch map[string]any

// JobFilter selects jobs; a job must match all fields that are set.
type JobFilter struct {
	Topic       string            `json:"topic,omitempty" query:"topic"`
	State       []State           `json:"state,omitempty" query:"state"`
	ID          string            `json:"id,omitempty" query:"id"` // ids that begin with this
	UID         string            `json:"uid,omitempty" query:"uid"`
	BizKey      string            `json:"biz_key,omitempty" query:"biz_key"`
	OrderKey    string            `json:"order_key,omitempty" query:"order_key"`
	Endpoint    string            `json:"endpoint,omitempty" query:"endpoint"`
	GroupID     string            `json:"group_id,omitempty" query:"group_id"`
	Schedule    string            `json:"schedule,omitempty" query:"schedule"`
	Labels      map[string]string `json:"labels,omitempty" query:"labels"`
	Priority    int               `json:"priority,omitempty" query:"priority"`
	Dialect     string            `json:"dialect,omitempty" query:"dialect"` // of the API that registered the job
	Reason      string            `json:"reason,omitempty" query:"reason"`
	DueFrom     time.Time         `json:"due_from,omitzero" query:"due_from"`
	DueTo       time.Time         `json:"due_to,omitzero" query:"due_to"`
	CreatedFrom time.Time         `json:"created_from,omitzero" query:"created_from"`
	CreatedTo   time.Time         `json:"created_to,omitzero" query:"created_to"`
}

// JobQuery is a list of jobs.
type JobQuery struct {
	JobFilter
	Order string `query:"order"` // due or -due of waiting or retrying jobs, -ended of ended ones; needs State
	Paging
}

// newID is an id that no other job has.
func newID() string { return rand.Text() }

// Register registers a job. Without an ID the job gets a random one, so that the call can be
// repeated. Use RegisterGroup for a registration with a Group.
func (c *Client) Register(ctx context.Context, r Registration, options ...CallOption) (RegisteredJob, error) {
	return do[RegisteredJob](ctx, c, registration(r, options))
}

// FanOut is the jobs of a registration for a group, in the order of the group.
type FanOut struct {
	Group   string          `json:"group"`
	GroupID string          `json:"group_id"`
	Jobs    []RegisteredJob `json:"jobs"`
	DryRun  bool            `json:"dry_run"` // nothing was registered
}

// RegisterGroup registers a job for each member of r.Group.
func (c *Client) RegisterGroup(ctx context.Context, r Registration, options ...CallOption) (FanOut, error) {
	return do[FanOut](ctx, c, registration(r, options))
}

func registration(r Registration, options []CallOption) *call {
	k := newCall(http.MethodPost, true, "/v1/jobs", nil, options)
	if r.ID == "" && k.header.Get("Idempotency-Key") == "" {
		r.ID = newID()
	}
	k.body = r
	return k
}

// Result is the outcome of one registration of a batch. Error is nil if the job is registered.
type Result struct {
	Status int    `json:"status"`
	Result string `json:"result"`
	Job    *Job   `json:"job"`
	FanOut        // of a registration for a group
	Error  *Error `json:"error"`
}

// RegisterBatch registers up to 1,000 jobs. Results have their order. Jobs without an ID get
// random ones, which RegisterBatch writes into jobs.
func (c *Client) RegisterBatch(ctx context.Context, jobs []Registration, options ...CallOption) ([]Result, error) {
	for i := range jobs {
		if jobs[i].ID == "" {
			jobs[i].ID = newID()
		}
	}
	body := struct {
		Jobs []Registration `json:"jobs"`
	}{jobs}
	answer, err := do[struct {
		Results []Result `json:"results"`
	}](ctx, c, newCall(http.MethodPost, true, "/v1/jobs/batch", body, options))
	return answer.Results, err
}

// PlanJob returns when the attempts of a job would be, and registers nothing.
func (c *Client) PlanJob(ctx context.Context, r Registration) (Plan, error) {
	return do[Plan](ctx, c, newCall(http.MethodPost, true, "/v1/jobs/plan", r, nil))
}

// Job returns a job.
func (c *Client) Job(ctx context.Context, topic, id string) (JobDetails, error) {
	return do[JobDetails](ctx, c, read("v1", "jobs", topic, id))
}

// Jobs lists jobs.
func (c *Client) Jobs(ctx context.Context, q JobQuery) iter.Seq2[Job, error] {
	return all[Job](ctx, c, q, "v1", "jobs")
}

// JobPage returns one page of jobs.
func (c *Client) JobPage(ctx context.Context, q JobQuery) (Page[Job], error) {
	return page[Job](ctx, c, q, "v1", "jobs")
}

// Attempts lists the attempts of a job, oldest first.
func (c *Client) Attempts(ctx context.Context, topic, id string) iter.Seq2[Attempt, error] {
	return all[Attempt](ctx, c, Paging{}, "v1", "jobs", topic, id, "attempts")
}

// Explain returns why a job has not run yet.
func (c *Client) Explain(ctx context.Context, topic, id string) (Explanation, error) {
	return do[Explanation](ctx, c, read("v1", "jobs", topic, id, "explain"))
}

// JobRegistration returns the job in the form that Register takes, with headers and body.
func (c *Client) JobRegistration(ctx context.Context, topic, id string) (Registration, error) {
	return do[Registration](ctx, c, read("v1", "jobs", topic, id, "registration"))
}

// ChangeJob changes an unfinished job, for example Patch{"delay": "1h"}.
func (c *Client) ChangeJob(ctx context.Context, topic, id string, change Patch, options ...CallOption) (JobDetails, error) {
	return do[JobDetails](ctx, c, newCall(http.MethodPatch, true, path("v1", "jobs", topic, id), change, options))
}

// Cancellation is what CancelJob did: cancelled, discarded (a dead letter), or in_flight: an
// attempt may still arrive, and no other follows.
type Cancellation struct {
	Result  string `json:"result"`
	Attempt int    `json:"attempt"` // the attempt in flight
}

// CancelJob cancels a job, or discards a dead letter.
func (c *Client) CancelJob(ctx context.Context, topic, id string, options ...CallOption) (Cancellation, error) {
	return do[Cancellation](ctx, c, newCall(http.MethodDelete, true, path("v1", "jobs", topic, id), nil, options))
}

// RunJob makes a job due now.
func (c *Client) RunJob(ctx context.Context, topic, id string, options ...CallOption) (JobDetails, error) {
	return do[JobDetails](ctx, c, newCall(http.MethodPost, true, path("v1", "jobs", topic, id, "run"), nil, options))
}

// FinishJob ends an unfinished job as delivered, without a delivery.
func (c *Client) FinishJob(ctx context.Context, topic, id string, options ...CallOption) (JobDetails, error) {
	return do[JobDetails](ctx, c, newCall(http.MethodPost, true, path("v1", "jobs", topic, id, "finish"), nil, options))
}

// ReplayJob makes an ended job due again, changed by a patch that may be nil.
func (c *Client) ReplayJob(ctx context.Context, topic, id string, change Patch, options ...CallOption) (JobDetails, error) {
	return do[JobDetails](ctx, c, newCall(http.MethodPost, false, path("v1", "jobs", topic, id, "replay"), optional(change), options))
}

// optional is a body, or none for an empty patch.
func optional(p Patch) any {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Counted is the count of a job after an addition.
type Counted struct {
	Count  int64 `json:"count"`
	Target int64 `json:"target"`
	Fired  bool  `json:"fired"`
	Late   bool  `json:"late"` // the job had ended, and nothing was added
}

// CountJob adds n to the count of a job. The key counts once; an empty one is replaced by a random
// one, so that the call can be repeated.
func (c *Client) CountJob(ctx context.Context, topic, id string, n int64, key string) (Counted, error) {
	if key == "" {
		key = newID()
	}
	body := map[string]any{"add": n, "key": key}
	return do[Counted](ctx, c, newCall(http.MethodPost, true, path("v1", "jobs", topic, id, "count"), body, nil))
}

// DeadGroup is the dead letters of a topic and an endpoint with one reason.
type DeadGroup struct {
	Topic    string    `json:"topic"`
	Endpoint string    `json:"endpoint"`
	Reason   string    `json:"reason"`
	Count    int64     `json:"count"`
	OldestAt time.Time `json:"oldest_at"`
	NewestAt time.Time `json:"newest_at"`
}

// DeadQuery selects groups of dead letters.
type DeadQuery struct {
	Topic string `query:"topic"` // of all topics if empty
	Paging
}

// DeadGroups lists the groups of dead letters.
func (c *Client) DeadGroups(ctx context.Context, q DeadQuery) iter.Seq2[DeadGroup, error] {
	return all[DeadGroup](ctx, c, q, "v1", "dead")
}
