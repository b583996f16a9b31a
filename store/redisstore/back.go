package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/store"
)

// lookLanes bounds the lanes that one script call corrects after the clock went back, and
// the entries that it moves.
const lookLanes = 200

// afterStep corrects what the server stored while its clock was ahead, or another server
// stored. It is safe at any time and for any number of nodes. Retries and other due times
// stay.
func (s *Store) afterStep(ctx context.Context, sh *shard, by time.Duration, o store.CarryOptions) error {
	s.log.WarnContext(ctx, "the clock of Redis went back: correcting circuits, leases and lanes",
		"by", by, "shard", sh.prefix)
	err := s.correct(ctx, sh, o)
	if err != nil {
		sh.clock.again(by)
	}
	return err
}

func (s *Store) correct(ctx context.Context, sh *shard, o store.CarryOptions) error {
	if err := s.correctCircuits(ctx, sh); err != nil {
		return err
	}
	scan := func(cursor uint64) *redis.ScanCmd { return s.db.ZScan(ctx, sh.lanes, cursor, "", lookLanes) }
	return s.eachPage(scan, func(found []string) error {
		var lanes []string
		for i := 0; i < len(found); i += 2 { // each is followed by its score
			lanes = append(lanes, found[i])
		}
		for {
			if more, err := s.lookAt(ctx, sh, lanes, o.Longest); err != nil || !more {
				return err
			}
		}
	})
}

// lookAt runs lua/look.lua. It reports whether there may be more to correct.
func (s *Store) lookAt(ctx context.Context, sh *shard, lanes []string, longest time.Duration) (more bool, err error) {
	keys, args := sh.own[lookScript], []any{sh.wake, millis(longest), lookLanes}
	for _, lane := range lanes {
		keys, args = append(keys, sh.bucket(lane)), append(args, lane)
	}
	cmd, err := s.run(ctx, sh, lookScript, keys, args)
	if err != nil {
		return false, err
	}
	more, err = cmd.Bool()
	return more, s.wrap(err)
}
