package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/store"
)

// Bounds on the look-up of a uid: on the work of one script (2 ms), and on the scripts of
// one call. One call examines a shard of a million jobs.
const (
	findRecords = 1_000
	findBytes   = 1 << 20
	findCalls   = 150
)

// findUID looks for a uid in the page that it names: there is no index of uids, as
// that would take a tenth more memory per job. The position is the
// cursor of an HSCAN. After a failover a cursor can miss the job.
func (s *Store) findUID(ctx context.Context, uid string, after *store.Position) ([]store.Entry, *store.Position, error) {
	hash, bound := store.UIDHash(uid)
	id, err := ulid.ParseStrict(uid)
	if !bound || err != nil {
		return nil, nil, nil //nolint:nilerr // no job has such a uid
	}
	cursor, page, ok := "0", 0, true
	if after != nil {
		cursor, page, ok = cutCursor(after.ID)
	}
	if !ok {
		return nil, nil, store.ErrBadCursor
	}
	sh := s.shards[s.shardOfHash(hash)]
	ordered := store.UIDOrdered(uid) // the uid names the shard, but no page
	if !ordered {
		page = int(hash >> 24 % pages)
	}
	for range findCalls {
		reply, err := findScript.Run(ctx, s.db, []string{sh.jobs[page]}, cursor, id[:], findRecords, findBytes).StringSlice()
		switch {
		case err != nil:
			return nil, nil, s.wrap(err)
		case len(reply) != 2:
			return nil, nil, fmt.Errorf("redisstore: find answered %d values", len(reply))
		case reply[1] != "":
			return []store.Entry{{Position: store.Position{ID: reply[1]}}}, nil, nil
		case reply[0] == "0" && (!ordered || page == pages-1):
			return nil, nil, nil
		case reply[0] == "0":
			page++
		}
		cursor = reply[0]
	}
	if ordered {
		cursor += "." + strconv.Itoa(page)
	}
	return nil, &store.Position{ID: cursor}, nil
}

// cutCursor reads a cursor: that of HSCAN, and for jobs with order keys the page behind a dot.
func cutCursor(text string) (cursor string, page int, ok bool) {
	cursor, number, found := strings.Cut(text, ".")
	if _, err := strconv.ParseUint(cursor, 10, 64); err != nil {
		return "", 0, false
	}
	if found {
		n, err := strconv.ParseUint(number, 10, 8)
		if err != nil || n >= pages {
			return "", 0, false
		}
		page = int(n)
	}
	return cursor, page, true
}
