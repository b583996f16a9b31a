package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

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

var eventQuery = []string{"type", "topic", "endpoint"}

// eventFilter selects events; empty fields select all.
type eventFilter struct {
	types           []events.Type
	topic, endpoint string
}

// admits reports whether the event is to be told. A gap may hide any event.
func (f *eventFilter) admits(e *events.Event) bool {
	return e.Type == events.Gap ||
		(len(f.types) == 0 || slices.Contains(f.types, e.Type)) &&
			(f.topic == "" || f.topic == e.Topic) && (f.endpoint == "" || f.endpoint == e.Endpoint)
}

func readEventFilter(c echo.Context) (eventFilter, error) {
	var f eventFilter
	var errs fieldErrors
	for pointer, values := range parameters(c, eventQuery) {
		switch pointer {
		case "?topic":
			f.topic = errs.name(pointer, values[0])
		case "?endpoint":
			f.endpoint = errs.endpoint(pointer, values[0])
		case "?type":
			for t := range strings.SplitSeq(values[0], ",") {
				if !slices.Contains(events.Types, events.Type(t)) {
					errs.add(pointer, fmt.Sprintf("must be some of %s, with commas between them", eventTypes()))
					break
				}
				f.types = append(f.types, events.Type(t))
			}
		}
	}
	return f, errs.err()
}

func eventTypes() string {
	names := make([]string, len(events.Types))
	for i, t := range events.Types {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}

// eventView is an event as the API shows it. What does not belong to its type
// is left out.
type eventView struct {
	Type     events.Type `json:"type"`
	At       instant     `json:"at"`
	Topic    string      `json:"topic,omitempty"`
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
// client goes or the server stops.
func (s *Server) watchEvents(c echo.Context) error {
	if s.opts.Events == nil {
		return echo.ErrNotFound
	}
	filter, err := readEventFilter(c)
	if err != nil {
		return err
	}
	after := c.Request().Header.Get("Last-Event-ID")
	if len(after) > events.MaxID {
		return invalid("Last-Event-ID", fmt.Sprintf("must have at most %d characters", events.MaxID))
	}
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return &apiError{code: codeTooManyStreams, detail: fmt.Sprintf("This server has %d streams of events open, the most that it allows. Close one, or try again later.", maxStreams)}
	}
	defer s.streams.Add(-1)

	ready, cancel := context.WithTimeout(c.Request().Context(), eventsReady)
	w, err := s.opts.Events.Watch(ready, after)
	cancel()
	if err != nil {
		return err
	}
	defer w.Close()
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, mimeEvents)
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
	c.Response().WriteHeader(http.StatusOK)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	ctx, end := context.WithCancel(c.Request().Context())
	defer end()
	defer context.AfterFunc(s.stopping, end)()
	stream := &eventStream{out: c.Response(), control: http.NewResponseController(c.Response()), filter: filter}
	return stream.run(ctx, w)
}

// eventStream writes events to a client.
type eventStream struct {
	out     *echo.Response
	control *http.ResponseController
	filter  eventFilter
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
	if !s.filter.admits(e) {
		return nil
	}
	data, err := json.Marshal(eventView{
		Type: e.Type, At: instant(e.At), Topic: e.Topic, ID: e.JobID, UID: e.UID, Endpoint: e.Endpoint,
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
	if err := s.control.SetWriteDeadline(deadline(eventsWrite)); err != nil {
		return err
	}
	_, err := s.out.Write(s.buffer.Bytes())
	s.buffer.Reset()
	if err != nil {
		return err
	}
	return s.control.Flush()
}
