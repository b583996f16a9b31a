package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/events"
)

// Events is what the API needs of the events. An *events.Hub is one.
type Events interface {
	Watch(ctx context.Context, after string) (*events.Watcher, error)
}

const (
	// eventsReady bounds the wait for the first word of other nodes.
	eventsReady = 5 * time.Second
	// eventsBeat is how often a stream without events shows that it lives.
	// Proxies tend to close what is silent for a minute.
	eventsBeat = 15 * time.Second
	// eventsWrite is how long a client may take to accept what it is sent.
	eventsWrite = 10 * time.Second
	// eventsRetry is after how many milliseconds clients are to come back.
	eventsRetry = 2000
	// maxStreams bounds the streams of a node.
	maxStreams = 200

	mimeEvents = "text/event-stream"
)

// admits reports whether the stream shows the event. A gap may hide any event.
func (q *params) admits(e *events.Event) bool {
	return e.Type == events.Gap ||
		(len(q.types) == 0 || slices.Contains(q.types, e.Type)) &&
			(q.Topic == "" || q.Topic == e.Topic) && (q.Endpoint == "" || q.Endpoint == e.Endpoint)
}

// eventView is an event as the API shows it. What does not belong to its type
// is left out.
type eventView struct {
	Type     events.Type `json:"type"`
	At       instant     `json:"at"`
	Topic    string      `json:"topic,omitempty"`
	Schedule string      `json:"schedule,omitempty"`
	ID       string      `json:"id,omitempty"`
	UID      string      `json:"uid,omitempty"`
	Endpoint string      `json:"endpoint,omitempty"`
	Attempts int         `json:"attempts,omitempty"`
	Status   int         `json:"status,omitempty"`
	Error    string      `json:"error,omitempty"`
	Reason   string      `json:"reason,omitempty"`
	NextAt   instant     `json:"next_at,omitzero"`
}

// watchEvents answers GET /v1/events: a stream of server-sent events, until the
// client or the server ends it.
func (s *API) watchEvents(r *request) (any, error) {
	after := r.Request.Header.Get("Last-Event-ID")
	if len(after) > events.MaxID {
		return nil, invalid("Last-Event-ID", fmt.Sprintf("must have at most %d characters", events.MaxID))
	}
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return nil, &httpapi.Error{Code: httpapi.CodeTooManyStreams, Detail: fmt.Sprintf("This server has %d open streams of events, the limit. Close one, or try again later.", maxStreams)}
	}
	defer s.streams.Add(-1)

	ready, cancel := context.WithTimeout(r.Context(), eventsReady)
	w, err := s.Events.Watch(ready, after)
	cancel()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	r.Header().Set("Content-Type", mimeEvents)
	r.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	r.Writer.WriteHeader(http.StatusOK)
	if r.Request.Method == http.MethodHead {
		return nil, nil
	}
	stream := &eventStream{request: r}
	return nil, stream.run(r.Context(), w)
}

// eventStream writes events to a client.
type eventStream struct {
	request *request
	buffer  bytes.Buffer
}

// run returns no error once the stream has begun: there is nobody to tell.
func (s *eventStream) run(ctx context.Context, w *events.Watcher) error {
	_, _ = fmt.Fprintf(&s.buffer, "retry: %d\n\n", eventsRetry)
	// ctx ends when the client has gone, or the server stops.
	for ctx.Err() == nil && s.flush() == nil {
		beat, done := context.WithTimeout(ctx, eventsBeat)
		list, err := w.Next(beat)
		done()
		if err != nil {
			s.buffer.WriteString(": still here\n\n")
		}
		for i := range list {
			if err := s.add(&list[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *eventStream) add(e *events.Event) error {
	if !s.request.query.admits(e) {
		return nil
	}
	data, err := json.Marshal(eventView{
		Type: e.Type, At: instant(e.At), Topic: e.Topic, Schedule: e.Schedule, ID: e.JobID, UID: e.UID, Endpoint: e.Endpoint,
		Attempts: e.Attempts, Status: e.Status, Error: e.Error, Reason: e.Reason, NextAt: instant(e.NextAt),
	})
	if err != nil {
		return err
	}
	if e.ID != "" {
		_, _ = fmt.Fprintf(&s.buffer, "id: %s\n", e.ID)
	}
	_, _ = fmt.Fprintf(&s.buffer, "event: %s\ndata: %s\n\n", e.Type, data)
	return nil
}

// flush sends what is in the buffer. The server's own deadline for answers does
// not suit a stream.
func (s *eventStream) flush() error {
	if err := s.request.WriteWithin(eventsWrite); err != nil {
		return err
	}
	_, err := s.request.Writer.Write(s.buffer.Bytes())
	s.buffer.Reset()
	if err != nil {
		return err
	}
	return s.request.Flush()
}
