package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// sdk is a client that sends what the Java SDK of camellia-delay-queue sends, to one server after
// the other.
type sdk struct {
	t    *testing.T
	pick func() string
	http http.Client
}

// sdkMessage is what the SDK reads of a message.
type sdkMessage struct {
	MsgID       string
	TriggerTime int64
	Status      int
}

type sdkAnswer struct {
	Code         int
	DelayMsg     sdkMessage
	DelayMsgList []sdkMessage
}

// call makes a call; like the SDK, it accepts the status 200 only.
func (s *sdk) call(ctx context.Context, name string, pairs ...string) (answer sdkAnswer, ok bool) {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.pick()+"/camellia/delayQueue/"+name, strings.NewReader(form.Encode()))
	if err != nil {
		return answer, false // no server is up
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	resp, err := s.http.Do(req)
	if err != nil {
		return answer, false
	}
	defer func() { _ = resp.Body.Close() }()
	return answer, resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(&answer) == nil && answer.Code == 200
}

// until repeats a call until it succeeds, with the pause of a client.
func (s *sdk) until(ctx context.Context, name string, pairs ...string) sdkAnswer {
	for {
		answer, ok := s.call(ctx, name, pairs...)
		if ok {
			return answer
		}
		if job.Sleep(ctx, clock, 50*time.Millisecond) != nil {
			return answer
		}
	}
}

// killCamellia sends messages as a client of camellia-delay-queue, and consumes them by long polls. Each
// one must be consumed, and none early.
func killCamellia(t *testing.T, k *underKills) func() {
	ctx, stop := context.WithCancel(t.Context())
	s := &sdk{t: t, pick: k.up.pick}
	messages, consumers := sized(100, 5_000), 4
	var mu sync.Mutex
	left := map[string]bool{}
	for i := range messages {
		left[fmt.Sprint("m", i)] = true
	}
	all, done := make(chan struct{}), false
	var running sync.WaitGroup
	for range consumers {
		running.Go(func() {
			for ctx.Err() == nil {
				got, ok := s.call(ctx, "longPollingMsg", "topic", "t", "batch", "5", "ackTimeoutMillis", "2000", "longPollingTimeoutMillis", "5000")
				if !ok && job.Sleep(ctx, clock, 50*time.Millisecond) != nil {
					return
				}
				for _, m := range got.DelayMsgList {
					if now := clock.Now().UnixMilli(); now < m.TriggerTime {
						t.Errorf("%s came %d ms early", m.MsgID, m.TriggerTime-now)
					}
					// The SDK ignores a failure: the message comes back, unless only the answer was lost.
					_, _ = s.call(ctx, "ackMsg", "topic", "t", "msgId", m.MsgID, "ack", "true")
					mu.Lock()
					if delete(left, m.MsgID); len(left) == 0 && !done {
						close(all)
						done = true
					}
					mu.Unlock()
				}
			}
		})
	}
	running.Go(func() {
		for i := range messages {
			s.until(ctx, "sendMsg", "topic", "t", "msgId", fmt.Sprint("m", i), "msg", "body", "delayMillis", fmt.Sprint(i%5*400), "ttlMillis", "-1", "maxRetry", "100")
			if job.Sleep(ctx, clock, 20*time.Millisecond) != nil {
				return
			}
		}
	})
	return func() {
		k.killed()
		select {
		case <-all:
		case <-time.After(deliverLimit):
			mu.Lock()
			t.Errorf("%d messages did not arrive: %v", len(left), left)
			mu.Unlock()
		}
		limit, cancel := context.WithTimeout(ctx, deliverLimit)
		defer cancel()
		for i := range messages {
			id := fmt.Sprint("m", i)
			for s.until(limit, "getMsg", "topic", "t", "msgId", id).DelayMsg.Status != 4 {
				if job.Sleep(limit, clock, 50*time.Millisecond) != nil {
					t.Errorf("%s is not consumed", id)
					break
				}
			}
		}
		stop()
		running.Wait()
	}
}
