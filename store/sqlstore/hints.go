package sqlstore

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Hints tell other nodes and consumers that jobs may be due earlier than they know. They are sent by statements of their
// own, because a transaction that notifies keeps all others from committing meanwhile. Hints that are lost cost a poll.
const (
	hintPause  = 20 * time.Millisecond // between two sendings
	hintWait   = 5 * time.Second       // for the database
	listenWait = 2 * time.Second       // after the source failed
)

// hints are what is to be sent.
type hints struct {
	mu        sync.Mutex
	wake      bool                   // takes of other nodes
	pulls     map[string]job.Instant // consumers, by topic
	sending   bool
	listening sync.Once
}

// hint sends hints soon.
func (s *Store) hint(wake bool, pulls map[string]job.Instant) {
	h := &s.hints
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wake = h.wake || wake
	for topic, at := range pulls {
		if before, known := h.pulls[topic]; !known || at < before {
			if h.pulls == nil {
				h.pulls = map[string]job.Instant{}
			}
			h.pulls[topic] = at
		}
	}
	if !h.sending && s.done.Err() == nil && (h.wake || len(h.pulls) > 0) {
		h.sending = true
		s.work.Go(s.sendHints)
	}
}

// sendHints sends hints until there are none.
func (s *Store) sendHints() {
	for {
		h := &s.hints
		h.mu.Lock()
		wake, pulls := h.wake, h.pulls
		h.wake, h.pulls = false, nil
		h.sending = wake || len(pulls) > 0
		ends := !h.sending
		h.mu.Unlock()
		if ends {
			return
		}
		if wake {
			s.send(store.WakeChannel, strconv.Itoa(0))
		}
		for topic, at := range pulls {
			s.send(store.PullChannel, store.PullMessage(topic, at))
		}
		if job.Sleep(s.done, job.SystemClock(), hintPause) != nil {
			return
		}
	}
}

func (s *Store) send(channel, message string) {
	ctx, cancel := context.WithTimeout(s.done, hintWait)
	defer cancel()
	if err := s.Publish(ctx, channel, []byte(message)); err != nil {
		s.log.Debug("a hint was not sent", "channel", channel, "error", err)
	}
}

// listen hears the hints of other nodes from the first take that waits.
func (s *Store) listen() {
	s.hints.listening.Do(func() {
		s.work.Go(func() {
			for s.done.Err() == nil {
				if err := s.Listen(s.done, store.WakeChannel, func([]byte) { s.alarm.ring() }); err != nil {
					s.log.Debug("hints are not heard", "error", err)
				}
				if job.Sleep(s.done, job.SystemClock(), listenWait) != nil {
					return
				}
			}
		})
	})
}
