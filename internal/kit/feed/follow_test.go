package feed_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
)

// brokenTwice fails twice, and then listens until ctx ends.
type brokenTwice struct{ times int }

func (b *brokenTwice) Listen(ctx context.Context, channel string, receive func([]byte)) error {
	receive([]byte(channel))
	if b.times++; b.times < 3 {
		return errors.New("the connection broke")
	}
	<-ctx.Done()
	return nil
}

func TestFollowGoesOnAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		var heard []time.Duration
		feed.Follow(ctx, &brokenTwice{}, "news", job.SystemClock(), slog.New(slog.DiscardHandler), func(message []byte) {
			if string(message) != "news" {
				t.Errorf("heard %q", message)
			}
			heard = append(heard, time.Since(start))
		})
		if diff := cmp.Diff([]time.Duration{0, time.Second, 2 * time.Second}, heard); diff != "" {
			t.Errorf("listened at (-want +got):\n%s", diff)
		}
	})
}
