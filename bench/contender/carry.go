package contender

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/bench/system"
	"github.com/duehook/duehook/carrier"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/redisstore"
)

// carry is duehook's carrier alone: who pops what it carries throws it away, so
// that carrying is not held up by deliveries.
const carry = "carry"

// popBatch is how many hints are thrown away at a time.
const popBatch = 1000

// CarryAll runs duehook's carrier on a Redis until n jobs have been carried, and
// says when the last was.
func CarryAll(ctx context.Context, r *system.Redis, n int) (last time.Time, err error) {
	self, err := os.Executable()
	if err != nil {
		return last, err
	}
	cmd := exec.Command(self, "contender", carry, "-store", r.URL(), "-jobs", strconv.Itoa(n)) //nolint:gosec,noctx // ourselves; Stop ends it
	var parseErr error
	p, err := system.Start(ctx, carry, cmd, func(line string) bool {
		at, ok := strings.CutPrefix(line, "carried at ")
		if ok {
			last, parseErr = time.Parse(time.RFC3339Nano, at)
		}
		return ok
	})
	if err != nil {
		return last, err
	}
	return last, errors.Join(parseErr, p.Stop())
}

// runCarry is the process.
func runCarry(ctx context.Context, o *options) error {
	s, err := redisstore.Open(ctx, redisstore.Options{URL: o.storeURL})
	if err != nil {
		return err
	}
	clock := job.SystemClock()
	c, err := carrier.New(carrier.Options{
		Store: s, Lists: s,
		// Nothing is to come again. A hint counts as ready until it is claimed, and nobody claims: there is room for all.
		CarryOptions: store.CarryOptions{Visibility: time.Hour, Cap: 10 * o.jobs},
	})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return c.Run(ctx) })
	both.Go(func() error {
		for left := o.jobs; left > 0; {
			hints, err := s.Pop(ctx, 0, popBatch, time.Second)
			if err != nil {
				return err
			}
			left -= len(hints)
		}
		_, err := fmt.Fprintln(o.out, "carried at "+clock.Now().Format(time.RFC3339Nano))
		return err
	})
	return errors.Join(both.Wait(), s.Close())
}
