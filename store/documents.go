package store

import (
	"context"
	"errors"
)

// ErrNewer says that this version cannot read a document: a newer one wrote it, or somebody
// else. It must not be overwritten, and what follows from it stays as it is.
var ErrNewer = errors.New("this version of duehook cannot read the stored document")

// Document is a small piece of configuration that all nodes share, such as
// the settings of a topic. Its content means nothing to the store.
type Document struct {
	Kind string // a name; documents of one kind are listed together
	Name string // a name, unique within the kind
	Data []byte
	// Version counts the writes, from 1.
	Version uint64
}

// Documents keeps documents. There are few of them, and they change seldom.
type Documents interface {
	// Document reads one; ErrNotFound when there is none.
	Document(ctx context.Context, kind, name string) (Document, error)
	// ListDocuments reads all of a kind, by name.
	ListDocuments(ctx context.Context, kind string) ([]Document, error)
	// PutDocument writes d if the stored version is d.Version (0: there is
	// none), and returns it with its new version; otherwise ErrConflict.
	PutDocument(ctx context.Context, d Document) (Document, error)
	// DeleteDocument deletes the document if the stored version is the given
	// one; otherwise ErrConflict, or ErrNotFound when there is none.
	DeleteDocument(ctx context.Context, kind, name string, version uint64) error
}
