package redisstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/duehook/duehook/store"
)

var errDocument = errors.New("redisstore: unreadable document")

// docs is the hash that keeps the documents of a kind, all in the first shard:
// name -> "version\ndata".
func (s *Store) docs(kind string) string { return s.shards[0].prefix + "docs:" + kind }

// Document reads a document.
func (s *Store) Document(ctx context.Context, kind, name string) (store.Document, error) {
	raw, err := s.db.HGet(ctx, s.docs(kind), name).Result()
	if isNil(err) {
		return store.Document{}, store.ErrNotFound
	}
	if err != nil {
		return store.Document{}, s.wrap(err)
	}
	return decodeDocument(kind, name, raw)
}

// ListDocuments reads all documents of a kind.
func (s *Store) ListDocuments(ctx context.Context, kind string) ([]store.Document, error) {
	all, err := s.db.HGetAll(ctx, s.docs(kind)).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	docs := make([]store.Document, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d, err := decodeDocument(kind, name, all[name])
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, nil
}

func decodeDocument(kind, name, raw string) (store.Document, error) {
	head, data, ok := strings.Cut(raw, "\n")
	version, err := strconv.ParseUint(head, 10, 64)
	if !ok || err != nil {
		return store.Document{}, errDocument
	}
	return store.Document{Kind: kind, Name: name, Data: []byte(data), Version: version}, nil
}

// DeleteDocument deletes a document.
func (s *Store) DeleteDocument(ctx context.Context, kind, name string, version uint64) error {
	done, err := s.changeDocuments(ctx, []field{{s.docs(kind), name, headOfVersion(version), ""}})
	switch {
	case err != nil:
		return err
	case done[0] == fieldDiffers:
		return store.ErrConflict
	case done[0] == fieldKept:
		return store.ErrNotFound
	}
	return nil
}

// PutDocuments writes documents of a kind.
func (s *Store) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	versions := make([]uint64, 0, len(docs))
	for len(docs) > 0 {
		n := store.Batch(len(docs), maxBatch, func(i int) int { return len(docs[i].Data) })
		fields := make([]field, n)
		for i, d := range docs[:n] {
			fields[i] = field{s.docs(d.Kind), d.Name, headOfVersion(d.Version), headOfVersion(d.Version+1) + string(d.Data)}
		}
		done, err := s.changeDocuments(ctx, fields)
		if err != nil {
			return nil, err
		}
		for i := range done {
			version := uint64(0)
			if done[i] != fieldDiffers {
				version = docs[i].Version + 1
			}
			versions = append(versions, version)
		}
		docs = docs[n:]
	}
	return versions, nil
}

func (s *Store) changeDocuments(ctx context.Context, fields []field) ([]int64, error) {
	return changeFields(ctx, s.commit, fieldsScript, s.shards[0], fields)
}

// headOfVersion is how a document of this version begins; empty for none.
func headOfVersion(version uint64) string {
	if version == 0 {
		return ""
	}
	return strconv.FormatUint(version, 10) + "\n"
}
