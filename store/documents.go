package store

import (
	"context"
	"errors"
)

// ErrNewer means that this version of duehook cannot read a document: a newer version or
// another program wrote it. The document must not be overwritten.
var ErrNewer = errors.New("this version of duehook cannot read the stored document")

// Document is a small piece of configuration that all nodes share, such as the settings
// of a topic. The store does not interpret its content.
type Document struct {
	Kind string // documents of one kind are listed together
	Name string // unique within the kind, and not empty
	Data []byte
	// Version counts the writes, from 1.
	Version uint64
	// Deleted has PutDocuments delete the document.
	Deleted bool
}

// DocumentQuery selects documents of a kind: the one of a name, or those behind a name.
type DocumentQuery struct {
	Kind, Name, After string
	// Limit 0 is for all. Otherwise the list ends after Limit documents, or earlier when they
	// take BatchBytes.
	Limit int
}

// Documents keeps documents. They are few, and change seldom.
type Documents interface {
	// ListDocuments returns documents by name. Only an empty list means that no document is
	// left. A document that is written meanwhile may be the old or the new one.
	ListDocuments(ctx context.Context, q DocumentQuery) ([]Document, error)
	// PutDocuments writes or deletes documents of one kind and of different names, each if its
	// stored version is Version (0: none is stored). It returns their new versions, or the old
	// ones of deleted documents; zero for a document whose stored version is another one. With
	// an error, nothing is known of any of them.
	PutDocuments(ctx context.Context, docs []Document) (versions []uint64, err error)
}

// ReadDocument returns a document, or ErrNotFound.
func ReadDocument(ctx context.Context, s Documents, kind, name string) (Document, error) {
	docs, err := s.ListDocuments(ctx, DocumentQuery{Kind: kind, Name: name, Limit: 1})
	if err == nil && len(docs) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Document{}, err
	}
	return docs[0], nil
}

// DeleteDocument deletes the document if the stored version is the given one. Otherwise it
// returns ErrConflict, or ErrNotFound if none is stored.
func DeleteDocument(ctx context.Context, s Documents, kind, name string, version uint64) error {
	versions, err := s.PutDocuments(ctx, []Document{{Kind: kind, Name: name, Version: version, Deleted: true}})
	if err != nil || versions[0] != 0 {
		return err
	}
	if _, err := ReadDocument(ctx, s, kind, name); err != nil {
		return err
	}
	return ErrConflict
}

// PutDocument writes one document, and returns it with its new version. The error is
// ErrConflict if the stored version is not d.Version.
func PutDocument(ctx context.Context, s Documents, d Document) (Document, error) {
	versions, err := s.PutDocuments(ctx, []Document{d})
	switch {
	case err != nil:
		return Document{}, err
	case versions[0] == 0:
		return Document{}, ErrConflict
	}
	d.Version = versions[0]
	return d, nil
}

// HoldKind is the kind of documents that hold all deliveries of a store, as long as there is one: nodes take no jobs.
// HoldImport is the one of an import that has not ended, and HoldStart that of nodes started to look first.
const (
	HoldKind   = "hold"
	HoldImport = "import"
	HoldStart  = "start"
)
