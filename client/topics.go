package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Pause is a pause of a topic or a schedule.
type Pause struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"` // zero: until it is resumed
	// Reason is why the server paused a schedule: receiver_gone or dead_occurrences. Empty: a client did.
	Reason string `json:"reason"`
	By     string `json:"by"`
	Note   string `json:"note"`
}

// PauseOptions are what a pause may say.
type PauseOptions struct {
	Until time.Time `json:"until,omitzero"`
	Note  string    `json:"note,omitempty"`
}

// Topic is a topic with the counts of its jobs.
type Topic struct {
	Name         string           `json:"name"`
	State        string           `json:"state"` // active, paused or draining
	Paused       *Pause           `json:"paused"`
	Draining     *Pause           `json:"draining"`
	Settings     *TopicSettings   `json:"settings"`
	Limits       *TopicLimits     `json:"limits"` // of operators; they hold beside those of Settings
	States       map[State]int64  `json:"states"`
	DueIn        map[string]int64 `json:"due_in"` // not in lists
	Overdue      int64            `json:"overdue"`
	DueInPartial bool             `json:"due_in_partial"`
	Version      uint64           `json:"version"`
	CreatedAt    time.Time        `json:"created_at"`
	UpdatedAt    time.Time        `json:"updated_at"`
}

// TopicSettings are the limits of a topic and the defaults of its jobs.
type TopicSettings struct {
	Capacity    int64             `json:"capacity,omitempty"`
	Rate        float64           `json:"rate,omitempty"` // deliveries per second
	Concurrency int               `json:"concurrency,omitempty"`
	Weight      int               `json:"weight,omitempty"`
	OnDead      string            `json:"on_dead,omitempty"`
	URL         string            `json:"url,omitempty"` // of jobs that name none
	Retry       *Retry            `json:"retry,omitempty"`
	Timeout     Duration          `json:"timeout,omitzero"`
	TTL         Duration          `json:"ttl,omitzero"`
	Headers     map[string]string `json:"headers,omitempty"`
	Priority    int               `json:"priority,omitempty"`
	Spread      Duration          `json:"spread,omitzero"`
	Callbacks   *Callbacks        `json:"callbacks,omitempty"`
}

// TopicLimits are limits that operators set for a topic. Zero values mean none.
type TopicLimits struct {
	Capacity    int64   `json:"capacity,omitempty"`
	Rate        float64 `json:"rate,omitempty"` // deliveries per second
	Concurrency int     `json:"concurrency,omitempty"`
	Weight      int     `json:"weight,omitempty"`
}

// StoredTopicLimits are limits with the times and the version of their topic.
type StoredTopicLimits struct {
	TopicLimits
	Version   uint64    `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// TopicQuery is a list of topics.
type TopicQuery struct {
	Q     string `query:"q"`     // a part of the name
	Order string `query:"order"` // "-unfinished": at most 100 topics, those with the most unfinished jobs first; else by name
	Paging
}

// Topics lists topics, by name unless the query has an order.
func (c *Client) Topics(ctx context.Context, q TopicQuery) iter.Seq2[Topic, error] {
	return all[Topic](ctx, c, q, "v1", "topics")
}

// Topic returns a topic.
func (c *Client) Topic(ctx context.Context, name string) (Topic, error) {
	return do[Topic](ctx, c, read("v1", "topics", name))
}

// PutTopic replaces the settings of a topic.
func (c *Client) PutTopic(ctx context.Context, name string, s TopicSettings, options ...CallOption) (Topic, error) {
	return do[Topic](ctx, c, newCall(http.MethodPut, true, path("v1", "topics", name), s, options))
}

// PatchTopic changes some settings of a topic, for example Patch{"rate": 5}.
func (c *Client) PatchTopic(ctx context.Context, name string, p Patch, options ...CallOption) (Topic, error) {
	return do[Topic](ctx, c, newCall(http.MethodPatch, true, path("v1", "topics", name), p, options))
}

// Deleted is the answer to a deletion.
type Deleted struct {
	Result string `json:"result"`
}

// DeleteTopic deletes the settings of a topic. Its jobs stay.
func (c *Client) DeleteTopic(ctx context.Context, name string, options ...CallOption) (Deleted, error) {
	return do[Deleted](ctx, c, newCall(http.MethodDelete, true, path("v1", "topics", name), nil, options))
}

// TopicLimits returns the limits that operators set for a topic.
func (c *Client) TopicLimits(ctx context.Context, name string) (StoredTopicLimits, error) {
	return do[StoredTopicLimits](ctx, c, read("v1", "topics", name, "limits"))
}

// PutTopicLimits replaces the limits of operators for a topic. It needs an admin key of all topics.
func (c *Client) PutTopicLimits(ctx context.Context, name string, l TopicLimits, options ...CallOption) (StoredTopicLimits, error) {
	return do[StoredTopicLimits](ctx, c, newCall(http.MethodPut, true, path("v1", "topics", name, "limits"), l, options))
}

// DeleteTopicLimits removes the limits of operators for a topic. Its settings stay.
func (c *Client) DeleteTopicLimits(ctx context.Context, name string, options ...CallOption) (Deleted, error) {
	return do[Deleted](ctx, c, newCall(http.MethodDelete, true, path("v1", "topics", name, "limits"), nil, options))
}

// PauseTopic stops the deliveries of a topic.
func (c *Client) PauseTopic(ctx context.Context, name string, p PauseOptions, options ...CallOption) (Topic, error) {
	return do[Topic](ctx, c, newCall(http.MethodPost, true, path("v1", "topics", name, "pause"), p, options))
}

// DrainOptions are what a drain may say.
type DrainOptions struct {
	Note string `json:"note,omitempty"`
}

// DrainTopic has a topic refuse new jobs and deliver the others.
func (c *Client) DrainTopic(ctx context.Context, name string, d DrainOptions, options ...CallOption) (Topic, error) {
	return do[Topic](ctx, c, newCall(http.MethodPost, true, path("v1", "topics", name, "drain"), d, options))
}

// ResumeTopic ends a pause or a drain.
func (c *Client) ResumeTopic(ctx context.Context, name string, options ...CallOption) (Topic, error) {
	return do[Topic](ctx, c, newCall(http.MethodPost, true, path("v1", "topics", name, "resume"), nil, options))
}

// Endpoint is the state of scheme://host:port.
type Endpoint struct {
	Endpoint      string    `json:"endpoint"`
	State         string    `json:"state"` // closed, open or half_open
	ReopensAt     time.Time `json:"reopens_at"`
	Waiting       int64     `json:"waiting"`
	Ready         int64     `json:"ready"`
	InFlight      int64     `json:"in_flight"`
	Failures      int64     `json:"failures"`
	LastError     string    `json:"last_error"`
	LastFailureAt time.Time `json:"last_failure_at"`
	LastSuccessAt time.Time `json:"last_success_at"`
}

// EndpointQuery is a list of endpoints.
type EndpointQuery struct {
	State    []string `query:"state"`
	Endpoint string   `query:"endpoint"` // only that of this URL
	Paging
}

// Endpoints lists endpoints by name.
func (c *Client) Endpoints(ctx context.Context, q EndpointQuery) iter.Seq2[Endpoint, error] {
	return all[Endpoint](ctx, c, q, "v1", "endpoints")
}

// TryEndpoint half-opens an open circuit now.
func (c *Client) TryEndpoint(ctx context.Context, endpoint string, options ...CallOption) (Endpoint, error) {
	body := map[string]string{"endpoint": endpoint}
	return do[Endpoint](ctx, c, newCall(http.MethodPost, true, "/v1/endpoints/try", body, options))
}

// Test is a request to send at once, without a job.
type Test struct {
	Topic       string            `json:"topic,omitempty"`
	URL         string            `json:"url"`
	Method      string            `json:"method,omitempty"`
	Body        any               `json:"body,omitempty"`
	BodyText    string            `json:"body_text,omitempty"`
	BodyBytes   []byte            `json:"body_base64,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Timeout     Duration          `json:"timeout,omitzero"`
	Expect      *Expect           `json:"expect,omitempty"`
}

// TestResult is the result of a test.
type TestResult struct {
	Delivered bool    `json:"delivered"`
	Attempt   Attempt `json:"attempt"`
}

// TestEndpoint makes one attempt at once and returns it.
func (c *Client) TestEndpoint(ctx context.Context, t Test) (TestResult, error) {
	return do[TestResult](ctx, c, newCall(http.MethodPost, false, "/v1/endpoints/test", t, nil))
}
