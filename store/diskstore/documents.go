package diskstore

import (
	"context"
	"encoding/binary"
	"slices"

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

func readDocument(get getter, kind, name string) (store.Document, error) {
	value, err := get(row(famDoc, kind, name))
	return parseDocument(kind, name, value), err
}

// ListDocuments reads documents of a kind.
func (s *Store) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	v, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	defer v.close()
	var docs []store.Document
	if q.Name != "" {
		d, err := readDocument(getterOf(v.snap), q.Kind, q.Name)
		if err == nil && d.Version != 0 {
			docs = append(docs, d)
		}
		return docs, err
	}
	p, bytes := prefix(famDoc, q.Kind), 0
	from := p
	if q.After != "" {
		from = past(row(famDoc, q.Kind, q.After))
	}
	err = scan(v.snap, from, end(p), func(key, value []byte) bool {
		if bytes += len(value) - versionSize; q.Limit > 0 && len(docs) > 0 && bytes > store.BatchBytes {
			return false
		}
		docs = append(docs, parseDocument(q.Kind, string(key[len(p):]), value))
		return q.Limit <= 0 || len(docs) < q.Limit
	})
	return docs, err
}

// PutDocuments writes and deletes documents.
func (s *Store) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	versions := make([]uint64, len(docs))
	err := s.change(ctx, true, func(t *txn) {
		for i, d := range docs {
			stored, err := readDocument(t.rows.get, d.Kind, d.Name)
			t.note(err)
			switch {
			case stored.Version != d.Version:
			case d.Deleted:
				versions[i] = d.Version
				t.delete(row(famDoc, d.Kind, d.Name))
			default:
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
