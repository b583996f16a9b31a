package ledger

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/duehook/duehook/store"
)

// Documents are only in the ledger: they are few and seldom read.
const (
	sqlDocument       = "SELECT version, data FROM document WHERE kind = ? AND name = ?"
	sqlNamedDocument  = "SELECT name, version, data FROM document WHERE kind = ? AND name = ?"
	sqlListDocuments  = "SELECT name, version, data FROM document WHERE kind = ? AND name > ? ORDER BY name LIMIT ?"
	sqlAddDocument    = "INSERT INTO document (kind, name, version, data) VALUES (?, ?, 1, ?) "
	sqlChangeDocument = "UPDATE document SET version = version + 1, data = ? WHERE kind = ? AND name = ? AND version = ?"
	sqlProbe          = "UPDATE document SET version = version + 1 WHERE kind = ? AND name = ?" // to see whether writing works
	sqlDeleteDocument = "DELETE FROM document WHERE kind = ? AND name = ? AND version = ?"
)

// ListDocuments reads documents of a kind.
func (s *Store) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	text, args := sqlListDocuments, []any{q.Kind, q.After, cmp.Or(q.Limit, math.MaxInt32)}
	if q.Name != "" {
		text, args = sqlNamedDocument, []any{q.Kind, q.Name}
	}
	rows, err := s.pools.read.QueryContext(ctx, s.st.bind(text), args...)
	if err != nil {
		return nil, unavailable(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports it
	var docs []store.Document
	bytes := 0
	for rows.Next() {
		d := store.Document{Kind: q.Kind}
		if err := rows.Scan(&d.Name, &d.Version, &d.Data); err != nil {
			return nil, unavailable(err)
		}
		if bytes += len(d.Data); q.Limit > 0 && bytes > store.BatchBytes && len(docs) > 0 {
			break
		}
		docs = append(docs, d)
	}
	if err := rows.Err(); err != nil {
		return nil, unavailable(err)
	}
	return docs, nil
}

// PutDocuments writes and deletes documents of a kind, durably, in transactions of a bounded size.
func (s *Store) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	versions := make([]uint64, len(docs))
	// Rows are locked in the order of their names, so two calls cannot wait for each other.
	order := make([]int, len(docs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(docs[a].Name, docs[b].Name) })
	for len(order) > 0 {
		n := store.Batch(len(order), maxDocuments, func(i int) int { return len(docs[order[i]].Data) })
		err := s.putDocuments(ctx, docs, order[:n], versions)
		if err != nil {
			return nil, err
		}
		order = order[n:]
	}
	return versions, nil
}

// maxDocuments bounds the documents of one transaction.
const maxDocuments = 500

func (s *Store) putStatement(d *store.Document) (text string, args []any) {
	if d.Deleted {
		return sqlDeleteDocument, []any{d.Kind, d.Name, d.Version}
	}
	data := d.Data
	if data == nil {
		data = []byte{}
	}
	if d.Version == 0 {
		return sqlAddDocument + s.st.keepOf("version"), []any{d.Kind, d.Name, data}
	}
	return sqlChangeDocument, []any{data, d.Kind, d.Name, d.Version}
}

// putDocuments changes some documents in a transaction beside the committer, on the connection that they
// share, and notes their new versions.
func (s *Store) putDocuments(ctx context.Context, docs []store.Document, which []int, versions []uint64) (err error) {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	tx, err := s.pools.write.BeginTx(ctx, nil)
	if err != nil {
		return unavailable(err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing; otherwise the first error says more
	for _, i := range which {
		text, args := s.putStatement(&docs[i])
		result, err := tx.ExecContext(ctx, s.st.bind(text), args...)
		if err != nil {
			return unavailable(err)
		}
		changed, err := result.RowsAffected()
		if err != nil {
			return unavailable(err)
		}
		if changed > 0 {
			versions[i] = docs[i].Version
			if !docs[i].Deleted {
				versions[i]++
			}
		}
	}
	if err := tx.Commit(); err != nil {
		return unavailable(err)
	}
	return nil
}
