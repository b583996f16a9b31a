package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxAnswer bounds an answer. The largest page of the API is smaller.
const maxAnswer = 64 << 20

// call is one call of the API.
type call struct {
	method string
	path   string
	query  url.Values
	body   any // encoded as JSON; nil sends none
	header http.Header
	safe   bool // the server does no harm if it gets the request twice
}

// CallOption changes a call.
type CallOption func(*call)

// IfVersion has the server change the resource only if it has this version. Otherwise the error
// is ErrVersionChanged.
func IfVersion(version uint64) CallOption {
	return func(c *call) {
		c.header.Set("If-Match", strconv.Quote(strconv.FormatUint(version, 10)))
	}
}

// IfAbsent has the server create the resource only if it does not exist. Otherwise the error is
// ErrVersionChanged.
func IfAbsent() CallOption { return func(c *call) { c.header.Set("If-None-Match", "*") } }

// WithIdempotencyKey names the call, so that a later repetition by another process is recognised.
func WithIdempotencyKey(key string) CallOption {
	return func(c *call) { c.header.Set("Idempotency-Key", key) }
}

// DryRun has the server answer what a registration would do, and do nothing.
func DryRun() CallOption { return func(c *call) { c.query.Set("dry_run", "true") } }

// path joins escaped segments.
func path(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// read is a call that changes nothing.
func read(segments ...string) *call {
	return newCall(http.MethodGet, true, path(segments...), nil, nil)
}

// newCall returns a call with its options applied.
func newCall(method string, safe bool, path string, body any, options []CallOption) *call {
	k := &call{method: method, path: path, query: url.Values{}, header: http.Header{}, body: body, safe: safe}
	for _, option := range options {
		option(k)
	}
	return k
}

// do makes the call, again if that is safe, and decodes the answer into a T.
func do[T any](ctx context.Context, c *Client, k *call) (T, error) {
	var answer T
	err := c.decode(ctx, k, &answer)
	return answer, err
}

// decode is do without its type: the compiler copies do for each T.
func (c *Client) decode(ctx context.Context, k *call, answer any) error {
	return c.exchange(ctx, k, func(resp *http.Response) error {
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return unreachable(k, err)
		}
		if err := json.Unmarshal(data, answer); err != nil {
			return fmt.Errorf("%s %s: the answer is not from duehook: %w", k.method, k.path, err)
		}
		return nil
	})
}

// exchange sends the request, again if that is safe, and passes an answer of 2xx to got.
func (c *Client) exchange(ctx context.Context, k *call, got func(*http.Response) error) error {
	var body []byte
	if k.body != nil {
		var err error
		if body, err = json.Marshal(k.body); err != nil {
			return fmt.Errorf("encode the request of %s %s: %w", k.method, k.path, err)
		}
	}
	for attempt := 1; ; attempt++ {
		err := c.once(ctx, k, body, got)
		if err == nil || attempt >= c.retry.Attempts || !mayRepeat(err, k.safe) || c.retry.tooLate(err) {
			return err
		}
		if !c.retry.wait(ctx, attempt, err) {
			return err
		}
	}
}

// once sends the request once.
func (c *Client) once(ctx context.Context, k *call, body []byte, got func(*http.Response) error) error {
	req, err := c.request(ctx, k, body)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return unreachable(k, err)
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
		_ = resp.Body.Close()
	}()
	if resp.StatusCode/100 != 2 {
		return refusal(resp)
	}
	return got(resp)
}

// errNotMade is the error of calls of a zero Client.
var errNotMade = errors.New("this Client has no server: make it with client.New")

func (c *Client) request(ctx context.Context, k *call, body []byte) (*http.Request, error) {
	if c.base == nil {
		return nil, errNotMade
	}
	at := c.base.String() + k.path
	if len(k.query) > 0 {
		at += "?" + k.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, k.method, at, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", k.method, k.path, err)
	}
	if body == nil {
		req.Body, req.GetBody, req.ContentLength = http.NoBody, nil, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", c.userAgent)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	c.inject(ctx, req.Header)
	for name, values := range k.header {
		req.Header[name] = values
	}
	return req, nil
}

// unreachable wraps an error of the connection. A cancelled context stays what it is.
func unreachable(k *call, err error) error {
	if e := new(url.Error); errors.As(err, &e) {
		err = e.Err // without the address, which may have a secret in its query
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s %s: %w", k.method, k.path, err)
	}
	return fmt.Errorf("%s %s: %w: %w", k.method, k.path, ErrUnreachable, err)
}
