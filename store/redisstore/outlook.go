package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Outlook returns the facts that delay a job's next attempt.
func (s *Store) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	o := store.Outlook{Shards: len(s.shards)}
	for range store.Tries(ctx) {
		sh, r, err := s.find(ctx, key)
		o.Shard = slices.Index(s.shards, sh)
		if err != nil {
			o.Now, _ = sh.clock.now()
			return o, err
		}
		o.Now = r.now
		v, err := s.view(ctx, sh, r)
		if err != nil {
			return o, err
		}
		current, err := rawOf(v.record.Val())
		if err == nil && current != r.stored {
			continue
		}
		if err == nil {
			err = v.fill(&o, r)
		}
		if err == nil && o.Ranked {
			err = s.addSiblings(ctx, sh, r.Lane(), &o)
		}
		if err == nil {
			err = s.addHead(ctx, sh, r, &o)
		}
		return o, err
	}
	return o, store.ErrConflict
}

// addSiblings adds the jobs in flight of the other lanes of the topic and endpoint. They are a
// moment younger.
func (s *Store) addSiblings(ctx context.Context, sh *shard, lane job.Lane, o *store.Outlook) error {
	pipe := s.db.Pipeline()
	var out []*redis.IntCmd
	for _, other := range lane.Siblings() {
		out = append(out, pipe.ZCount(ctx, sh.bucket(other.String()), "-inf", "(0"))
	}
	if err := s.exec(ctx, pipe); err != nil {
		return err
	}
	for _, n := range out {
		o.LaneInFlight += n.Val()
	}
	return nil
}

// view has the facts around a job. The record is read again at the end: if it is unchanged,
// no node has claimed or settled the job in between.
type view struct {
	score, look           *redis.FloatCmd // the job's in its bucket, and its lane's
	rank, laneOut, hints  *redis.IntCmd
	ranked                *redis.IntCmd // lanes of the topic with priorities
	circuit, limits, turn *redis.StringCmd
	out                   *redis.SliceCmd // ready and running: jobs of the endpoint, then of the topic; ready: of all, and of pull queues
	record                *redis.SliceCmd
}

func (s *Store) view(ctx context.Context, sh *shard, r *record) (view, error) {
	lane := r.Lane()
	bucket := sh.bucket(lane.String())
	pipe := s.db.Pipeline()
	v := view{
		score: pipe.ZScore(ctx, bucket, r.ID), look: pipe.ZScore(ctx, sh.lanes, lane.String()),
		rank: pipe.ZRank(ctx, bucket, r.ID), laneOut: pipe.ZCount(ctx, bucket, "-inf", "(0"), hints: pipe.LLen(ctx, sh.ready),
		ranked:  pipe.ZLexCount(ctx, sh.ranks, "["+job.LanePrefix(lane.Topic), "("+lane.Topic+"}"),
		circuit: pipe.HGet(ctx, sh.circuits, lane.Endpoint), limits: pipe.HGet(ctx, sh.topics, lane.Topic), turn: pipe.HGet(ctx, sh.tokens, lane.Topic),
		out: pipe.HMGet(ctx, sh.counts, countField(ofEndpoint+lane.Endpoint, job.Ready), countField(ofEndpoint+lane.Endpoint, job.Running),
			countField(lane.Topic, job.Ready), countField(lane.Topic, job.Running),
			countField("", job.Ready), countField(ofEndpoint+string(job.PullQueue), job.Ready)),
		record: pipe.HMGet(ctx, sh.page(r.Key), fieldsOf(r.Key)...),
	}
	return v, s.exec(ctx, pipe)
}

// fill copies v and the job r into o.
func (v *view) fill(o *store.Outlook, r *record) (err error) {
	if !r.State.Final() && v.score.Err() == nil {
		err = v.fillUnfinished(o, r)
	}
	var failed error
	o.Job, failed = r.whole()
	return errors.Join(err, failed)
}

func (v *view) fillUnfinished(o *store.Outlook, r *record) error {
	r.refine(v.score.Val())
	_, o.At = decodeScore(v.score.Val())
	o.Look = job.Instant(v.look.Val())
	o.LaneInFlight, o.ReadyList = v.laneOut.Val(), v.hints.Val()
	o.Ranked = v.ranked.Val() > 0
	if v.score.Val() >= 0 {
		o.Ahead = v.rank.Val() - o.LaneInFlight
	}
	out := make([]int64, 6)
	for i, n := range v.out.Val() {
		text, _ := n.(string)
		out[i%6], _ = strconv.ParseInt(text, 10, 64) // missing: none
	}
	o.EndpointInFlight, o.TopicReady, o.Ready = out[0]+out[1], out[2], out[4]-out[5]
	o.Circuit = circuitAt(v.circuit.Val(), o.Now)
	if r.State == job.Running {
		o.Worker = workerOf(r.nonce)
	}
	return v.fillLimits(o, out[2]+out[3])
}

func (v *view) fillLimits(o *store.Outlook, out int64) (err error) {
	text := v.limits.Val()
	if text == "" {
		return nil
	}
	o.TopicInFlight = out
	if o.Limits, err = parseLimits(text); err == nil && o.Limits.Rate > 0 {
		next, _ := strconv.ParseFloat(v.turn.Val(), 64) // empty: no job has gone yet
		o.NextByRate = rules.PaceOf(o.Limits.Rate, o.Shards, next).NextAt(o.Now)
	}
	return err
}

// A running job's nonce is "<nonce of the call>@<worker>:<state><token of an expired lease before>".

// signed is the nonce of a claim with the worker's name.
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
