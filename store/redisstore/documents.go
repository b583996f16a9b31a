package redisstore

import (
	"context"
	"errors"
	"fmt"
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

// PutDocument writes a document.
func (s *Store) PutDocument(ctx context.Context, d store.Document) (store.Document, error) {
	version, err := s.changeDocument(ctx, d, false)
	d.Version = version
	return d, err
}

// DeleteDocument deletes a document.
func (s *Store) DeleteDocument(ctx context.Context, kind, name string, version uint64) error {
	_, err := s.changeDocument(ctx, store.Document{Kind: kind, Name: name, Version: version}, true)
	return err
}

func (s *Store) changeDocument(ctx context.Context, d store.Document, remove bool) (uint64, error) {
	replies, err := s.changeDocuments(ctx, d.Kind, []any{d.Name, d.Version, d.Data, remove})
	switch {
	case err != nil:
		return 0, err
	case replies[0] == -1:
		return 0, store.ErrConflict
	case replies[0] == -2:
		return 0, store.ErrNotFound
	}
	return uint64(replies[0]), nil
}

// changeDocuments runs lua/document.lua with its arguments, documentArgs for each.
func (s *Store) changeDocuments(ctx context.Context, kind string, args []any) ([]int64, error) {
	cmd, err := s.commit(ctx, s.shards[0], documentScript, []string{s.docs(kind)}, args)
	if err != nil {
		return nil, err
	}
	replies, err := cmd.Int64Slice()
	if err == nil && len(replies) != len(args)/documentArgs {
		err = fmt.Errorf("%d replies for %d arguments", len(replies), len(args))
	}
	if err != nil {
		return nil, fmt.Errorf("redisstore: documents: %w", err)
	}
	return replies, nil
}

const documentArgs = 4

// PutDocuments writes documents of a kind.
func (s *Store) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	versions := make([]uint64, 0, len(docs))
	for len(docs) > 0 {
		n := store.Batch(len(docs), maxBatch, func(i int) int { return len(docs[i].Data) })
		args := make([]any, 0, n*documentArgs)
		for _, d := range docs[:n] {
			args = append(args, d.Name, d.Version, d.Data, false)
		}
		replies, err := s.changeDocuments(ctx, docs[0].Kind, args)
		if err != nil {
			return nil, err
		}
		for _, r := range replies {
			versions = append(versions, uint64(max(r, 0)))
		}
		docs = docs[n:]
	}
	return versions, nil
}
