package v1

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/kit/jsonio"
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
	// eventsHold is about what a stream takes in memory while its client is slow, in bytes.
	eventsHold = 256 << 10

	mimeEvents = "text/event-stream"
)

// admits reports whether the stream shows the event. A gap may hide any event. Callers who are
// restricted to topics see no events of endpoints.
func (q *params) admits(e *events.Event) bool {
	return e.Type == events.Gap ||
		q.Only.Allow(e.Topic) == nil &&
			(len(q.types) == 0 || slices.Contains(q.types, e.Type)) &&
			e.Matches(q.Query)
}

// writeEvent writes an event, without what does not belong to its type.
func writeEvent(w *jsonio.Writer, e *events.Event) {
	w.Text("type", string(e.Type))
	w.Instant("at", e.At)
	w.TextIfAny("topic", e.Topic)
	w.TextIfAny("schedule", e.Schedule)
	w.TextIfAny("id", e.JobID)
	w.TextIfAny("uid", e.UID)
	w.TextIfAny("endpoint", e.Endpoint)
	w.NumberIfAny("attempts", e.Attempts)
	w.NumberIfAny("status", e.Status)
	w.TextIfAny("error", e.Error)
	w.TextIfAny("reason", e.Reason)
	w.InstantIfAny("next_at", e.NextAt)
}

// watchEvents answers GET /v1/events: a stream of server-sent events, until the
// client or the server ends it.
func (s *API) watchEvents(r *request) (jsonio.View, error) {
	if r.query.Topic != "" {
		if err := r.Topics().Allow(r.query.Topic); err != nil {
			return nil, err
		}
	}
	r.query.Only = r.Topics()
	after := r.Request.Header.Get("Last-Event-ID")
	if len(after) > events.MaxID {
		return nil, decode.Invalid("Last-Event-ID", fmt.Sprintf("must have at most %d characters", events.MaxID))
	}
	if err := r.Take(eventsHold); err != nil {
		return nil, err
	}

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
	stream.run(r.Context(), w)
	return nil, nil
}

// eventStream writes events to a client.
type eventStream struct {
	request *request
	buffer  bytes.Buffer
}

// run ends with ctx, which ends when the client has gone or the server stops.
func (s *eventStream) run(ctx context.Context, w *events.Watcher) {
	_, _ = fmt.Fprintf(&s.buffer, "retry: %d\n\n", eventsRetry)
	for ctx.Err() == nil && s.flush() == nil {
		beat, done := context.WithTimeout(ctx, eventsBeat)
		list, err := w.Next(beat)
		done()
		if err != nil {
			s.buffer.WriteString(": still here\n\n")
		}
		for i := range list {
			s.add(&list[i])
		}
	}
}

func (s *eventStream) add(e *events.Event) {
	if !s.request.query.admits(e) {
		return
	}
	if e.ID != "" {
		_, _ = fmt.Fprintf(&s.buffer, "id: %s\n", e.ID)
	}
	_, _ = fmt.Fprintf(&s.buffer, "event: %s\ndata: %s\n\n", e.Type, jsonio.AppendObject(nil, jsonio.Shown(writeEvent, e)))
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
