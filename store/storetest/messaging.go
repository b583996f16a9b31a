package storetest

import (
	"context"
	"fmt"
	"slices"

	"github.com/duehook/duehook/store"
)

var messagingCases = []testCase{
	{name: "messages/reach all who listen to the channel", options: Options{Shards: 2}, run: func(f *fixture) {
		first, second := f.listen("news"), f.listen("news")
		other := f.listen("other")
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint(i))
			f.noError("Publish", f.Publish(f.ctx, "news", []byte(want[i])))
		}
		f.noError("Publish", f.Publish(f.ctx, "other", []byte{}))
		slices.Sort(want)
		equal(f, "messages of the first", first.take(len(want)), want)
		equal(f, "messages of the second", second.take(len(want)), want)
		equal(f, "messages of the other channel", other.take(1), []string{""})
		for _, l := range []*listener{first, second, other} {
			l.end()
		}
	}},
	{name: "messages/that are too long are refused", options: Options{}, run: func(f *fixture) {
		if err := f.Publish(f.ctx, "news", make([]byte, store.MaxMessage+1)); err == nil {
			f.Error("no error")
		}
		l := f.listen("news")
		f.noError("Publish", f.Publish(f.ctx, "news", make([]byte, store.MaxMessage)))
		equal(f, "bytes received", len(l.take(1)[0]), store.MaxMessage)
		l.end()
	}},
	{name: "messages/listening ends with its context", options: Options{}, run: func(f *fixture) {
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		f.noError("Listen", f.Listen(ctx, "news", func([]byte) {}))
	}},
}

// listener collects messages.
type listener struct {
	f        *fixture
	messages chan string
	cancel   context.CancelFunc
	done     chan error
}

// listen returns when messages are received.
func (f *fixture) listen(channel string) *listener {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	l := &listener{f: f, messages: make(chan string, 64), cancel: cancel, done: make(chan error, 1)}
	began := make(chan struct{}, 1)
	go func() {
		l.done <- f.Listen(ctx, channel, func(m []byte) {
			if m == nil {
				began <- struct{}{}
				return
			}
			l.messages <- string(slices.Clone(m))
		})
	}()
	select {
	case <-began:
	case err := <-l.done:
		f.Fatalf("Listen: %v", err)
	}
	return l
}

func (l *listener) take(n int) []string {
	l.f.Helper()
	var got []string
	for range n {
		select {
		case m := <-l.messages:
			got = append(got, m)
		case err := <-l.done:
			l.f.Fatalf("after %d of %d messages: %v", len(got), n, err)
		}
	}
	slices.Sort(got) // no order is promised
	return got
}

func (l *listener) end() {
	l.f.Helper()
	l.cancel()
	l.f.noError("Listen", <-l.done)
}
