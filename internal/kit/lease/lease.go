// Package lease has one node at a time do something, by documents of the store.
//
// Such a document names a node, which writes it again and again. One that stays
// as it is for too long is anybody's. Each node measures that by its own clock,
// from when it saw a version first, so that clocks need not agree. A node that
// stood still may believe that it has a lease which another took: what is done
// under one must be safe then, as by writing documents of the version read.
package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Watch notices which documents are written no more. It belongs to one goroutine.
type Watch struct {
	clock job.Clock
	lasts time.Duration
	seen  map[string]sighting // by name
}

// sighting is a version of a document as it was seen first.
type sighting struct {
	version uint64
	at      time.Time
}

// NewWatch makes a Watch over documents of one kind, whose leases last for so long.
func NewWatch(clock job.Clock, lasts time.Duration) *Watch {
	return &Watch{clock: clock, lasts: lasts}
}

// Lapsed tells, by name, which documents have been as they are for as long as a
// lease lasts. They are all that there are: others are forgotten.
func (w *Watch) Lapsed(docs ...store.Document) map[string]bool {
	now := w.clock.Now()
	seen, lapsed := make(map[string]sighting, len(docs)), map[string]bool{}
	for _, d := range docs {
		s, known := w.seen[d.Name]
		if !known || s.version != d.Version {
			s = sighting{version: d.Version, at: now}
		}
		seen[d.Name] = s
		lapsed[d.Name] = now.Sub(s.at) >= w.lasts
	}
	w.seen = seen
	return lapsed
}

// Lease is a document that is nothing else. It belongs to one goroutine.
type Lease struct {
	docs             store.Documents
	kind, name, node string
	watch            *Watch
}

// content is what the document holds. One that cannot be read is another node's.
type content struct {
	Owner string `json:"owner"`
}

// New makes a Lease for a node, on the document of that kind and name.
func New(docs store.Documents, kind, name, node string, clock job.Clock, lasts time.Duration) *Lease {
	return &Lease{docs: docs, kind: kind, name: name, node: node, watch: NewWatch(clock, lasts)}
}

// Hold takes the lease, or keeps it; false means that another node has it. The
// error is the store's.
func (l *Lease) Hold(ctx context.Context) (bool, error) {
	doc, owner, err := l.read(ctx)
	if err != nil {
		return false, err
	}
	lapsed := l.watch.Lapsed(doc)[l.name]
	if owner != "" && owner != l.node && !lapsed {
		return false, nil
	}
	err = l.write(ctx, doc, l.node)
	if errors.Is(err, store.ErrConflict) {
		return false, nil // another node was faster
	}
	return err == nil, err
}

// Leave lets another node go on at once, if this one has the lease.
func (l *Lease) Leave(ctx context.Context) {
	if doc, owner, err := l.read(ctx); err == nil && owner == l.node {
		_ = l.write(ctx, doc, "") // or it is taken over when it has lapsed
	}
}

// read gives the document, of version 0 when there is none, and whose it is.
func (l *Lease) read(ctx context.Context) (store.Document, string, error) {
	doc, err := l.docs.Document(ctx, l.kind, l.name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Document{}, "", fmt.Errorf("read a lease: %w", err)
	}
	doc.Kind, doc.Name = l.kind, l.name
	var c content
	if doc.Version != 0 {
		if err := doc.Decode(&c); err != nil {
			c.Owner = unknown
		}
	}
	return doc, c.Owner, nil
}

// unknown is the owner of a lease of a newer version. No node is called that.
const unknown = "?"

func (l *Lease) write(ctx context.Context, doc store.Document, owner string) (err error) {
	if doc, _, err = doc.Encode(content{Owner: owner}); err != nil {
		return err
	}
	if _, err := l.docs.PutDocument(ctx, doc); err != nil {
		return fmt.Errorf("write a lease: %w", err)
	}
	return nil
}
