package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"
)

// Caller is the key of the calls.
type Caller struct {
	Key     string   `json:"key"` // its id; empty if the server requires no key
	KeyName string   `json:"key_name"`
	Scope   string   `json:"scope"`
	Topics  []string `json:"topics"`
}

// WhoAmI returns the key of the calls.
func (c *Client) WhoAmI(ctx context.Context) (Caller, error) {
	return do[Caller](ctx, c, read("v1", "whoami"))
}

// KeyDraft is an API key to create.
type KeyDraft struct {
	Name      string    `json:"name,omitempty"`
	Scope     string    `json:"scope"`
	Topics    []string  `json:"topics,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Rate      string    `json:"rate,omitempty"` // such as 100/1s
}

// Key is an API key. Token is set by CreateKey only.
type Key struct {
	Token     string    `json:"token"`
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Scope     string    `json:"scope"`
	Topics    []string  `json:"topics"`
	Namespace string    `json:"namespace"`
	State     string    `json:"state"`      // active, expired or unreadable
	CreatedAt time.Time `json:"created_at"` // zero for a key of the settings
	UpdatedAt time.Time `json:"updated_at"`
	Version   uint64    `json:"version"`
	ExpiresAt time.Time `json:"expires_at"`
	Rate      string    `json:"rate"`
	Source    string    `json:"source"` // settings or store
}

// Keys lists API keys.
func (c *Client) Keys(ctx context.Context, q Paging) iter.Seq2[Key, error] {
	return all[Key](ctx, c, q, "v1", "keys")
}

// Key returns an API key, without its token.
func (c *Client) Key(ctx context.Context, id string) (Key, error) {
	return do[Key](ctx, c, read("v1", "keys", id))
}

// CreateKey creates an API key. Only this answer has its token.
func (c *Client) CreateKey(ctx context.Context, d KeyDraft) (Key, error) {
	return do[Key](ctx, c, newCall(http.MethodPost, false, "/v1/keys", d, nil))
}

// RevokeKey revokes an API key.
func (c *Client) RevokeKey(ctx context.Context, id string, options ...CallOption) (Deleted, error) {
	return do[Deleted](ctx, c, newCall(http.MethodDelete, true, path("v1", "keys", id), nil, options))
}

// Secrets are the secrets that sign deliveries. Secret is set by the calls that make one.
type Secrets struct {
	Secret    string    `json:"secret"`
	Topic     string    `json:"topic"` // empty for the default
	Source    string    `json:"source"`
	CreatedAt time.Time `json:"created_at"` // zero without secrets of the topic's own
	UpdatedAt time.Time `json:"updated_at"`
	Version   uint64    `json:"version"`
	Secrets   []Secret  `json:"secrets"`
}

// Secret is a signing secret without its value.
type Secret struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	EndsAt    time.Time `json:"ends_at"`
}

// secrets is the path of a topic's secrets, or of the default ones for an empty topic.
func secrets(topic string, more ...string) string {
	if topic == "" {
		return path(append([]string{"v1", "signing"}, more...)...)
	}
	return path(append([]string{"v1", "topics", topic, "signing"}, more...)...)
}

// Secrets returns the secrets of a topic, or the default ones for an empty topic.
func (c *Client) Secrets(ctx context.Context, topic string) (Secrets, error) {
	return do[Secrets](ctx, c, newCall(http.MethodGet, true, secrets(topic), nil, nil))
}

// SetSecret sets the only secret of a topic, or the default for an empty topic. The server makes
// one if secret is empty.
func (c *Client) SetSecret(ctx context.Context, topic, secret string, options ...CallOption) (Secrets, error) {
	body := struct {
		Secret string `json:"secret,omitempty"`
	}{secret}
	return do[Secrets](ctx, c, newCall(http.MethodPut, secret != "", secrets(topic), body, options))
}

// Rotation is a new secret that signs beside the old ones.
type Rotation struct {
	Secret  string    `json:"secret,omitempty"`  // made by the server if empty
	Overlap *Duration `json:"overlap,omitempty"` // 24h if nil
}

// RotateSecret adds a secret of a topic, or a default one for an empty topic.
func (c *Client) RotateSecret(ctx context.Context, topic string, r Rotation, options ...CallOption) (Secrets, error) {
	return do[Secrets](ctx, c, newCall(http.MethodPost, r.Secret != "", secrets(topic, "rotate"), r, options))
}

// DeleteSecrets removes the secrets of a topic.
func (c *Client) DeleteSecrets(ctx context.Context, topic string, options ...CallOption) (Deleted, error) {
	return do[Deleted](ctx, c, newCall(http.MethodDelete, true, path("v1", "topics", topic, "signing"), nil, options))
}

// Overview is the figures of the whole server.
type Overview struct {
	AsOf         time.Time       `json:"as_of"`
	AgeMS        int64           `json:"age_ms"`
	States       map[State]int64 `json:"states"`
	DueNow       int64           `json:"due_now"`
	DueWithin1h  int64           `json:"due_within_1h"`
	InFlight     int64           `json:"in_flight"`
	Dead         int64           `json:"dead"`
	OpenCircuits int64           `json:"open_circuits"`
	SuccessRate  *float64        `json:"success_rate"`
	LatenessP99  *int64          `json:"lateness_p99_ms"`
	Due          DueSteps        `json:"due"`
	Recent       RecentSteps     `json:"recent"`
	Topics       []BusyTopic     `json:"topics"`
}

// DueSteps are the jobs of the next day by quarter of an hour.
type DueSteps struct {
	From        time.Time `json:"from"`
	StepMS      int64     `json:"step_ms"`
	Counts      []int64   `json:"counts"`
	Later       int64     `json:"later"`
	PartialFrom time.Time `json:"partial_from"`
}

// RecentSteps are the attempts of the last hour by minute.
type RecentSteps struct {
	From      time.Time `json:"from"`
	StepMS    int64     `json:"step_ms"`
	Delivered []int64   `json:"delivered"`
	Failed    []int64   `json:"failed"`
	Lateness  struct {
		BoundsMS []int64   `json:"bounds_ms"`
		Counts   [][]int64 `json:"counts"`
	} `json:"lateness"`
}

// BusyTopic is a topic with many unfinished jobs.
type BusyTopic struct {
	Topic      string `json:"topic"`
	Unfinished int64  `json:"unfinished"`
}

// Overview returns the figures of the whole server.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	return do[Overview](ctx, c, read("v1", "overview"))
}

// ActivityQuery selects whose attempts Activity returns: those of a topic, of an endpoint, or of
// all jobs.
type ActivityQuery struct {
	Window   string `query:"window"` // 1h, the default, or 24h
	Topic    string `query:"topic"`
	Endpoint string `query:"endpoint"` // its URL
}

// Activity is attempts by their start, in the steps of a window.
type Activity struct {
	Window    string    `json:"window"`
	Topic     string    `json:"topic"`
	Endpoint  string    `json:"endpoint"`
	From      time.Time `json:"from"`
	StepMS    int64     `json:"step_ms"`
	Partial   bool      `json:"partial"` // some node counts busier topics or endpoints instead
	Delivered []int64   `json:"delivered"`
	Failed    []int64   `json:"failed"`
	Dead      []int64   `json:"dead"`    // failed attempts after which the job was dead
	Expired   []int64   `json:"expired"` // failed attempts after which the job had expired
}

// Activity returns the attempts of the last hour or day.
func (c *Client) Activity(ctx context.Context, q ActivityQuery) (Activity, error) {
	k := read("v1", "activity")
	encode(k.query, q)
	return do[Activity](ctx, c, k)
}

// Node is a process that serves.
type Node struct {
	ID           string    `json:"id"`
	State        string    `json:"state"` // running or silent
	Host         string    `json:"host"`
	Version      string    `json:"version"`
	Store        string    `json:"store"` // embedded or redis
	StartedAt    time.Time `json:"started_at"`
	SeenAt       time.Time `json:"seen_at"`
	ClockAheadMS int64     `json:"clock_ahead_ms"` // of the store's clock
}

// Nodes lists the nodes on the store.
func (c *Client) Nodes(ctx context.Context, q Paging) iter.Seq2[Node, error] {
	return all[Node](ctx, c, q, "v1", "nodes")
}

// Live returns nil if the process runs.
func (c *Client) Live(ctx context.Context) error { return c.probe(ctx, "livez") }

// Ready returns nil if the server can serve. Otherwise the *Error says why.
func (c *Client) Ready(ctx context.Context) error { return c.probe(ctx, "readyz") }

func (c *Client) probe(ctx context.Context, path string) error {
	k := read(path)
	k.safe = false // the answer is about this moment
	_, err := do[json.RawMessage](ctx, c, k)
	return err
}

// Metrics returns the metrics in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) { return c.raw(ctx, "metrics") }

// Document returns the OpenAPI document of the server.
func (c *Client) Document(ctx context.Context) ([]byte, error) { return c.raw(ctx, "openapi.json") }

func (c *Client) raw(ctx context.Context, path string) (data []byte, err error) {
	err = c.exchange(ctx, read(path), func(resp *http.Response) error {
		if data, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
			return fmt.Errorf("read /%s: %w", path, err)
		}
		return nil
	})
	return data, err
}
