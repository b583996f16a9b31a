package store

import "context"

// MaxMessage is the most bytes of a message.
const MaxMessage = 256 << 10

// Messaging passes messages between those who share the store. A message
// reaches who listens at that moment; some may be lost, as when a connection
// breaks. Channels are names.
type Messaging interface {
	// Publish sends a message of at most MaxMessage bytes to all who listen to
	// the channel, the caller's own process included.
	Publish(ctx context.Context, channel string, message []byte) error
	// Listen calls receive with each message of the channel until ctx ends
	// (then nil) or the source fails. It calls it once with nil when it begins
	// to listen, and each time when messages may have been lost. Messages may
	// come in another order than they were sent: through several nodes of a
	// Redis Cluster, they do. receive must not keep the message.
	Listen(ctx context.Context, channel string, receive func(message []byte)) error
}
