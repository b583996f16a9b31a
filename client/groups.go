package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Member is a receiver of a group.
type Member struct {
	Name        string            `json:"name"`
	URL         string            `json:"url"`
	Headers     map[string]string `json:"headers,omitempty"`
	FilterLabel string            `json:"filter_label,omitempty"`
}

// Group is a group of receivers.
type Group struct {
	Name      string    `json:"name"`
	Members   []Member  `json:"members"`
	Version   uint64    `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Groups lists groups by name.
func (c *Client) Groups(ctx context.Context, q Paging) iter.Seq2[Group, error] {
	return all[Group](ctx, c, q, "v1", "groups")
}

// Group returns a group.
func (c *Client) Group(ctx context.Context, name string) (Group, error) {
	return do[Group](ctx, c, read("v1", "groups", name))
}

// MemberQuery selects members of a group.
type MemberQuery struct {
	Q string `query:"q"` // a part of the name, of the filter label, or of scheme, host and port of the URL
	Paging
}

// Members lists the members of a group by name.
func (c *Client) Members(ctx context.Context, group string, q MemberQuery) iter.Seq2[Member, error] {
	return all[Member](ctx, c, q, "v1", "groups", group, "members")
}

// PutGroup creates a group or replaces its members.
func (c *Client) PutGroup(ctx context.Context, name string, members []Member, options ...CallOption) (Group, error) {
	if members == nil {
		members = []Member{}
	}
	body := map[string]any{"members": members}
	return do[Group](ctx, c, newCall(http.MethodPut, true, path("v1", "groups", name), body, options))
}

// PatchGroup changes some members of a group.
func (c *Client) PatchGroup(ctx context.Context, name string, p Patch, options ...CallOption) (Group, error) {
	return do[Group](ctx, c, newCall(http.MethodPatch, true, path("v1", "groups", name), p, options))
}

// DeleteGroup deletes a group. Its jobs stay.
func (c *Client) DeleteGroup(ctx context.Context, name string, options ...CallOption) (Deleted, error) {
	return do[Deleted](ctx, c, newCall(http.MethodDelete, true, path("v1", "groups", name), nil, options))
}
