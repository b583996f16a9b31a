package client

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The bounds of a registration that no setting of a server moves.
const (
	maxName   = 128  // bytes
	maxURL    = 2048 // characters
	maxDelay  = 366 * 24 * time.Hour
	maxLabels = 8
)

// InboxRow returns the JSON for the column request of an inbox table, so that a job is registered in a transaction of
// the application: INSERT INTO duehook_inbox (request) VALUES ($1). Without an ID the job gets one that is made of the
// key of its row.
//
// It checks what needs no server. The error is an *Error with each wrong field and the code ErrInvalidRequest. What the
// server refuses later, such as a blocked destination or a body beyond its limit, stays in the table with its error.
func InboxRow(r Registration) (string, error) {
	var f findings
	f.destination(&r)
	f.key(&r)
	f.times(&r)
	f.content(&r)
	if len(f) > 0 {
		return "", &Error{Code: ErrInvalidRequest, Title: "The registration is not valid", Errors: f}
	}
	row, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode the row of an inbox: %w", err)
	}
	return string(row), nil
}

// findings are the wrong fields of a registration.
type findings []FieldError

// check adds a finding if ok is false.
func (f *findings) check(ok bool, field, message string) {
	if !ok {
		*f = append(*f, FieldError{Pointer: "/" + field, Message: message})
	}
}

func (f *findings) key(r *Registration) {
	f.check(r.UID == "", "uid", "is made of the key of the row: leave it out")
	for _, n := range []struct{ field, name string }{
		{"topic", r.Topic}, {"id", r.ID}, {"biz_key", r.BizKey}, {"order_key", r.OrderKey}, {"group", r.Group},
	} {
		f.check(len(n.name) <= maxName, n.field, fmt.Sprintf("must have at most %d bytes in UTF-8", maxName))
		f.check(utf8.ValidString(n.name) && !strings.ContainsFunc(n.name, notInNames), n.field, "may contain letters, digits and . _ : @ - only")
		f.check(n.name != "." && n.name != "..", n.field, `must not be "." or ".."`)
	}
}

// notInNames reports characters of ASCII that names cannot contain. The server knows the rules of the others.
func notInNames(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return r < utf8.RuneSelf && !letter && !strings.ContainsRune("._:@-", r)
}

func (f *findings) destination(r *Registration) {
	f.check(!r.Pull || r.URL == "", "url", "is not possible with pull: consumers fetch the job")
	f.check(!r.Pull || r.Group == "", "pull", "must not be combined with group, whose members have urls")
	f.check(r.Group == "" || r.URL == "", "url", "must not be combined with group, whose members have urls")
	f.check(r.FilterLabel == "" || r.Group != "", "filter_label", "selects members of a group: leave it out")
	f.check(r.Method == "" || slices.Contains([]string{"POST", "PUT", "PATCH", "GET", "DELETE"}, r.Method), "method", "must be one of POST, PUT, PATCH, GET, DELETE")
	if r.URL == "" {
		return // a topic may have one
	}
	f.check(len(r.URL) <= maxURL, "url", fmt.Sprintf("must have at most %d characters", maxURL))
	f.check(!strings.ContainsFunc(r.URL, func(c rune) bool { return c <= ' ' || c > '~' }), "url", "must contain visible ASCII characters only; percent-encode the others")
	f.check(!strings.Contains(r.URL, "#"), "url", "must not have a fragment")
	u, err := url.Parse(r.URL)
	if err != nil {
		f.check(false, "url", "is not a URL")
		return
	}
	f.check(u.Scheme == "http" || u.Scheme == "https", "url", "must start with http:// or https://")
	f.check(u.User == nil, "url", "must not contain a user name or password; send an authorization header")
	f.check(u.Hostname() != "", "url", "has no host")
}

func (f *findings) times(r *Registration) {
	f.check(r.At.IsZero() || r.Delay == 0, "at", "must not be combined with delay")
	f.check(r.Timeout >= 0, "timeout", "must not be negative")
	for _, d := range []struct {
		field string
		value Duration
		most  time.Duration
	}{
		{"delay", r.Delay, maxDelay}, {"spread", r.Spread, 24 * time.Hour}, {"ttl", r.TTL, 2 * maxDelay},
	} {
		f.check(d.value >= 0, d.field, "must not be negative")
		f.check(time.Duration(d.value) <= d.most, d.field, "must be at most "+Duration(d.most).String())
	}
}

func (f *findings) content(r *Registration) {
	f.check(r.Body == nil || r.BodyText == "", "body_text", "must not be combined with body")
	f.check(r.Body == nil && r.BodyText == "" || len(r.BodyBytes) == 0, "body_base64", "must not be combined with body or body_text")
	f.check(r.Priority >= 0 && r.Priority <= 9, "priority", "must be from 1 to 9, or 0 for the default")
	f.check(len(r.Labels) <= maxLabels, "labels", "must have at most "+strconv.Itoa(maxLabels)+" members")
	known := []OnConflict{"", Reject, Ignore, Replace, Later, Sooner, Renew, Once}
	f.check(slices.Contains(known, r.OnConflict), "on_conflict", `must be "reject", "ignore", "replace", "later", "sooner", "renew" or "once"`)
}
