package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Outlook tells what keeps a job from its next attempt.
func (s *Store) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	sh := s.shards[s.shardOf(key)]
	o := store.Outlook{Shards: len(s.shards)}
	w, now, err := s.read(ctx, sh, key)
	o.Now = now
	// Which lane it is in only its record tells, and that may change meanwhile.
	for range maxTries {
		if err != nil {
			return o, err
		}
		var r *record
		if r, err = decodeRecord(key, w); err != nil {
			return o, err
		}
		lane := r.Lane()
		var v view
		if v, err = s.view(ctx, sh, key, lane); err != nil {
			return o, err
		}
		o.Now, w = v.now, v.record
		if w.missing() {
			return o, store.ErrNotFound
		}
		if r, err = decodeRecord(key, w); err == nil && r.Lane() == lane {
			if err = v.fill(&o, r, len(s.shards)); err == nil && o.At != 0 {
				err = s.addRivals(ctx, sh, lane, &o)
			}
			return o, err
		}
	}
	return o, store.ErrConflict
}

// addRivals adds what other lanes of the topic have to do with the job, if it has
// priorities or a rate. These figures are of a moment later.
func (s *Store) addRivals(ctx context.Context, sh *shard, lane job.Lane, o *store.Outlook) error {
	with, err := s.db.ZLexCount(ctx, sh.ranks, "["+job.LanePrefix(lane.Topic), "("+lane.Topic+"}").Result()
	waits := o.Job.State == job.Waiting || o.Job.State == job.Retrying
	paced := waits && o.Limits.Rate > 0 && o.At <= o.Now
	if err != nil || (with == 0 && !paced) {
		return s.wrap(err)
	}
	lanes, _, err := s.allNames(ctx, sh.lanesOf(lane.Topic), store.MaxLanes)
	if err != nil {
		return err
	}
	pipe := s.db.Pipeline()
	due := func(name string) *redis.IntCmd {
		return pipe.ZCount(ctx, sh.bucket(name), "0", "("+strconv.FormatInt(int64(o.Now+1), 10))
	}
	var higher, out []*redis.IntCmd
	beside := map[*redis.IntCmd]string{}
	for _, name := range lanes {
		other, err := job.ParseLane(name)
		if err != nil || other.Topic != lane.Topic {
			continue
		}
		if waits && other.Priority.Number() > lane.Priority.Number() {
			higher = append(higher, due(name))
		}
		if other.Endpoint == lane.Endpoint && other != lane {
			out = append(out, pipe.ZCount(ctx, sh.bucket(name), "-inf", "(0"))
		}
		if paced && other.Endpoint != lane.Endpoint && other.Priority == lane.Priority {
			beside[due(name)] = other.Endpoint
		}
	}
	if len(higher)+len(out)+len(beside) == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return s.wrap(err)
	}
	for _, n := range higher {
		o.Higher += n.Val()
	}
	for _, n := range out {
		o.LaneOut += n.Val()
	}
	if len(beside) == 0 {
		return nil
	}
	circuits, err := s.circuitsOf(ctx, sh, o.Now)
	if err != nil {
		return err
	}
	var turns []int64
	for n, endpoint := range beside {
		if circuits[endpoint].OpenUntil == 0 {
			turns = append(turns, n.Val())
		}
	}
	o.Beside = rules.TurnsBefore(o.Ahead, turns)
	return nil
}

// view is what lua/outlook.lua answers; texts are empty where there is nothing.
type view struct {
	now                         job.Instant
	ahead, endpointOut, laneOut int64
	ready                       int64
	record                      raw
	score, look, circuit        string
	limits, token               string
	readyOut, runningOut        string
}

func (s *Store) view(ctx context.Context, sh *shard, key job.Key, lane job.Lane) (view, error) {
	name := lane.String()
	reply, err := s.eval(ctx, outlookScript,
		[]string{sh.page(key), sh.bucket(name), sh.lanes, sh.out, sh.held, sh.ready, sh.topics, sh.tokens, sh.counts},
		[]any{key.String(), key.ID, name, lane.Topic})
	if err != nil {
		return view{}, err
	}
	if len(reply) != 14 {
		return view{}, fmt.Errorf("redisstore: outlook answered %d values", len(reply))
	}
	v := view{now: sh.clock.observe(reply[0])}
	for i, n := range []*int64{&v.ahead, &v.endpointOut, &v.laneOut, &v.ready} {
		*n, _ = reply[1+i].(int64)
	}
	for i, text := range []*string{
		&v.record.registration, &v.record.progress, &v.score, &v.look, &v.circuit, &v.limits, &v.token, &v.readyOut, &v.runningOut,
	} {
		*text, _ = reply[5+i].(string)
	}
	return v, nil
}

// fill puts into o what v says of the job r.
func (v *view) fill(o *store.Outlook, r *record, shards int) error {
	if !r.State.Final() && v.score != "" {
		if err := v.fillUnfinished(o, r, shards); err != nil {
			return err
		}
	}
	var err error
	o.Job, err = r.whole()
	return err
}

func (v *view) fillUnfinished(o *store.Outlook, r *record, shards int) error {
	score, scoreErr := strconv.ParseFloat(v.score, 64)
	look, lookErr := strconv.ParseFloat(v.look, 64)
	if err := errors.Join(scoreErr, lookErr); err != nil {
		return fmt.Errorf("redisstore: outlook: %w", err)
	}
	r.refine(score)
	_, o.At = place(score)
	o.Look = job.Instant(look)
	o.Ahead, o.EndpointOut, o.LaneOut, o.ReadyList = v.ahead, v.endpointOut, v.laneOut, v.ready
	o.Circuit = parseCircuit(v.circuit, v.now)
	if r.State == job.Running {
		o.Worker = workerOf(r.nonce)
	}
	return v.fillLimits(o, shards)
}

func (v *view) fillLimits(o *store.Outlook, shards int) error {
	if v.limits == "" {
		return nil
	}
	var err error
	if o.Limits, err = parseLimits(v.limits); err != nil {
		return err
	}
	for _, text := range []string{v.readyOut, v.runningOut} {
		n, _ := strconv.ParseInt(text, 10, 64) // empty: none
		o.TopicOut += n
	}
	if o.Limits.Rate > 0 {
		next, _ := strconv.ParseFloat(v.token, 64) // empty: none was taken
		o.NextToken = rules.PaceOf(o.Limits.Rate, shards, next).Turn(v.now)
	}
	return nil
}

// parseCircuit reads a circuit as lua/lib/lanes.lua has it.
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

// A running job's nonce is "<nonce of the call>@<worker>:<state>".

// signed is the nonce of a claim with its worker's name in it.
func signed(o store.ClaimOptions) string {
	name := strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return '_' // the head of a record is lines of words
		}
		return r
	}, o.By)
	return o.Nonce + "@" + name
}

func workerOf(nonce string) string {
	_, name, _ := strings.Cut(nonce, "@")
	if end := strings.LastIndexByte(name, ':'); end >= 0 {
		return name[:end]
	}
	return ""
}
