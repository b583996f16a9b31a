package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/duehook/duehook/store"
)

var errDocument = errors.New("redisstore: unreadable document")

// docs is the hash that keeps the documents of a kind: name -> "version\ndata".
func (s *Store) docs(kind string) string { return s.common.prefix + "docs:" + kind }

// Documents of one command: Redis serves nobody else meanwhile. The first command asks for
// few, because documents may be large; the next ones for as many as should fit into
// store.BatchBytes.
const (
	firstDocuments = 16
	mostDocuments  = 2000
)

// ListDocuments reads the names of documents, and then the documents, some at once.
func (s *Store) ListDocuments(ctx context.Context, q store.DocumentQuery) (docs []store.Document, err error) {
	names := []string{q.Name}
	if q.Name == "" {
		if names, err = s.documentNames(ctx, q.Kind, q.After); err != nil {
			return nil, err
		}
	}
	limit := q.Limit
	if limit <= 0 {
		limit = len(names)
	}
	size, bytes := firstDocuments, 0
	for len(names) > 0 {
		part := names[:min(size, limit-len(docs), len(names))]
		names = names[len(part):]
		some, err := s.readDocuments(ctx, q.Kind, part)
		if err != nil {
			return nil, err
		}
		docs = append(docs, some...)
		if q.Limit > 0 {
			n := store.Batch(len(docs), limit, func(i int) int { return len(docs[i].Data) })
			if n < len(docs) || n == limit {
				return docs[:n], nil
			}
		}
		for i := range some {
			bytes += len(some[i].Data)
		}
		size = min(max(len(docs)*store.BatchBytes/max(bytes, 1), 1), mostDocuments)
	}
	return docs, nil
}

// documentNames returns the names of a kind behind a name, sorted.
func (s *Store) documentNames(ctx context.Context, kind, after string) ([]string, error) {
	names, err := s.db.HKeys(ctx, s.docs(kind)).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name <= after })
	slices.Sort(names)
	return names, nil
}

// readDocuments reads documents by their names, except missing ones.
func (s *Store) readDocuments(ctx context.Context, kind string, names []string) ([]store.Document, error) {
	values, err := s.db.HMGet(ctx, s.docs(kind), names...).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	if len(values) != len(names) {
		return nil, fmt.Errorf("redisstore: %d values for %d documents", len(values), len(names))
	}
	var docs []store.Document
	for i, value := range values {
		raw, ok := value.(string)
		if !ok {
			continue // deleted meanwhile, or never there
		}
		d, err := decodeDocument(kind, names[i], raw)
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

// PutDocuments writes and deletes documents of a kind.
func (s *Store) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	versions := make([]uint64, 0, len(docs))
	for len(docs) > 0 {
		n := store.Batch(len(docs), maxBatch, func(i int) int { return len(docs[i].Data) })
		fields := make([]field, n)
		for i, d := range docs[:n] {
			fields[i] = field{s.docs(d.Kind), d.Name, headOfVersion(d.Version), headOfVersion(d.Version+1) + string(d.Data)}
			if d.Deleted {
				fields[i].now = ""
			}
		}
		done, err := s.changeDocuments(ctx, fields)
		if err != nil {
			return nil, err
		}
		for i := range done {
			version := docs[i].Version + 1
			switch {
			case done[i] == fieldDiffers, docs[i].Deleted && done[i] == fieldKept:
				version = 0
			case docs[i].Deleted:
				version--
			}
			versions = append(versions, version)
		}
		docs = docs[n:]
	}
	return versions, nil
}

func (s *Store) changeDocuments(ctx context.Context, fields []field) ([]int64, error) {
	return changeFields(ctx, s.commit, fieldsScript, s.common, fields)
}

// headOfVersion is how a document of this version begins; empty for none.
func headOfVersion(version uint64) string {
	if version == 0 {
		return ""
	}
	return strconv.FormatUint(version, 10) + "\n"
}
