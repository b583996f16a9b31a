package diskstore

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/duehook/duehook/store"
)

// versionSize is the size of a document's version, before its data.
const versionSize = 8

func documentRow(d store.Document) []byte {
	return append(binary.BigEndian.AppendUint64(nil, d.Version), d.Data...)
}

// parseDocument reads a document's row; the zero version if there is none.
func parseDocument(kind, name string, value []byte) store.Document {
	d := store.Document{Kind: kind, Name: name}
	if len(value) >= versionSize {
		d.Version, d.Data = binary.BigEndian.Uint64(value), slices.Clone(value[versionSize:])
	}
	return d
}

// Document reads a document.
func (s *Store) Document(ctx context.Context, kind, name string) (store.Document, error) {
	v, err := s.view(ctx)
	if err != nil {
		return store.Document{}, err
	}
	defer v.close()
	d, err := readDocument(v.snap, kind, name)
	if err == nil && d.Version == 0 {
		err = store.ErrNotFound
	}
	return d, err
}

func readDocument(r pebble.Reader, kind, name string) (store.Document, error) {
	value, err := get(r, row(famDoc, kind, name))
	return parseDocument(kind, name, value), err
}

// ListDocuments reads documents of a kind.
func (s *Store) ListDocuments(ctx context.Context, kind, after string, limit int) ([]store.Document, error) {
	v, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	defer v.close()
	var docs []store.Document
	p, bytes := prefix(famDoc, kind), 0
	from := p
	if after != "" {
		from = past(row(famDoc, kind, after))
	}
	err = scan(v.snap, from, end(p), func(key, value []byte) bool {
		if bytes += len(value) - versionSize; limit > 0 && len(docs) > 0 && bytes > store.BatchBytes {
			return false
		}
		docs = append(docs, parseDocument(kind, string(key[len(p):]), value))
		return limit <= 0 || len(docs) < limit
	})
	return docs, err
}

// PutDocuments writes documents.
func (s *Store) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	versions := make([]uint64, len(docs))
	err := s.change(ctx, true, func(t *txn) {
		for i, d := range docs {
			stored, err := readDocument(t.reader(), d.Kind, d.Name)
			t.note(err)
			if stored.Version == d.Version {
				d.Version++
				versions[i] = d.Version
				t.set(row(famDoc, d.Kind, d.Name), documentRow(d))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return versions, nil
}

// DeleteDocument deletes a document.
func (s *Store) DeleteDocument(ctx context.Context, kind, name string, version uint64) error {
	var refused error
	err := s.change(ctx, true, func(t *txn) {
		stored, err := readDocument(t.reader(), kind, name)
		t.note(err)
		switch stored.Version {
		case 0:
			refused = store.ErrNotFound
		case version:
			t.delete(row(famDoc, kind, name))
		default:
			refused = store.ErrConflict
		}
	})
	return errors.Join(err, refused)
}
