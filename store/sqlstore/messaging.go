package sqlstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/kit/postgres"
	"github.com/duehook/duehook/store"
)

// A notification is the name of a channel, the form of the message and the message. All are sent on one channel of
// PostgreSQL, which has the name of the schema, so that a node needs one connection for all of its listeners.
const (
	formText   = 't' // as it is
	formBase64 = 'b'
	formRow    = 'r' // the id of a row: it is too long for a notification
)

// clock is the database's time in milliseconds.
const clock = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

const (
	// maxPayload is the most bytes of a notification.
	maxPayload = 7_999
	// keptMessages is how long the rows of long messages stay: listeners read them at once.
	keptMessages = time.Minute
)

// Publish sends a message. PostgreSQL commits notifications one after the other, so it is a transaction of its own that
// does not wait for the disk.
func (s *Store) Publish(ctx context.Context, channel string, message []byte) error {
	if len(message) > store.MaxMessage {
		return fmt.Errorf("a message of %d bytes is longer than %d", len(message), store.MaxMessage)
	}
	const notify = `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2`
	payload := channel + " " + encodeMessage(message)
	_, err := s.ask(ctx, func(b *pgx.Batch) {
		if len(payload) <= maxPayload {
			b.Queue(notify+`)`, s.schema, payload)
			return
		}
		b.Queue(s.sql(`WITH old AS (
	DELETE FROM duehook.message WHERE at < `+clock+` - $4 AND id IN (SELECT id FROM duehook.message ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED)
), made AS (
	INSERT INTO duehook.message (channel, payload, at) VALUES ($5, $3, `+clock+`) RETURNING id
) `+notify+` || id::text) FROM made`), s.schema, channel+" "+string(formRow), message, keptMessages.Milliseconds(), channel)
	})
	return err
}

func encodeMessage(message []byte) string {
	if utf8.Valid(message) && !strings.Contains(string(message), "\x00") {
		return string(formText) + string(message)
	}
	return string(formBase64) + base64.StdEncoding.EncodeToString(message)
}

// inbox has the messages for one call of Listen.
type inbox struct {
	channel string
	*store.Unread
}

// hub passes the notifications of one connection to all listeners of the process. The connection lives as long as it has
// listeners.
type hub struct {
	mu      sync.Mutex
	current *hearing
}

// hearing is the listeners of one connection.
type hearing struct {
	inboxes map[*inbox]struct{}
	cancel  context.CancelFunc
	began   chan struct{} // closed when the connection listens
	ended   chan struct{} // closed when it has ended, for err
	err     error
}

// Listen receives messages. It fails with its connection.
func (s *Store) Listen(ctx context.Context, channel string, receive func(message []byte)) error {
	if ctx.Err() != nil {
		return nil
	}
	in := &inbox{channel, store.NewUnread()}
	h := s.join(in)
	defer s.leave(h, in)
	select {
	case <-h.began:
		in.Put(nil) // what came before
	case <-h.ended:
		return h.err
	case <-ctx.Done():
		return nil
	}
	if in.Receive(ctx, h.ended, receive) {
		return h.err
	}
	return nil
}

// hearsWithin is how long Hears waits.
const hearsWithin = 3 * time.Second

// Hears returns why notifications do not arrive, or nil.
func (s *Store) Hears(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hearsWithin)
	defer cancel()
	channel := "probe-" + strconv.FormatUint(rand.Uint64(), 36) //nolint:gosec // it is no secret
	var sent error
	heard := false
	err := s.Listen(ctx, channel, func(message []byte) {
		if message == nil {
			if sent = s.Publish(ctx, channel, []byte("hello")); sent != nil {
				cancel()
			}
			return
		}
		heard = true
		cancel()
	})
	switch {
	case err != nil:
		return err
	case heard:
		return nil
	}
	return cmp.Or(sent, errors.New("the one that was sent has not arrived"))
}

// join adds a listener to the connection, and connects if there is none.
func (s *Store) join(in *inbox) *hearing {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	h := s.hub.current
	if h == nil {
		ctx, cancel := context.WithCancel(s.done)
		h = &hearing{inboxes: map[*inbox]struct{}{}, cancel: cancel, began: make(chan struct{}), ended: make(chan struct{})}
		s.hub.current = h
		s.work.Go(func() { s.hear(ctx, h) })
	}
	h.inboxes[in] = struct{}{}
	return h
}

// leave removes a listener. The last one ends the connection.
func (s *Store) leave(h *hearing, in *inbox) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(h.inboxes, in)
	if len(h.inboxes) == 0 && s.hub.current == h {
		s.hub.current = nil
		h.cancel()
	}
}

// hear passes notifications on until ctx ends or the connection breaks.
func (s *Store) hear(ctx context.Context, h *hearing) {
	err := s.receive(ctx, h)
	if s.done.Err() != nil {
		err = errClosed
	}
	s.hub.mu.Lock()
	if s.hub.current == h {
		s.hub.current = nil
	}
	s.hub.mu.Unlock()
	h.cancel()
	h.err = err
	close(h.ended)
}

func (s *Store) receive(ctx context.Context, h *hearing) error {
	l := postgres.Listener{
		Config: s.direct, Channel: s.schema,
		Began: func() { close(h.began) },
		Heard: func(payload string) { s.pass(ctx, h, payload) },
	}
	return s.explain(l.Listen(ctx))
}

// pass gives a notification to the listeners of its channel.
func (s *Store) pass(ctx context.Context, h *hearing, payload string) {
	channel, rest, ok := strings.Cut(payload, " ")
	if !ok || rest == "" {
		return // of another program
	}
	var to []*inbox
	s.hub.mu.Lock()
	for in := range h.inboxes {
		if in.channel == channel {
			to = append(to, in)
		}
	}
	s.hub.mu.Unlock()
	if len(to) == 0 {
		return
	}
	message, err := s.message(ctx, rest[0], rest[1:])
	if err != nil {
		s.log.DebugContext(ctx, "a message of another node cannot be read", "channel", channel, "error", err)
		message = nil
	}
	for _, in := range to {
		in.Put(message)
	}
}

// message is the message of a notification, never nil.
func (s *Store) message(ctx context.Context, form byte, data string) (message []byte, err error) {
	switch form {
	case formText:
		return []byte(data), nil
	case formBase64:
		return base64.StdEncoding.DecodeString(data)
	case formRow:
		id, err := strconv.ParseInt(data, 10, 64)
		if err != nil {
			return nil, err
		}
		_, err = s.ask(ctx, func(b *pgx.Batch) {
			b.Queue(s.sql(`SELECT payload FROM duehook.message WHERE id = $1`), id).QueryRow(func(row pgx.Row) error { return row.Scan(&message) })
		})
		return message, err
	}
	return nil, errors.New("its form is unknown")
}
