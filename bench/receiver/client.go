package receiver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Client controls the receiver's process.
type Client struct {
	// Base and SecureBase are the receiver's URLs, by HTTP and by HTTPS.
	Base, SecureBase string
}

// Expect forgets what arrived and waits for jobs 0 to n−1. If failFirst is set,
// the first request of each is answered with 500.
func (c *Client) Expect(ctx context.Context, n int, failFirst bool) error {
	query := url.Values{"jobs": {strconv.Itoa(n)}, "fail_first": {strconv.FormatBool(failFirst)}}
	return c.call(ctx, http.MethodPost, "/control/expect?"+query.Encode(), nil)
}

// Report waits until all jobs have arrived, for the limit at most.
func (c *Client) Report(ctx context.Context, limit time.Duration) (Report, error) {
	var r Report
	err := c.call(ctx, http.MethodGet, "/control/report?wait="+limit.String(), &r)
	return r, err
}

func (c *Client) call(ctx context.Context, method, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the receiver answers %s", resp.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
