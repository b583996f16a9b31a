package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/store"
)

var errDocument = errors.New("redisstore: unreadable document")

// docs is the hash that keeps the documents of a kind: name -> "version\ndata".
func (s *Store) docs(kind string) string { return s.common.prefix + "docs:" + kind }

// document reads a document.
func (s *Store) document(ctx context.Context, kind, name string) ([]store.Document, error) {
	raw, err := s.db.HGet(ctx, s.docs(kind), name).Result()
	if isNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, s.wrap(err)
	}
	d, err := decodeDocument(kind, name, raw)
	if err != nil {
		return nil, err
	}
	return []store.Document{d}, nil
}

// Documents of one command: Redis serves nobody else meanwhile. The first command asks for
// few, because documents may be large; the next ones for as many as should fit.
const (
	firstScanned  = 256
	firstPaged    = 16
	mostDocuments = 2000
)

// fitting returns how many documents like those read before should fit into
// store.BatchBytes.
func fitting(read, bytes int) int {
	return min(max(read*store.BatchBytes/max(bytes, 1), 1), mostDocuments)
}

// ListDocuments reads documents of a kind.
func (s *Store) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	switch {
	case q.Name != "":
		return s.document(ctx, q.Kind, q.Name)
	case q.Limit > 0:
		return s.pageOfDocuments(ctx, q.Kind, q.After, q.Limit)
	}
	return s.allDocuments(ctx, q.Kind, q.After)
}

// allDocuments reads all documents behind a name.
func (s *Store) allDocuments(ctx context.Context, kind, after string) ([]store.Document, error) {
	found := map[string]string{} // a scan may return a field twice
	count, read, bytes := firstScanned, 0, 0
	scan := func(cursor uint64) *redis.ScanCmd {
		return s.db.HScan(ctx, s.docs(kind), cursor, "", int64(count))
	}
	err := s.eachPage(scan, func(fields []string) error {
		for i := 0; i+1 < len(fields); i += 2 {
			read, bytes = read+1, bytes+len(fields[i+1])
			if fields[i] > after {
				found[fields[i]] = fields[i+1]
			}
		}
		if read > 0 {
			count = fitting(read, bytes)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	docs := make([]store.Document, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		d, err := decodeDocument(kind, name, found[name])
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, nil
}

func (s *Store) pageOfDocuments(ctx context.Context, kind, after string, limit int) ([]store.Document, error) {
	names, err := s.db.HKeys(ctx, s.docs(kind)).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name <= after })
	slices.Sort(names)
	var docs []store.Document
	size, bytes := firstPaged, 0
	for len(names) > 0 {
		part := names[:min(size, limit-len(docs), len(names))]
		names = names[len(part):]
		values, err := s.db.HMGet(ctx, s.docs(kind), part...).Result()
		if err != nil {
			return nil, s.wrap(err)
		}
		if len(values) != len(part) {
			return nil, fmt.Errorf("redisstore: %d values for %d documents", len(values), len(part))
		}
		for i, value := range values {
			raw, ok := value.(string)
			if !ok {
				continue // deleted meanwhile
			}
			d, err := decodeDocument(kind, part[i], raw)
			if err != nil {
				return nil, err
			}
			docs, bytes = append(docs, d), bytes+len(d.Data)
		}
		n := store.Batch(len(docs), limit, func(i int) int { return len(docs[i].Data) })
		if n < len(docs) || n == limit {
			return docs[:n], nil
		}
		if len(docs) > 0 {
			size = fitting(len(docs), bytes)
		}
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
