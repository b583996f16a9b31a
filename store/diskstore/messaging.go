package diskstore

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// inboxSize is how many messages wait for a listener. Further messages are lost.
const inboxSize = 256

// inbox has the messages that one call of Listen has not received yet.
type inbox struct {
	channel  string
	messages chan []byte
	lost     chan struct{} // signalled after lost messages
}

// Publish sends a message.
func (s *Store) Publish(ctx context.Context, channel string, message []byte) error {
	if len(message) > store.MaxMessage {
		return fmt.Errorf("a message of %d bytes is longer than %d", len(message), store.MaxMessage)
	}
	return s.locked(ctx, func(job.Instant) { s.publish(channel, message) })
}

func (s *Store) publish(channel string, message []byte) {
	for in := range s.inboxes {
		if in.channel != channel {
			continue
		}
		select {
		case in.messages <- append([]byte{}, message...): // never nil
		default:
			select {
			case in.lost <- struct{}{}:
			default: // it is told
			}
		}
	}
}

// Listen receives messages.
func (s *Store) Listen(ctx context.Context, channel string, receive func(message []byte)) error {
	if ctx.Err() != nil {
		return nil
	}
	in := &inbox{channel: channel, messages: make(chan []byte, inboxSize), lost: make(chan struct{}, 1)}
	in.lost <- struct{}{} // what came before
	if err := s.locked(ctx, func(job.Instant) { s.inboxes[in] = struct{}{} }); err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		delete(s.inboxes, in)
		s.mu.Unlock()
	}()
	for {
		select {
		case <-in.lost:
			receive(nil)
		case m := <-in.messages:
			receive(m)
		case <-ctx.Done():
			return nil
		case <-s.done:
			return errClosed
		}
	}
}
