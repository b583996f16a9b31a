package sqlstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Scores of entries are times, with shifts that put jobs in flight before the others of
// their lane and parked ones behind them. A float64 holds them exactly.
const (
	flightShift = 1 << 51
	parkedShift = 1 << 51
)

// score is the score of an entry of a lane.
func score(bucket int16, wake int64) float64 { return float64(wake + shifts[bucket]) }

// shifts of scores by bucket.
var shifts = [...]int64{-flightShift, 0, parkedShift}

// parseScore is the reverse of score.
func parseScore(score float64) (bucket int16, wake int64) {
	at := int64(score)
	switch {
	case at < 0:
		return 0, at + flightShift
	case at < parkedShift:
		return 1, at
	}
	return 2, at - parkedShift
}

// Entries reads a part of an index.
func (s *Store) Entries(ctx context.Context, of store.Index, span store.Span) ([]store.Entry, *store.Position, error) {
	w := window{span: span}
	switch of.Kind {
	case store.IndexLane:
		w.columns, w.where, w.key = "id, bucket, wake, state", "lane = $1 AND bucket IS NOT NULL", laneIDOf(of.Name)
		w.order = []string{"bucket", "wake", "id"}
		if a := span.After; a != nil {
			bucket, wake := parseScore(a.Score)
			w.after = []any{bucket, wake, text(a.ID)}
		}
	case store.IndexDead:
		w.byEnd("dead_group = $1", text(of.Name))
	case store.IndexEnded:
		w.byEnd("topic = $1 AND state IN (4, 6, 7)", text(of.Name))
	case store.IndexNamed:
		w.byKey("biz_key = $1", text(of.Name))
		if group, ok := listing.CutGroupIndex(of.Name); ok {
			w.byKey("group_id = $1", text(group))
		}
	case store.IndexUID:
		w.byKey("uid = $1", text(of.Name))
	case store.IndexVisits:
		return s.visits(ctx, span)
	}
	entries, err := s.window(ctx, &w)
	return entries, nil, err
}

// window is a range of an index of jobs.
type window struct {
	span    store.Span
	columns string // id, bucket or null, time or null, state
	where   string // with key as $1
	key     any
	order   []string // columns
	after   []any    // their values; nil: from the start
}

// byEnd reads ended jobs in the order of their ends.
func (w *window) byEnd(where, key string) {
	w.columns, w.where, w.key, w.order = "id, 1::smallint, ended_at, state", where, key, []string{"ended_at", "id"}
	if a := w.span.After; a != nil {
		w.after = []any{int64(a.Score), text(a.ID)}
	}
}

// byKey reads jobs in the order of their keys, which are the ids of the entries.
func (w *window) byKey(where, key string) {
	w.columns, w.where, w.key, w.order = "topic || '/' || id, 1::smallint, 0::bigint, state", where, key, []string{"topic", "id"}
	if a := w.span.After; a != nil {
		key, _ := job.ParseKey(text(a.ID)) // a forged one is harmless
		w.after = []any{key.Topic, key.ID}
	}
}

func (s *Store) window(ctx context.Context, w *window) (entries []store.Entry, err error) {
	query, args := "SELECT "+w.columns+" FROM duehook.job WHERE "+w.where, []any{w.key, w.span.N}
	than, direction := ">", ""
	if w.span.Back {
		than, direction = "<", " DESC"
	}
	columns, places, order := "", "", ""
	for i, column := range w.order {
		sep := ", "
		if i == 0 {
			sep = ""
		}
		columns += sep + column
		places += sep + "$" + string(rune('3'+i))
		order += sep + column + direction
	}
	if w.after != nil {
		query += " AND (" + columns + ") " + than + " (" + places + ")"
		args = append(args, w.after...)
	}
	query += " ORDER BY " + order + " LIMIT $2"
	_, err = s.ask(ctx, func(b *pgx.Batch) {
		entries = nil
		b.Queue(s.sql(query), args...).Query(func(rows pgx.Rows) error {
			var e store.Entry
			var bucket, state int16
			var at int64
			_, err := pgx.ForEachRow(rows, []any{&e.ID, &bucket, &at, &state}, func() error {
				e.Score, e.State = score(bucket, at), job.State(state)
				entries = append(entries, e)
				return nil
			})
			return err
		})
	})
	return entries, err
}

// visitAt is when a lane is visited: the score of its entry, beyond all times if it needs no visit.
const visitAt = `coalesce(least(wake, lease), ` + noTime + `)`

// noTime is later than all times.
const noTime = `4000000000000`

// visits reads lanes by when they are visited. New ones are only in deltas.
func (s *Store) visits(ctx context.Context, span store.Span) (entries []store.Entry, next *store.Position, err error) {
	from, name := int64(-1), ""
	if a := span.After; a != nil {
		from, name = int64(a.Score), text(a.ID)
	}
	_, err = s.ask(ctx, func(b *pgx.Batch) {
		entries = nil
		b.Queue(s.sql(`SELECT at, name FROM (
	(SELECT `+visitAt+` AS at, name FROM duehook.lane WHERE (`+visitAt+`, name) > ($1, $2) ORDER BY `+visitAt+`, name LIMIT $3)
	UNION ALL SELECT min(`+visitAt+`), name FROM duehook.delta AS d WHERE lane IS NOT NULL
		AND NOT EXISTS (SELECT FROM duehook.lane WHERE lane.lane = d.lane) GROUP BY name HAVING sum(`+unfinished+`) > 0
) AS visited WHERE (at, name) > ($1, $2) ORDER BY at, name LIMIT $3`), from, name, span.N).Query(func(rows pgx.Rows) error {
			var e store.Entry
			var at int64
			_, err := pgx.ForEachRow(rows, []any{&at, &e.ID}, func() error {
				e.Score = float64(at)
				entries = append(entries, e)
				return nil
			})
			return err
		})
	})
	return entries, nil, err
}
