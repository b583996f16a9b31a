package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	batches "github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// SetCircuit opens or closes the circuit of an endpoint in all shards. Unless it opens, carriers
// visit its lanes, which may have been put off until the circuit half-opens.
func (s *Store) SetCircuit(ctx context.Context, endpoint string, to store.CircuitState, d time.Duration) error {
	return batches.Each(ctx, len(s.shards), func(ctx context.Context, i int) error {
		sh := s.shards[i]
		err := s.changeCircuit(ctx, sh, endpoint, func(c store.Circuit, now job.Instant) store.Circuit {
			return rules.ChangedCircuit(c, to, d, now)
		})
		if err == nil && to != store.CircuitOpen {
			err = s.callLanes(ctx, sh, sh.lanesAt(endpoint, ""))
		}
		return err
	})
}

// changeCircuit changes the circuit of an endpoint in one shard.
func (s *Store) changeCircuit(ctx context.Context, sh *shard, endpoint string, change func(c store.Circuit, now job.Instant) store.Circuit) error {
	return s.updateField(ctx, sh, sh.circuits, endpoint, func(was string) (string, error) {
		now, err := s.askNow(ctx, sh)
		return circuitText(change(parseCircuit(was), now)), err
	})
}

// writeCircuits changes circuits, by endpoint, if they are as they were read.
func (s *Store) writeCircuits(ctx context.Context, sh *shard, read map[string]string, change func(c store.Circuit) store.Circuit) error {
	var fields []field
	for endpoint, was := range read {
		if now := circuitText(change(parseCircuit(was))); now != was {
			fields = append(fields, field{sh.circuits, endpoint, was, now})
		}
	}
	for some := range slices.Chunk(fields, maxBatch) {
		if _, err := changeFields(ctx, s.run, fieldsScript, sh, some); err != nil {
			return err
		}
	}
	return nil
}

// forgetCircuits deletes closed circuits among some chosen at random. Carrying deletes
// those of endpoints with due jobs.
func (s *Store) forgetCircuits(ctx context.Context, sh *shard) error {
	some, err := s.db.HRandFieldWithValues(ctx, sh.circuits, purgeCircuits).Result()
	if err != nil || len(some) == 0 {
		return s.wrap(err)
	}
	now, err := s.serverNow(ctx, sh)
	if err != nil {
		return err
	}
	read := make(map[string]string, len(some))
	for _, c := range some {
		read[c.Key] = c.Value
	}
	return s.writeCircuits(ctx, sh, read, func(c store.Circuit) store.Circuit {
		if rules.CircuitAt(c, now) == (store.Circuit{}) {
			return store.Circuit{}
		}
		return c
	})
}

// correctCircuits corrects circuits after the clock went back. Nodes that change one
// meanwhile know the new time.
func (s *Store) correctCircuits(ctx context.Context, sh *shard) error {
	read, err := s.db.HGetAll(ctx, sh.circuits).Result()
	if err != nil || len(read) == 0 {
		return s.wrap(err)
	}
	now, err := s.askNow(ctx, sh)
	if err != nil {
		return err
	}
	return s.writeCircuits(ctx, sh, read, func(c store.Circuit) store.Circuit { return rules.CorrectedCircuit(c, now) })
}

// callLanes makes carriers visit lanes that may have been put off.
func (s *Store) callLanes(ctx context.Context, sh *shard, of section) error {
	for {
		lanes, err := s.names(ctx, of, maxBatch)
		if err != nil || len(lanes) == 0 {
			return err
		}
		if _, err := s.lookAt(ctx, sh, lanes, 0); err != nil {
			return err
		}
		of = of.from(lanes[len(lanes)-1] + "\x00")
	}
}

// circuitsOf returns the circuits of a shard that are not closed, by endpoint.
func (s *Store) circuitsOf(ctx context.Context, sh *shard, now job.Instant) (map[string]store.Circuit, error) {
	texts, err := s.db.HGetAll(ctx, sh.circuits).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	circuits := map[string]store.Circuit{}
	for endpoint, text := range texts {
		if circuit := circuitAt(text, now); circuit != (store.Circuit{}) {
			circuits[endpoint] = circuit
		}
	}
	return circuits, nil
}

// parseCircuit decodes a circuit (lua/lib/lanes.lua).
func parseCircuit(text string) (c store.Circuit) {
	first, second, opened := strings.Cut(text, " ")
	from, err := strconv.ParseInt(first, 10, 64)
	switch {
	case err != nil:
	case opened:
		until, _ := strconv.ParseInt(second, 10, 64) // zero: it is never half-open
		c.OpenUntil, c.HalfOpenUntil = job.Instant(from), job.Instant(until)
	default:
		c.RampFrom = job.Instant(from)
	}
	return c
}

// circuitText encodes a circuit; the text of a closed one is empty.
func circuitText(c store.Circuit) string {
	switch {
	case c == (store.Circuit{}):
		return ""
	case c.RampFrom != 0:
		return strconv.FormatInt(int64(c.RampFrom), 10)
	}
	return strconv.FormatInt(int64(c.OpenUntil), 10) + " " + strconv.FormatInt(int64(c.HalfOpenUntil), 10)
}

// circuitAt is a stored circuit as it is at now.
func circuitAt(text string, now job.Instant) store.Circuit {
	return rules.CircuitAt(parseCircuit(text), now)
}
