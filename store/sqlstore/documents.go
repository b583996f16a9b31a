package sqlstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/store"
)

// ListDocuments reads documents of a kind.
func (s *Store) ListDocuments(ctx context.Context, q store.DocumentQuery) (docs []store.Document, err error) {
	where, from, limit := "name > $2", q.After, any(nil)
	if q.Name != "" {
		where, from = "name = $2", q.Name
	} else if q.Limit > 0 {
		limit = q.Limit
	}
	_, err = s.ask(ctx, func(b *pgx.Batch) {
		docs = nil
		b.Queue(s.sql(`SELECT name, version, data FROM (
	SELECT name, version, data, row_number() OVER by_name AS nth, sum(octet_length(data)) OVER by_name AS bytes
	FROM (SELECT name, version, data FROM duehook.document WHERE kind = $1 AND `+where+` ORDER BY name LIMIT $3) AS found
	WINDOW by_name AS (ORDER BY name)
) AS sized WHERE nth = 1 OR bytes <= $4 OR $3::bigint IS NULL ORDER BY nth`), q.Kind, text(from), limit, store.BatchBytes).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				d := store.Document{Kind: q.Kind}
				var version int64
				if err := rows.Scan(&d.Name, &version, &d.Data); err != nil {
					return err
				}
				d.Version = uint64(version)
				docs = append(docs, d)
			}
			return rows.Err()
		})
	})
	return docs, err
}

// PutDocuments writes and deletes documents. Callers lock them in one order.
func (s *Store) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	versions := make([]uint64, len(docs))
	if len(docs) == 0 {
		return versions, nil
	}
	names, old := make([]string, len(docs)), make([]int64, len(docs))
	data, deleted := make([][]byte, len(docs)), make([]bool, len(docs))
	for i, d := range docs {
		names[i], old[i], data[i], deleted[i] = d.Name, int64(d.Version), append([]byte{}, d.Data...), d.Deleted
	}
	err := s.change(ctx, func(ctx context.Context, t *txn) error {
		clear(versions)
		var b pgx.Batch
		b.Queue(s.sql(`SELECT FROM (SELECT name FROM unnest($2::text[]) AS name ORDER BY name) AS given
	CROSS JOIN LATERAL (SELECT FROM duehook.document AS d WHERE d.kind = $1 AND d.name = given.name FOR UPDATE) AS locked`), docs[0].Kind, names)
		b.Queue(s.sql(`WITH given AS (
	SELECT *, (SELECT ctid FROM duehook.document WHERE kind = $1 AND document.name = given.name) AS place
	FROM unnest($2::text[], $3::bigint[], $4::bytea[], $5::bool[]) WITH ORDINALITY AS given (name, version, data, deleted, n)
), made AS (
	INSERT INTO duehook.document (kind, name, version, data)
	SELECT $1, name, 1, data FROM given WHERE version = 0 AND NOT deleted ORDER BY name
	ON CONFLICT DO NOTHING RETURNING name, version
), changed AS (
	UPDATE duehook.document AS d SET version = d.version + 1, data = given.data FROM given
	WHERE d.ctid = given.place AND d.version = given.version AND NOT deleted RETURNING d.name, d.version
), gone AS (
	DELETE FROM duehook.document AS d USING given
	WHERE d.ctid = given.place AND d.version = given.version AND deleted RETURNING d.name, d.version
)
SELECT n, done.version FROM given JOIN (TABLE made UNION ALL TABLE changed UNION ALL TABLE gone) AS done USING (name)`),
			docs[0].Kind, names, old, data, deleted).Query(func(rows pgx.Rows) error {
			var n, version int64
			_, err := pgx.ForEachRow(rows, []any{&n, &version}, func() error {
				versions[n-1] = uint64(version)
				return nil
			})
			return err
		})
		return t.send(ctx, &b)
	})
	if err != nil {
		return nil, err
	}
	return versions, nil
}
