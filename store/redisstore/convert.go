package redisstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
)

// convert gives shards of the first layout what they lack: sums, and an index. It may be
// repeated, and no node is at work.
func (m *mover) convert(ctx context.Context) error {
	for _, sh := range m.from.shards {
		c := conversion{s: m.from, sh: sh, sums: map[string]int64{}, busy: map[string]int64{}, names: map[string]bool{}, ends: map[string]bool{}}
		if err := c.run(ctx); err != nil {
			return m.from.wrap(err)
		}
	}
	return nil
}

// conversion is that of one shard.
type conversion struct {
	s  *Store
	sh *shard

	sums  map[string]int64 // fields of counts
	busy  map[string]int64 // fields of counts
	names map[string]bool  // in the index
	ends  map[string]bool  // topics
}

func (c *conversion) run(ctx context.Context) error {
	if err := c.readCounts(ctx); err != nil {
		return err
	}
	lanes, err := c.s.db.ZRange(ctx, c.sh.lanes, 0, -1).Result()
	if err != nil {
		return err
	}
	for _, lane := range lanes {
		if err := c.readLane(ctx, lane); err != nil {
			return err
		}
	}
	return c.write(ctx)
}

func (c *conversion) readCounts(ctx context.Context) error {
	fields, err := c.s.db.HGetAll(ctx, c.sh.counts).Result()
	if err != nil {
		return err
	}
	for field, text := range fields {
		topic, code, _ := strings.Cut(field, "|")
		n, err := strconv.ParseInt(text, 10, 64)
		state, err2 := strconv.ParseUint(code, 10, 8)
		if err != nil || err2 != nil || topic == "" || topic[0] == '=' {
			continue // of an earlier run
		}
		c.sums["|"+code] += n
		c.names["t"+topic] = true
		switch s := job.State(state); {
		case s < job.Ready && n >= manyJobs:
			c.busy[field] = n
		case s.Final() && s != job.Dead:
			c.names["d"+topic], c.ends[topic] = true, true
		}
	}
	return nil
}

func (c *conversion) readLane(ctx context.Context, lane string) error {
	endpoint := lane[strings.LastIndexByte(lane, '|')+1:]
	c.names["l"+lane], c.names["e"+endpoint+" "+lane] = true, true
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		entries, next, err := c.s.db.ZScan(ctx, c.sh.bucket(lane), cursor, "", 1000).Result()
		if err != nil {
			return err
		}
		for i := 1; i < len(entries); i += 2 {
			score, err := strconv.ParseFloat(entries[i], 64)
			if err != nil {
				return err
			}
			state, _ := place(score)
			c.sums["="+endpoint+"|"+strconv.Itoa(int(state))]++
		}
		cursor = next
	}
	return nil
}

func (c *conversion) write(ctx context.Context) error {
	pipe := c.s.db.Pipeline()
	pipe.Del(ctx, c.sh.busy, c.sh.ends)
	n := 0
	flush := func() error {
		if n++; n%maxBatch != 0 {
			return nil
		}
		_, err := pipe.Exec(ctx)
		return err
	}
	for field, sum := range c.sums {
		pipe.HSet(ctx, c.sh.counts, field, sum)
		if err := flush(); err != nil {
			return err
		}
	}
	for field, jobs := range c.busy {
		pipe.ZAdd(ctx, c.sh.busy, redis.Z{Score: float64(jobs), Member: field})
		if err := flush(); err != nil {
			return err
		}
	}
	for topic := range c.ends {
		pipe.ZAdd(ctx, c.sh.ends, redis.Z{Member: topic}) // "or earlier" than its first job ended
		if err := flush(); err != nil {
			return err
		}
	}
	for name := range c.names {
		pipe.ZAdd(ctx, c.sh.index, redis.Z{Member: name})
		if err := flush(); err != nil {
			return err
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}
