package journal

import (
	"context"
	"database/sql"
	"errors"

	"github.com/duehook/duehook/store"
)

// Documents live in the journal alone: they are few, and read seldom.
const (
	sqlDocument       = "SELECT version, data FROM document WHERE kind = ? AND name = ?"
	sqlListDocuments  = "SELECT name, version, data FROM document WHERE kind = ? ORDER BY name"
	sqlAddDocument    = "INSERT INTO document (kind, name, version, data) VALUES (?, ?, 1, ?) "
	sqlChangeDocument = "UPDATE document SET version = version + 1, data = ? WHERE kind = ? AND name = ? AND version = ?"
	sqlDeleteDocument = "DELETE FROM document WHERE kind = ? AND name = ? AND version = ?"
)

// Document reads a document.
func (j *Journal) Document(ctx context.Context, kind, name string) (store.Document, error) {
	if err := j.Enter(); err != nil {
		return store.Document{}, err
	}
	defer j.Leave()
	d := store.Document{Kind: kind, Name: name}
	err := j.pools.read.QueryRowContext(ctx, j.st.bind(sqlDocument), kind, name).Scan(&d.Version, &d.Data)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return store.Document{}, store.ErrNotFound
	case err != nil:
		return store.Document{}, unavailable(err)
	}
	return d, nil
}

// ListDocuments reads all documents of a kind.
func (j *Journal) ListDocuments(ctx context.Context, kind string) ([]store.Document, error) {
	if err := j.Enter(); err != nil {
		return nil, err
	}
	defer j.Leave()
	rows, err := j.pools.read.QueryContext(ctx, j.st.bind(sqlListDocuments), kind)
	if err != nil {
		return nil, unavailable(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells of what matters
	var docs []store.Document
	for rows.Next() {
		d := store.Document{Kind: kind}
		if err := rows.Scan(&d.Name, &d.Version, &d.Data); err != nil {
			return nil, unavailable(err)
		}
		docs = append(docs, d)
	}
	if err := rows.Err(); err != nil {
		return nil, unavailable(err)
	}
	return docs, nil
}

// PutDocument writes a document, durably.
func (j *Journal) PutDocument(ctx context.Context, d store.Document) (store.Document, error) {
	data := d.Data
	if data == nil {
		data = []byte{}
	}
	text, args := sqlChangeDocument, []any{data, d.Kind, d.Name, d.Version}
	if d.Version == 0 {
		text, args = sqlAddDocument+j.st.keep(), []any{d.Kind, d.Name, data}
	}
	changed, err := j.changeDocument(ctx, text, args...)
	switch {
	case err != nil:
		return store.Document{}, err
	case !changed:
		return store.Document{}, store.ErrConflict
	}
	d.Version++
	return d, nil
}

// DeleteDocument deletes a document, durably.
func (j *Journal) DeleteDocument(ctx context.Context, kind, name string, version uint64) error {
	changed, err := j.changeDocument(ctx, sqlDeleteDocument, kind, name, version)
	if err != nil || changed {
		return err
	}
	if _, err := j.Document(ctx, kind, name); err != nil {
		return err
	}
	return store.ErrConflict
}

// changeDocument runs a statement beside the committer, on the connection that
// they share, and reports whether it changed a row.
func (j *Journal) changeDocument(ctx context.Context, text string, args ...any) (bool, error) {
	if err := j.Enter(); err != nil {
		return false, err
	}
	defer j.Leave()
	conn, err := j.pools.write.Conn(ctx)
	if err != nil {
		return false, unavailable(err)
	}
	defer conn.Close() //nolint:errcheck // it only goes back to the pool
	// The committer may have left the connection less durable. That it is more
	// durable than the committer thinks does no harm.
	if err := j.st.setDurable(ctx, conn, true); err != nil {
		return false, unavailable(err)
	}
	result, err := conn.ExecContext(ctx, j.st.bind(text), args...)
	if err != nil {
		return false, unavailable(err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return false, unavailable(err)
	}
	return n > 0, nil
}
