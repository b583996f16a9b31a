package importer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/client"
)

// Call is a POST that registers a job by a dialect of duehook. It names Duehook-Result in its answer.
type Call struct {
	Dialect string
	Path    string // with a query
	Header  http.Header
	Body    []byte
	// Queue has calls of the same name made one after the other; empty: in any order.
	Queue string
}

// Server is the duehook that gets the jobs.
type Server struct {
	address, token string
	http           *retryablehttp.Client
}

// NewServer returns the server at an address. The token may be empty.
func NewServer(address, token string) *Server {
	return &Server{strings.TrimRight(address, "/"), token, newHTTP()}
}

// newHTTP returns a client that repeats calls, as the answers ask for within bounds.
func newHTTP() *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.Logger, c.ErrorHandler = nil, retryablehttp.PassthroughErrorHandler
	c.HTTPClient.Timeout = patience
	c.HTTPClient.Transport.(*http.Transport).MaxIdleConnsPerHost = atOnce
	c.Backoff = func(least, most time.Duration, attempt int, resp *http.Response) time.Duration {
		return min(retryablehttp.DefaultBackoff(least, most, attempt, resp), patience)
	}
	return c
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
	// patience bounds a call, and the pause that an answer asks for.
	patience = time.Minute
)

// Register makes the calls of jobs. Calls that fail for a while are repeated.
func (s *Server) Register(ctx context.Context, jobs []Job) ([]Result, error) {
	results := make([]Result, len(jobs))
	inTurn, queues := [][]int{}, map[string]int{}
	for i := range jobs {
		queue := jobs[i].Call.Queue
		at, known := queues[queue]
		if !known || queue == "" {
			at, inTurn = len(inTurn), append(inTurn, nil)
			queues[queue] = at
		}
		inTurn[at] = append(inTurn[at], i)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, turns := range inTurn {
		group.Go(func() (err error) {
			for _, i := range turns {
				if results[i], err = s.call(ctx, jobs[i].Call); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return results, group.Wait()
}

func (s *Server) call(ctx context.Context, k *Call) (Result, error) {
	r, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, s.address+k.Path, k.Body)
	if err != nil {
		return Result{Err: err}, nil // the job has a URL that cannot be called
	}
	maps.Copy(r.Header, k.Header)
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.http.Do(r)
	if err != nil {
		return Result{}, failf(client.ErrUnreachable, "duehook cannot be reached: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return Result{}, failf(client.ErrUnreachable, "duehook cannot be reached: %v", err)
	}
	var answer struct {
		Message, Error, Msg string
		Code                int
	}
	_ = json.Unmarshal(data, &answer) // a proxy's answer is not JSON
	result, text := resp.Header.Get("Duehook-Result"), cmp.Or(answer.Message, answer.Error, answer.Msg)
	if answer.Msg != "" && answer.Code >= http.StatusInternalServerError {
		return Result{}, fmt.Errorf("the server answers %d: %s", answer.Code, text)
	}
	switch code := resp.StatusCode; {
	case code < http.StatusMultipleChoices && result != "":
		return Result{Created: result == "created"}, nil
	case code == http.StatusOK && text != "", code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge:
		return Result{Err: errors.New(text)}, nil
	case code == http.StatusNotFound:
		return Result{}, fmt.Errorf("the server does not speak the dialect: start it with --dialects %s", k.Dialect)
	default:
		return Result{}, fmt.Errorf("the server answers %s: %s", resp.Status, text)
	}
}
