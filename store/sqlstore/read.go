package sqlstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Read reads records.
func (s *Store) Read(ctx context.Context, q store.ReadQuery) (r store.Records, err error) {
	keys := q.Keys
	if q.Shard == store.AnyShard {
		keys = keys[:1]
	}
	topics, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		topics[i], ids[i] = text(key.Topic), text(key.ID)
	}
	size, columns := "octet_length(spec)", withContent
	if q.Part == store.JobLog {
		size, columns = "pg_column_size(log)", "j.log"
	}
	var unreadable error
	_, err = s.ask(ctx, func(b *pgx.Batch) {
		r, unreadable = store.Records{Jobs: make([]*job.Job, len(keys)), Logs: make([][]job.Attempt, len(keys))}, store.ErrNotFound
		query := b.Queue(s.sql(`SELECT n, found, `+columns+` FROM (
	SELECT sum(`+size+`) OVER (ORDER BY n) - `+size+` AS bytes, count(*) OVER () AS found, j.*, n
	FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (topic, id, n) JOIN duehook.job AS j USING (topic, id)
) AS j WHERE bytes < $3 ORDER BY n`), topics, ids, store.BatchBytes)
		query.Query(func(rows pgx.Rows) error {
			read, found, last := int64(0), int64(0), int64(0)
			for rows.Next() {
				var err error
				if q.Part == store.JobLog {
					var log []string
					if err := rows.Scan(&last, &found, &log); err != nil {
						return err
					}
					r.Logs[last-1], err = decodeLog(log)
				} else {
					var j *job.Job
					if j, err = scanJob(behindColumns{rows, []any{&last, &found}}); j != nil && q.Part == store.JobHead {
						j.Spec.Body = nil
					}
					r.Jobs[last-1] = j
				}
				if unreadable = err; err != nil && !errors.Is(err, store.ErrUnreadable) {
					return err
				}
				read++
			}
			if read < found { // the others take too many bytes
				r.Jobs, r.Logs = r.Jobs[:last], r.Logs[:last]
			}
			return rows.Err()
		})
	})
	switch {
	case err != nil:
		return store.Records{}, err
	case q.Shard == store.AnyShard && unreadable != nil:
		return store.Records{}, unreadable
	}
	return r, nil
}

// scanJob reads a whole job; nil with an error.
func scanJob(row pgx.Row) (*job.Job, error) {
	r, err := scan(row)
	if err != nil {
		return nil, err
	}
	j, err := r.job()
	if err != nil {
		return nil, err
	}
	return &j, nil
}

// behindColumns is a row whose first columns are read, too.
type behindColumns struct {
	pgx.Row
	first []any
}

func (r behindColumns) Scan(into ...any) error {
	return r.Row.Scan(append(r.first[:len(r.first):len(r.first)], into...)...)
}
