package moving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/sync/errgroup"
)

// Call is a call of a dialect of duehook that registers a job: a POST of JSON.
type Call struct {
	Path string // with a query
	Body []byte
}

// Server is the duehook that gets the jobs.
type Server struct {
	address, token string
	http           *retryablehttp.Client
}

// NewServer returns the server at an address. The token may be empty.
func NewServer(address, token string) *Server {
	c := retryablehttp.NewClient()
	c.Logger, c.ErrorHandler = nil, retryablehttp.PassthroughErrorHandler
	c.HTTPClient.Transport.(*http.Transport).MaxIdleConnsPerHost = atOnce
	return &Server{strings.TrimRight(address, "/"), token, c}
}

// Result is what became of a job.
type Result struct {
	Created bool
	Err     error // why the server refuses it
}

const (
	// atOnce is how many calls are made at once.
	atOnce = 16
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 1 << 20
)

// Register makes the calls of jobs. Calls that fail for a while are repeated. In a dry run the server
// registers nothing.
func (s *Server) Register(ctx context.Context, jobs []Job, dryRun bool) ([]Result, error) {
	results := make([]Result, len(jobs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range jobs {
		group.Go(func() (err error) {
			results[i], err = s.call(ctx, jobs[i].Call, dryRun)
			return err
		})
	}
	return results, group.Wait()
}

func (s *Server) call(ctx context.Context, k *Call, dryRun bool) (Result, error) {
	path := k.Path
	if dryRun {
		path += "&dry_run=true"
	}
	r, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, s.address+path, bytes.NewReader(k.Body))
	if err != nil {
		return Result{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.http.Do(r)
	if err != nil {
		return Result{}, failf(ErrUnreachable, "duehook cannot be reached: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return Result{}, failf(ErrUnreachable, "duehook cannot be reached: %v", err)
	}
	var answer struct {
		Success bool
		Message string
	}
	_ = json.Unmarshal(data, &answer) // a proxy's answer is not JSON
	switch code := resp.StatusCode; {
	case code == http.StatusOK && answer.Success:
		return Result{Created: resp.Header.Get("Duehook-Result") == "created"}, nil
	case code == http.StatusOK, code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge:
		return Result{Err: errors.New(answer.Message)}, nil
	case code == http.StatusNotFound:
		return Result{}, errors.New("the server does not speak the dialect: start it with --dialects mykit")
	default:
		return Result{}, fmt.Errorf("the server answers %s: %s", resp.Status, answer.Message)
	}
}
