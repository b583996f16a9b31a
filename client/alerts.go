package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// RuleDraft is an alert rule to put.
type RuleDraft struct {
	Metric   string   `json:"metric"`
	Topic    string   `json:"topic,omitempty"`
	Endpoint string   `json:"endpoint,omitempty"`
	Above    *float64 `json:"above,omitempty"`
	Window   Duration `json:"window,omitzero"`
	URL      string   `json:"url,omitempty"`
	Format   string   `json:"format,omitempty"` // json, slack or teams
}

// Rule is an alert rule.
type Rule struct {
	Name string `json:"name"`
	RuleDraft
	Version   uint64    `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Alert is a firing alert.
type Alert struct {
	ID        string    `json:"id"`
	Rule      string    `json:"rule"`
	Metric    string    `json:"metric"`
	Topic     string    `json:"topic"`
	Endpoint  string    `json:"endpoint"`
	Node      string    `json:"node"`
	Trouble   string    `json:"trouble"` // of the store's server or an inbox, and what causes it
	Value     float64   `json:"value"`   // when it fired
	Threshold float64   `json:"threshold"`
	FiredAt   time.Time `json:"fired_at"`
}

// Alerts lists firing alerts.
func (c *Client) Alerts(ctx context.Context, q Paging) iter.Seq2[Alert, error] {
	return all[Alert](ctx, c, q, "v1", "alerts")
}

// Rules lists alert rules by name.
func (c *Client) Rules(ctx context.Context, q Paging) iter.Seq2[Rule, error] {
	return all[Rule](ctx, c, q, "v1", "alerts", "rules")
}

// Rule returns an alert rule.
func (c *Client) Rule(ctx context.Context, name string) (Rule, error) {
	return do[Rule](ctx, c, read("v1", "alerts", "rules", name))
}

// PutRule creates or replaces an alert rule.
func (c *Client) PutRule(ctx context.Context, name string, d RuleDraft, options ...CallOption) (Rule, error) {
	return do[Rule](ctx, c, newCall(http.MethodPut, true, path("v1", "alerts", "rules", name), d, options))
}

// PatchRule changes some fields of an alert rule.
func (c *Client) PatchRule(ctx context.Context, name string, p Patch, options ...CallOption) (Rule, error) {
	return do[Rule](ctx, c, newCall(http.MethodPatch, true, path("v1", "alerts", "rules", name), p, options))
}

// DeleteRule deletes an alert rule.
func (c *Client) DeleteRule(ctx context.Context, name string, options ...CallOption) (Deleted, error) {
	return do[Deleted](ctx, c, newCall(http.MethodDelete, true, path("v1", "alerts", "rules", name), nil, options))
}
