package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Entries reads a part of an index, which is a ZSET.
func (s *Store) Entries(ctx context.Context, of store.Index, span store.Span) ([]store.Entry, *store.Position, error) {
	if of.Kind == store.IndexUID {
		return s.findUID(ctx, of.Name, span.After)
	}
	sh := s.shards[of.Shard]
	key := map[store.IndexKind]string{
		store.IndexLane: sh.bucket(of.Name), store.IndexDead: sh.dead(of.Name),
		store.IndexEnded: sh.ended(of.Name), store.IndexNamed: sh.named(of.Name), store.IndexVisits: sh.lanes,
	}[of.Kind]
	args := []any{span.N, span.Back}
	if span.After != nil {
		args = append(args, strconv.FormatFloat(span.After.Score, 'f', -1, 64), span.After.ID)
	}
	reply, err := entriesScript.Run(ctx, s.db, []string{key}, args...).StringSlice()
	if err != nil {
		return nil, nil, s.wrap(err)
	}
	out := make([]store.Entry, 0, len(reply)/2)
	for i := 0; i+1 < len(reply); i += 2 {
		id := reply[i]
		score, err := strconv.ParseFloat(reply[i+1], 64)
		if err != nil {
			return nil, nil, fmt.Errorf("redisstore: entry of %s: %w", key, err)
		}
		state, _ := decodeScore(score)
		if of.Kind == store.IndexDead || of.Kind == store.IndexEnded {
			state += job.Delivered
		}
		out = append(out, store.Entry{Position: store.Position{Score: score, ID: id}, State: state})
	}
	if span.Back {
		slices.Reverse(out)
	}
	return out, nil, nil
}
