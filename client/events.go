package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"
)

// Event is something that happened on a node.
type Event struct {
	Type     string    `json:"type"` // such as registered, delivered or gap
	At       time.Time `json:"at"`
	Topic    string    `json:"topic"`
	Schedule string    `json:"schedule"`
	ID       string    `json:"id"` // of the job
	UID      string    `json:"uid"`
	Endpoint string    `json:"endpoint"`
	Attempts int       `json:"attempts"`
	Status   int       `json:"status"`
	Error    string    `json:"error"`
	Reason   string    `json:"reason"`
	NextAt   time.Time `json:"next_at"`

	Document json.RawMessage `json:"-"` // the event as the server sent it
}

// EventQuery selects events.
type EventQuery struct {
	Type        []string          `query:"type"`
	Topic       string            `query:"topic"`
	ID          string            `query:"id"` // ids of jobs that begin with this
	UID         string            `query:"uid"`
	OrderKey    string            `query:"order_key"`
	BizKey      string            `query:"biz_key"`
	Endpoint    string            `query:"endpoint"`
	GroupID     string            `query:"group_id"`
	Schedule    string            `query:"schedule"` // and its jobs
	Labels      map[string]string `query:"labels"`   // of jobs with all of them
	Priority    int               `query:"priority"`
	Dialect     string            `query:"dialect"`
	Reason      string            `query:"reason"`
	CreatedFrom time.Time         `query:"created_from"` // of jobs registered then or later
	CreatedTo   time.Time         `query:"created_to"`   // of jobs registered before
}

// silence is how long a stream may be silent. The server writes a comment every 15 seconds.
const silence = time.Minute

// Events streams events from now on, until ctx ends, the server refuses, or connecting fails as often
// as a call is tried. It connects again when the connection breaks. An event of the type gap marks
// that events are missing.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		k := read("v1", "events")
		encode(k.query, q)
		k.header.Set("Accept", "text/event-stream")
		for attempt := 1; ; attempt++ {
			s := stream{yield: yield, last: k.header}
			err := c.once(ctx, k, nil, s.read)
			switch {
			case s.stopped || ctx.Err() != nil:
				return
			case s.lines > 0:
				attempt = 1
			}
			if attempt >= c.retry.Attempts || !mayRepeat(err, true) || c.retry.tooLate(err) || !c.retry.wait(ctx, attempt, err) {
				yield(Event{}, err)
				return
			}
		}
	}
}

// stream is a connection that events come from.
type stream struct {
	yield   func(Event, error) bool
	last    http.Header // gets the id of the last event
	lines   int
	stopped bool // by the caller
}

// maxEvent bounds a line of the stream.
const maxEvent = 1 << 20

// read passes events on until the stream ends. It returns nil if the caller stopped it.
func (s *stream) read(resp *http.Response) error {
	watchdog := time.AfterFunc(silence, func() { _ = resp.Body.Close() })
	defer watchdog.Stop()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 4<<10), maxEvent)
	for lines.Scan() {
		watchdog.Reset(silence)
		s.lines++
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			s.last.Set("Last-Event-ID", value)
		case "data":
			if err := s.pass(value); err != nil || s.stopped {
				return err
			}
		}
	}
	return errors.Join(fmt.Errorf("the stream of events ended: %w", ErrUnreachable), lines.Err())
}

func (s *stream) pass(data string) error {
	var e Event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return fmt.Errorf("an event is not from duehook: %w", err)
	}
	e.Document = json.RawMessage(data)
	s.stopped = !s.yield(e, nil)
	return nil
}
