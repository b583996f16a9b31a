package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// OpenCircuit opens the circuit of an endpoint. With no duration it ends an open one: the
// circuit is half-open then, and lanes that waited for its end are looked at.
func (s *Store) OpenCircuit(ctx context.Context, endpoint string, d time.Duration) error {
	for _, sh := range s.shards {
		if d > 0 {
			if err := s.changeCircuits(ctx, sh, "open", endpoint, millis(d), millis(rules.HalfOpenTime(d))); err != nil {
				return err
			}
			continue
		}
		if err := s.changeCircuits(ctx, sh, "half-open", endpoint, millis(rules.HalfOpenTime(0))); err != nil {
			return err
		}
		if err := s.callBack(ctx, sh, endpoint); err != nil {
			return err
		}
	}
	return nil
}

// CloseCircuit closes the circuit of an endpoint: its ramp begins. Its lanes may have been put
// off until the end of the open circuit, so they are looked at.
func (s *Store) CloseCircuit(ctx context.Context, endpoint string) error {
	for _, sh := range s.shards {
		if err := s.changeCircuits(ctx, sh, "close", endpoint); err != nil {
			return err
		}
		if err := s.callBack(ctx, sh, endpoint); err != nil {
			return err
		}
	}
	return nil
}

// changeCircuits runs lua/circuit.lua.
func (s *Store) changeCircuits(ctx context.Context, sh *shard, args ...any) error {
	return s.wrap(circuitScript.Run(ctx, s.db, sh.own[circuitScript], args...).Err())
}

// forgetCircuits forgets circuits that have closed, out of some chosen at random. Carrying
// forgets those of endpoints with due jobs.
func (s *Store) forgetCircuits(ctx context.Context, sh *shard) error {
	some, err := s.db.HRandFieldWithValues(ctx, sh.circuits, purgeCircuits).Result()
	if err != nil || len(some) == 0 {
		return s.wrap(err)
	}
	now, err := s.serverNow(ctx, sh)
	if err != nil {
		return err
	}
	args := []any{"forget"}
	for _, c := range some {
		if parseCircuit(c.Value, now) == (store.Circuit{}) {
			args = append(args, c.Key, c.Value)
		}
	}
	if len(args) == 1 {
		return nil
	}
	return s.changeCircuits(ctx, sh, args...)
}

// callBack makes carriers look at the endpoint's lanes now.
func (s *Store) callBack(ctx context.Context, sh *shard, endpoint string) error {
	return s.callLanes(ctx, sh, sh.lanesAt(endpoint, ""))
}

// callLanes makes carriers look at lanes that may have been put off.
func (s *Store) callLanes(ctx context.Context, sh *shard, of section) error {
	for {
		lanes, err := s.names(ctx, of, maxBatch)
		if err != nil || len(lanes) == 0 {
			return err
		}
		if _, err := s.lookAt(ctx, sh, lanes, "", 0); err != nil {
			return err
		}
		of = of.from(lanes[len(lanes)-1] + "\x00")
	}
}

// parseCircuit decodes a circuit (lua/lib/lanes.lua).
func parseCircuit(circuit string, now job.Instant) store.Circuit {
	first, second, holds := strings.Cut(circuit, " ")
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return store.Circuit{}
	}
	if !holds {
		return rules.RampingCircuit(job.Instant(from), now)
	}
	probed, _ := strconv.ParseInt(second, 10, 64) // zero: it is not
	return rules.OpenedCircuit(job.Instant(from), job.Instant(probed), now)
}
