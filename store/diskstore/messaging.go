package diskstore

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// inbox has the messages for one call of Listen.
type inbox struct {
	channel string
	*store.Unread
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
		in.Put(append([]byte{}, message...)) // never nil
	}
}

// Listen receives messages.
func (s *Store) Listen(ctx context.Context, channel string, receive func(message []byte)) error {
	if ctx.Err() != nil {
		return nil
	}
	in := &inbox{channel, store.NewUnread()}
	in.Put(nil) // what came before
	if err := s.locked(ctx, func(job.Instant) { s.inboxes[in] = struct{}{} }); err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		delete(s.inboxes, in)
		s.mu.Unlock()
	}()
	if in.Receive(ctx, s.done, receive) {
		return errClosed
	}
	return nil
}
