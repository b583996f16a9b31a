package store

import (
	"context"
	"errors"
)

// Document is a small piece of configuration that all nodes share, such as
// the settings of a topic. Its content means nothing to the store.
type Document struct {
	Kind string // a name; documents of one kind are listed together
	Name string // a name, unique within the kind
	Data []byte
	// Version counts the writes, from 1.
	Version uint64
}

// documentTries bounds how often a change is begun again.
const documentTries = 10

// ChangeDocument runs once, which reads a document and writes another version of
// it, again as long as somebody else was faster. Then the error is ErrConflict.
func ChangeDocument(once func() error) (err error) {
	for range documentTries {
		if err = once(); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return err
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
