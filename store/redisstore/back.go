package redisstore

import (
	"context"
	"time"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// backLanes is how many lanes one script call puts right, and how many entries.
const backLanes = 200

// afterStep puts right what the server's clock stored while it was ahead by that
// much, or a server with another clock before it. It is safe to run at any time
// and by any number of nodes. What is due by the clock alone, such as a retry, stays as it is.
func (s *Store) afterStep(ctx context.Context, sh *shard, by time.Duration, o store.CarryOptions) error {
	s.log.WarnContext(ctx, "the clock of Redis went back: holds, leases and turns that it put off are put right",
		"by", by, "shard", sh.prefix)
	err := s.putRight(ctx, sh, o)
	if err != nil {
		sh.clock.again(by)
	}
	return err
}

func (s *Store) putRight(ctx context.Context, sh *shard, o store.CarryOptions) error {
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		found, next, err := s.db.ZScan(ctx, sh.lanes, cursor, "", backLanes).Result()
		if err != nil {
			return s.wrap(err)
		}
		cursor = next
		keys := []string{sh.lanes, sh.held}
		args := []any{sh.wake, millis(rules.HalfOpenTime(0)), millis(o.Longest), backLanes}
		for i := 0; i < len(found); i += 2 { // each is followed by its score
			keys, args = append(keys, sh.bucket(found[i])), append(args, found[i])
		}
		for more := true; more; {
			cmd, err := s.run(ctx, sh, backScript, keys, args)
			if err != nil {
				return err
			}
			if more, err = cmd.Bool(); err != nil {
				return s.wrap(err)
			}
		}
	}
	return nil
}
