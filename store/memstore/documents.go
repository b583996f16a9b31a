package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/duehook/duehook/store"
)

// documentKey names a document.
type documentKey struct{ kind, name string }

// Document reads a document.
func (s *Store) Document(ctx context.Context, kind, name string) (store.Document, error) {
	if _, err := s.enter(ctx); err != nil {
		return store.Document{}, err
	}
	defer s.leave()
	d, ok := s.documents[documentKey{kind, name}]
	if !ok {
		return store.Document{}, store.ErrNotFound
	}
	return cloneDocument(d), nil
}

// ListDocuments reads documents of a kind.
func (s *Store) ListDocuments(ctx context.Context, kind, after string, limit int) ([]store.Document, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	var docs []store.Document
	for key, d := range s.documents {
		if key.kind == kind && key.name > after {
			docs = append(docs, d)
		}
	}
	slices.SortFunc(docs, func(a, b store.Document) int { return cmp.Compare(a.Name, b.Name) })
	if limit > 0 {
		docs = docs[:store.Batch(len(docs), limit, func(i int) int { return len(docs[i].Data) })]
	}
	for i := range docs {
		docs[i] = cloneDocument(docs[i])
	}
	return docs, nil
}

// PutDocuments writes documents.
func (s *Store) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	versions := make([]uint64, len(docs))
	for i := range docs {
		versions[i] = s.putDocument(docs[i])
	}
	return versions, nil
}

// putDocument returns the new version, or zero if the stored one is not d.Version.
func (s *Store) putDocument(d store.Document) uint64 {
	key := documentKey{d.Kind, d.Name}
	if s.documents[key].Version != d.Version {
		return 0
	}
	d = cloneDocument(d)
	d.Version++
	s.documents[key] = d
	return d.Version
}

// DeleteDocument deletes a document.
func (s *Store) DeleteDocument(ctx context.Context, kind, name string, version uint64) error {
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	key := documentKey{kind, name}
	d, ok := s.documents[key]
	switch {
	case !ok:
		return store.ErrNotFound
	case d.Version != version:
		return store.ErrConflict
	}
	delete(s.documents, key)
	return nil
}

// cloneDocument copies d, so that caller and store share no data.
func cloneDocument(d store.Document) store.Document {
	d.Data = slices.Clone(d.Data)
	return d
}
