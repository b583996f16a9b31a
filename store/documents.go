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
}

// Documents keeps documents. They are few, and change seldom.
type Documents interface {
	// Document returns a document, or ErrNotFound.
	Document(ctx context.Context, kind, name string) (Document, error)
	// ListDocuments returns the documents of a kind whose names are behind after, by name.
	// Limit 0 returns all. Otherwise the list ends after limit documents, or earlier when
	// they take BatchBytes; only an empty list means that no document is left. A document
	// that is written meanwhile may be the old or the new one.
	ListDocuments(ctx context.Context, kind, after string, limit int) ([]Document, error)
	// PutDocuments writes documents of one kind and of different names, each if its stored
	// version is Version (0: none is stored). It returns their new versions; zero for a
	// document whose stored version is another one. With an error, nothing is known of any
	// of them.
	PutDocuments(ctx context.Context, docs []Document) (versions []uint64, err error)
	// DeleteDocument deletes the document if the stored version is the given one.
	// Otherwise it returns ErrConflict, or ErrNotFound if none is stored.
	DeleteDocument(ctx context.Context, kind, name string, version uint64) error
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
