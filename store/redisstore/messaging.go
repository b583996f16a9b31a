package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/store"
)

// subscriptionPing is after how long a silent subscription is checked.
const subscriptionPing = 30 * time.Second

// pullChannel ends the name of the channel of a shard for store.PullChannel, see lua/lib/lanes.lua.
const pullChannel = ":pull"

// channel is the name of a channel in Redis. Each node of a Cluster has it.
func (s *Store) channel(name string) string { return s.common.prefix + "channel:" + name }

// Publish sends a message.
func (s *Store) Publish(ctx context.Context, channel string, message []byte) error {
	if len(message) > store.MaxMessage {
		return fmt.Errorf("a message of %d bytes is longer than %d", len(message), store.MaxMessage)
	}
	return s.wrap(s.db.Publish(ctx, s.channel(channel), message).Err())
}

// Listen receives messages.
func (s *Store) Listen(ctx context.Context, channel string, receive func(message []byte)) error {
	names := []string{s.channel(channel)}
	wakes := map[string]string{}                                      // messages for names of shards
	if channel == store.PullChannel || channel == store.WakeChannel { // the scripts of each shard publish there
		names = names[:0]
		for i, sh := range s.shards {
			name := sh.wake
			if channel == store.PullChannel {
				name += pullChannel
			} else {
				wakes[name] = strconv.Itoa(i)
			}
			names = append(names, name)
		}
	}
	return s.subscribe(ctx, names, func(name string, m *redis.Message) {
		switch wake, is := wakes[name]; {
		case is: // a shard whose messages may be lost is woken, too
			receive([]byte(wake))
		case m == nil:
			receive(nil)
		default:
			receive([]byte(m.Payload))
		}
	})
}

// subscribe calls receive with each message of the channels until ctx ends, and without one
// when a subscription begins or begins again.
func (s *Store) subscribe(ctx context.Context, channels []string, receive func(channel string, m *redis.Message)) error {
	if ctx.Err() != nil {
		return nil
	}
	// Without ctx's deadline, because the connection would use it as its own and fail just
	// before ctx ends.
	listening, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	sub := s.db.Subscribe(listening, channels...)
	defer sub.Close() //nolint:errcheck // nothing is left to be done about it
	stopReading := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer stopReading()
	for {
		msg, err := sub.ReceiveTimeout(listening, subscriptionPing)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if isTimeout(err) && sub.Ping(listening) == nil {
				continue
			}
			return s.wrap(err)
		}
		switch m := msg.(type) {
		case *redis.Subscription:
			receive(m.Channel, nil)
		case *redis.Message:
			receive(m.Channel, m)
		}
	}
}
