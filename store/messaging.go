package store

import (
	"context"
	"strconv"
)

// MaxMessage bounds a message, in bytes.
const MaxMessage = 256 << 10

// Messaging passes messages between the processes that share the store. A message
// reaches the current listeners of its channel. Messages may be lost, for example when a
// connection breaks.
type Messaging interface {
	// Publish sends a message of at most MaxMessage bytes to all listeners of the channel,
	// those of the caller's own process included.
	Publish(ctx context.Context, channel string, message []byte) error
	// Listen calls receive with each message of the channel until ctx ends (then it
	// returns nil) or the source fails. It also calls receive with nil when it begins to
	// listen, and when messages may have been lost. Messages may arrive out of order, for
	// example through several nodes of a Redis Cluster. receive must not keep the message.
	Listen(ctx context.Context, channel string, receive func(message []byte)) error
}

// maxUnread is how many messages wait for a listener. Further messages are lost.
const maxUnread = 256

// Unread has the messages that one call of Listen has not received yet, in a store that passes messages itself.
type Unread struct {
	messages chan []byte
	lost     chan struct{} // signalled after lost messages
}

// NewUnread returns an Unread without messages.
func NewUnread() *Unread {
	return &Unread{messages: make(chan []byte, maxUnread), lost: make(chan struct{}, 1)}
}

// Put adds a message, which nobody may alter later; nil: some were lost. It never blocks.
func (u *Unread) Put(message []byte) {
	if message != nil {
		select {
		case u.messages <- message:
			return
		default:
		}
	}
	select {
	case u.lost <- struct{}{}:
	default: // it is signalled already
	}
}

// Receive calls receive as Listen does, until ctx or the source has ended. It reports whether the source has.
func (u *Unread) Receive(ctx context.Context, ended <-chan struct{}, receive func(message []byte)) bool {
	for {
		select {
		case <-u.lost:
			receive(nil)
		case m := <-u.messages:
			receive(m)
		case <-ctx.Done():
			return false
		case <-ended:
			return true
		}
	}
}

// WakeChannel is the channel on which stores tell carriers that a job may be due earlier than all
// others of its shard. Its messages are numbers of shards.
const WakeChannel = "wake"

// Listener is the part of Messaging that listens.
type Listener interface {
	Listen(ctx context.Context, channel string, receive func(message []byte)) error
}

// Wakeups listens on WakeChannel. It calls wake with AnyShard when messages may have been lost.
func Wakeups(ctx context.Context, s Listener, wake func(shard int)) error {
	return s.Listen(ctx, WakeChannel, func(message []byte) {
		if message == nil {
			wake(AnyShard)
		} else if shard, err := strconv.Atoi(string(message)); err == nil && shard >= 0 {
			wake(shard)
		}
	})
}
