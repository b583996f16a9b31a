package contender

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// requestTimeout is that of duehook's deliveries.
const requestTimeout = 10 * time.Second

// poster delivers by net/http, with no more than is needed.
type poster struct{ client *http.Client }

func newPoster(workers int) *poster {
	return &poster{&http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		MaxIdleConns: workers, MaxIdleConnsPerHost: workers, DisableCompression: true,
	}}}
}

func (p *poster) post(ctx context.Context, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver answers %s", resp.Status)
	}
	return nil
}
