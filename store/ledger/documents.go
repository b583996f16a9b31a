package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/duehook/duehook/store"
)

// Documents are only in the ledger: they are few and seldom read.
const (
	sqlDocument       = "SELECT version, data FROM document WHERE kind = ? AND name = ?"
	sqlListDocuments  = "SELECT name, version, data FROM document WHERE kind = ? AND name > ? ORDER BY name LIMIT ?"
	sqlAddDocument    = "INSERT INTO document (kind, name, version, data) VALUES (?, ?, 1, ?) "
	sqlChangeDocument = "UPDATE document SET version = version + 1, data = ? WHERE kind = ? AND name = ? AND version = ?"
	sqlProbe          = "UPDATE document SET version = version + 1 WHERE kind = ? AND name = ?" // to see whether writing works
	sqlDeleteDocument = "DELETE FROM document WHERE kind = ? AND name = ? AND version = ?"
)

// Document reads a document.
func (s *Store) Document(ctx context.Context, kind, name string) (store.Document, error) {
	if err := s.enter(); err != nil {
		return store.Document{}, err
	}
	defer s.leave()
	d := store.Document{Kind: kind, Name: name}
	err := s.pools.read.QueryRowContext(ctx, s.st.bind(sqlDocument), kind, name).Scan(&d.Version, &d.Data)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return store.Document{}, store.ErrNotFound
	case err != nil:
		return store.Document{}, unavailable(err)
	}
	return d, nil
}

// ListDocuments reads documents of a kind.
func (s *Store) ListDocuments(ctx context.Context, kind, after string, limit int) ([]store.Document, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	rows, err := s.pools.read.QueryContext(ctx, s.st.bind(sqlListDocuments), kind, after, cmp.Or(limit, math.MaxInt32))
	if err != nil {
		return nil, unavailable(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports it
	var docs []store.Document
	bytes := 0
	for rows.Next() {
		d := store.Document{Kind: kind}
		if err := rows.Scan(&d.Name, &d.Version, &d.Data); err != nil {
			return nil, unavailable(err)
		}
		if bytes += len(d.Data); limit > 0 && bytes > store.BatchBytes && len(docs) > 0 {
			break
		}
		docs = append(docs, d)
	}
	if err := rows.Err(); err != nil {
		return nil, unavailable(err)
	}
	return docs, nil
}

// PutDocuments writes documents of a kind, durably, in transactions of a bounded size.
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
		err := s.changeDocuments(ctx, func(exec execute) error {
			for _, i := range order[:n] {
				changed, err := exec(s.putStatement(&docs[i]))
				if err != nil {
					return err
				}
				if changed {
					versions[i] = docs[i].Version + 1
				}
			}
			return nil
		})
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
	data := d.Data
	if data == nil {
		data = []byte{}
	}
	if d.Version == 0 {
		return sqlAddDocument + s.st.keepOf("version"), []any{d.Kind, d.Name, data}
	}
	return sqlChangeDocument, []any{data, d.Kind, d.Name, d.Version}
}

// DeleteDocument deletes a document, durably.
func (s *Store) DeleteDocument(ctx context.Context, kind, name string, version uint64) error {
	deleted := false
	err := s.changeDocuments(ctx, func(exec execute) (err error) {
		deleted, err = exec(sqlDeleteDocument, []any{kind, name, version})
		return err
	})
	if err != nil || deleted {
		return err
	}
	if _, err := s.Document(ctx, kind, name); err != nil {
		return err
	}
	return store.ErrConflict
}

// execute runs a statement and reports whether it changed a row.
type execute = func(text string, args []any) (bool, error)

// changeDocuments runs statements in a transaction beside the committer, on the
// connection that they share.
func (s *Store) changeDocuments(ctx context.Context, change func(exec execute) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	tx, err := s.pools.write.BeginTx(ctx, nil)
	if err != nil {
		return unavailable(err)
	}
	err = change(func(text string, args []any) (bool, error) {
		result, err := tx.ExecContext(ctx, s.st.bind(text), args...)
		if err != nil {
			return false, err
		}
		n, err := result.RowsAffected()
		return n > 0, err
	})
	if err != nil {
		return unavailable(errors.Join(err, tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return unavailable(err)
	}
	return nil
}
