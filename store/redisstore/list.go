package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// List pages through jobs.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	return listing.List(ctx, source{s}, q)
}

// source shows the store's ZSETs as segments of a listing, for one page.
type source struct{ *Store }

// Segments lists lanes, groups of dead letters, or topics with other ended jobs.
func (s source) Segments(ctx context.Context, q listing.SegmentQuery, n int) ([]listing.Segment, error) {
	names, err := gather(ctx, s.Store, func(ctx context.Context, sh *shard) ([]string, error) {
		return s.segmentNames(ctx, sh, q, n)
	})
	return q.FirstSegments(names, n), err
}

// segmentNames are the names of the first segments of a shard. It reads one more than
// requested, because the first may be before the one to begin with.
func (s source) segmentNames(ctx context.Context, sh *shard, q listing.SegmentQuery, n int) ([]string, error) {
	switch {
	case q.Kind == listing.SegmentNamed: // any shard may hold jobs of a biz_key or group id
		return []string{q.Named}, nil
	case q.Kind == listing.SegmentDead:
		return s.names(ctx, sh.deadsOf(q.Topic).from(q.From.Name), n+1)
	case q.Kind == listing.SegmentEnded:
		return s.endedTopics(ctx, sh, q, n+1)
	case q.Endpoint != "":
		return s.names(ctx, sh.lanesAt(q.Endpoint, q.Topic).from(q.From.Name), n+1)
	}
	return s.names(ctx, sh.lanesOf(q.Topic).from(q.From.Name), n+1)
}

// endedTopics are topics of a shard that may have ended jobs.
func (s source) endedTopics(ctx context.Context, sh *shard, q listing.SegmentQuery, n int) ([]string, error) {
	if q.Topic != "" {
		return []string{q.Topic}, nil
	}
	return s.names(ctx, sh.allOf(ofEnded).from(q.From.Name), n)
}

// Entries reads a part of a segment's ZSET.
func (s source) Entries(ctx context.Context, seg listing.Segment, span listing.Span) ([]listing.Entry, error) {
	sh := s.shards[seg.Shard]
	key := map[listing.SegmentKind]string{
		listing.SegmentLane: sh.bucket(seg.Name), listing.SegmentDead: sh.dead(seg.Name),
		listing.SegmentEnded: sh.ended(seg.Name), listing.SegmentNamed: sh.named(seg.Name),
	}[seg.Kind]
	args := []any{span.N, span.Back}
	if span.After != nil {
		args = append(args, strconv.FormatFloat(span.After.Score, 'f', -1, 64), span.After.ID)
	}
	reply, err := entriesScript.Run(ctx, s.db, []string{key}, args...).StringSlice()
	if err != nil {
		return nil, s.wrap(err)
	}
	out := make([]listing.Entry, 0, len(reply)/2)
	for i := 0; i+1 < len(reply); i += 2 {
		id := reply[i]
		score, err := strconv.ParseFloat(reply[i+1], 64)
		if err != nil {
			return nil, fmt.Errorf("redisstore: entry of %s: %w", key, err)
		}
		state, _ := place(score)
		if seg.Kind == listing.SegmentDead || seg.Kind == listing.SegmentEnded {
			state += job.Delivered
		}
		out = append(out, listing.Entry{Position: listing.Position{Score: score, ID: id}, State: state})
	}
	if span.Back {
		slices.Reverse(out)
	}
	return out, nil
}

// maxRead bounds the records of one read: each may contain a body of 256 KiB.
const maxRead = 100

// Jobs reads the records of the first entries, as many as one script does.
func (s source) Jobs(ctx context.Context, seg listing.Segment, entries []listing.Entry) ([]*job.Job, error) {
	sh := s.shards[seg.Shard]
	keys, err := keysOf(seg, entries[:min(len(entries), maxRead)])
	if err != nil {
		return nil, err
	}
	records, err := s.someRecords(ctx, sh, keys)
	if err != nil {
		return nil, err
	}
	if err := s.complete(ctx, sh, records...); err != nil {
		return nil, err
	}
	out := make([]*job.Job, len(records))
	for i, r := range records {
		if r != nil {
			out[i] = &r.Job
		}
	}
	return out, nil
}

func keysOf(seg listing.Segment, entries []listing.Entry) ([]job.Key, error) {
	keys := make([]job.Key, len(entries))
	for i, e := range entries {
		var err error
		if keys[i], err = keyOf(seg, e); err != nil {
			return nil, fmt.Errorf("redisstore: entry %q of %s: %w", e.ID, seg.Name, err)
		}
	}
	return keys, nil
}

func keyOf(seg listing.Segment, e listing.Entry) (job.Key, error) {
	switch seg.Kind {
	case listing.SegmentNamed:
		return job.ParseKey(e.ID)
	case listing.SegmentLane:
		lane, err := job.ParseLane(seg.Name)
		return job.Key{Topic: lane.Topic, ID: e.ID}, err
	case listing.SegmentDead:
		lane, _, err := listing.ParseDeadName(seg.Name)
		return job.Key{Topic: lane.Topic, ID: e.ID}, err
	}
	return job.Key{Topic: seg.Name, ID: e.ID}, nil
}
