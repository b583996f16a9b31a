package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// change replaces or deletes a record, as arguments of lua/change.lua. The script makes it
// if the record is still the one that was read.
type change struct {
	key      job.Key
	was      raw // what was read
	now      raw // missing: the job is forgotten
	from, to position
	after    int  // number of the change, from 1, that must be made; 0: none
	passing  bool // see job.Successor
}

// position is where the indexes have a job.
type position struct {
	lane   job.Lane
	state  int    // noEntry: nowhere
	group  string // of dead letters
	names  job.Indexes
	uid    string // of counted jobs, which have a HASH of their own
	millis string // of the score; empty: a lease that stays as it is
	turn   string // its order key and turn
}

const noEntry = -1

// position is where the indexes have the job of the record.
func (r *record) position() position {
	at := position{lane: r.Lane(), state: int(r.State), names: r.Indexes(), turn: r.turnText()}
	if r.Spec.Count != nil {
		at.uid = r.UID
	}
	switch {
	case r.State == job.Dead:
		at.group = listing.DeadName(at.lane, r.Reason)
		fallthrough
	case r.State.Final():
		at.millis = strconv.FormatInt(int64(r.EndedAt), 10)
	case r.State != job.Running:
		at.millis = strconv.FormatInt(int64(r.WakeAt()), 10)
	}
	return at
}

// changeOf replaces old (nil: no record) by fresh.
func (s *Store) changeOf(old, fresh *record) (change, error) {
	c := change{key: fresh.Key, to: fresh.position()}
	c.from = position{lane: c.to.lane, state: noEntry}
	if old != nil {
		c.from, c.was = old.position(), old.stored
	}
	if s.forgets(fresh) {
		return c.forgetting(), nil
	}
	var err error
	c.now, err = fresh.encode()
	return c, err
}

// forgets reports whether a job in this state is deleted at once.
func (s *Store) forgets(r *record) bool {
	return s.retention == 0 && r.State.Final() && r.State != job.Dead && !r.Spec.KeepsEnd()
}

// forgetting is a change that forgets the job.
func (c change) forgetting() change {
	c.now, c.to = raw{}, position{lane: c.from.lane, state: noEntry, millis: "0"}
	return c
}

// written is the result of a change.
type written int

const (
	outrun   written = iota // the record was another
	stored                  // it is done
	already                 // an earlier run of the same change made it
	full                    // the topic accepts no more
	draining                // nor this one
	left                    // for another call: the records are large
)

// runner is run or commit.
type runner = func(ctx context.Context, sh *shard, script *redis.Script, keys []string, args []any) (*redis.Cmd, error)

// put makes a change from old (nil: no record) to fresh, and registers successors in the same
// step. It obeys the topic's limits. The script is changeScript, or takeScript if a full Redis is
// to refuse it. Replicas need not have an unacknowledged change.
func (s *Store) put(ctx context.Context, script *redis.Script, sh *shard, old, fresh *record, next []job.Successor) (written, error) {
	c, err := s.changeOf(old, fresh)
	if err != nil {
		return outrun, err
	}
	changes, err := s.follow(sh, []change{c}, fresh.UID, next, fresh.EndedAt)
	if err != nil {
		return outrun, err
	}
	run := s.commit
	if store.IsUnacknowledged(ctx) {
		run = s.run
	}
	done, err := s.change(ctx, run, script, sh, true, changes)
	if err != nil {
		return outrun, err
	}
	return done[0], nil
}

// change makes changes of different jobs of a shard, as many as fit into one call: at least
// the first. It returns the others.
func (s *Store) change(ctx context.Context, run runner, script *redis.Script, sh *shard, obey bool, all []change) ([]written, error) {
	b := sh.newBatch(len(all), 17, func(lane job.Lane, name string) []string {
		return []string{sh.bucket(name), sh.ended(lane.Topic)}
	})
	for i := range all {
		c := &all[i]
		registration := c.now.registration
		if registration == c.was.registration {
			registration = ""
		}
		gone := c.from.uid
		if gone == c.to.uid {
			gone = ""
		}
		was, after := c.was.start(), c.after
		if c.passing {
			after = -after
		}
		b.add(c.key, c.to.lane, was.registration, was.progress, registration, c.now.progress,
			c.to.state, c.to.millis, b.group(c.to.group), b.indexes(c.to.names),
			c.from.state, b.lane(c.from.lane), b.group(c.from.group), b.indexes(c.from.names), after, c.to.turn, c.from.turn,
			b.counted(c.to.uid), b.counted(gone))
	}
	keys, args := b.call(sh.own[script], sh.wake, obey)
	cmd, err := run(ctx, sh, script, keys, args)
	if err != nil {
		return nil, err
	}
	reply, err := cmd.Int64Slice()
	if err != nil || len(reply) != len(all) {
		return nil, errors.Join(fmt.Errorf("redisstore: %d results for %d changes", len(reply), len(all)), err)
	}
	done := make([]written, len(reply))
	for i, n := range reply {
		done[i] = written(n)
	}
	return done, nil
}

// start is the beginning of both parts, up to their uids. Any change of the job changes it.
func (w raw) start() raw { return raw{startOf(w.registration), startOf(w.progress)} }

func startOf(part string) string {
	head := strings.IndexByte(part, '\n')
	if head < 0 {
		return part
	}
	return part[:min(len(part), head+1+uidLen)]
}
