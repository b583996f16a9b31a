// Package documents keeps typed documents in a store.
//
// A Collection is the documents of one kind; each holds the JSON of a T. All nodes
// share them, so a change compares and swaps: it is made to the version that was read,
// and starts over if another node was faster. A node of an older version keeps the
// fields that only a newer one knows, and never overwrites a document that it cannot
// read.
package documents

import (
	"context"
	"errors"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// ErrFull says that the collection holds as many documents, or bytes, as it may.
var ErrFull = errors.New("too many documents")

// ErrKept says that a change of Update decided that the document stays as it is.
var ErrKept = errors.New("the document stays as it is")

// tries bounds how often a change starts over.
const tries = 50

// Allow decides on a change by what there is before it: whether there is anything, and the
// version of its content. Its error is returned, and nothing changes.
type Allow func(exists bool, version uint64) error

// ErrChanged is the error of Unchanged.
var ErrChanged = errors.New("it was changed by others")

// Unchanged allows a change of one version only; 0: of what does not exist.
func Unchanged(version uint64) Allow {
	return func(_ bool, is uint64) error {
		if is != version {
			return ErrChanged
		}
		return nil
	}
}

// Options describe a Collection. Store and Kind are required.
type Options[T any] struct {
	Store store.Documents
	Kind  string
	// New returns the value of a document before its first version, and before its
	// content is decoded. Nil: the zero value.
	New func(name string) T
	// Check returns an error if valid JSON has values that this version does not know. The
	// document is unreadable then. Nil: no check.
	Check func(v *T) error
	// Strict: a document with unknown fields is unreadable. It is for values that mean
	// more with a field left out, such as a filter.
	Strict bool
	// Blank reports that a value need not be stored. Update deletes its document, unless
	// that has fields of a newer version. Nil: all are stored.
	Blank func(v *T) bool
	// Missing says that there is no such document, beside store.ErrNotFound. Nil: nothing does.
	Missing error
	// Max bounds the number of documents, MaxBytes the bytes of their contents together; 0:
	// no bound. Create and Update keep to them; callers of Put reserve.
	Max, MaxBytes int
	// Full says that there is no room, beside ErrFull. Nil: nothing does.
	Full error
	// Exists reports whether a value is more than a tombstone, which neither counts for Max and
	// MaxBytes nor exists for an Allow. Nil: all are.
	Exists func(v *T) bool
	// Tombstone is a part of the JSON of every value that does not exist, and of few others.
	Tombstone string
	// Size is the bytes by which changes of a value count for MaxBytes. Nil: those of its JSON.
	Size func(v *T) int
	// Version is what an Allow gets, for values without a Stamp.
	Version func(d *Document[T]) uint64
	// Clock measures the age of a count, and stamps changes; nil: the machine's.
	Clock job.Clock
	// Stamp returns the stamp of a value. Create and Update set it, and Update writes nothing
	// if a value stays as it is. Nil: values have none.
	Stamp func(v *T) *Stamp
	// Seal encrypts contents. Nil: they are plain JSON.
	Seal *Seal
}

// Collection is the documents of one kind. Its methods are safe for concurrent use.
// Their errors are those of the store, wrapped, besides the ones they name.
type Collection[T any] struct{ core }

// New returns a Collection.
func New[T any](o Options[T]) *Collection[T] {
	if o.New == nil {
		o.New = func(string) (zero T) { return zero }
	}
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	c := &Collection[T]{core{
		store: o.Store, kind: o.Kind, strict: o.Strict, missing: o.Missing, full: o.Full, bounds: amount{o.Max, o.MaxBytes},
		tombstone: []byte(o.Tombstone), clock: o.Clock, seal: o.Seal, room: room{counting: make(chan struct{}, 1)},
		blank: of(o.Blank), exists: of(o.Exists), size: of(o.Size), check: of(o.Check), stamp: of(o.Stamp),
		empty: func() document { return new(Document[T]) },
		reset: func(v any, name string) { *v.(*T) = o.New(name) },
	}}
	if o.Version != nil {
		c.version = func(d document) uint64 { return o.Version(d.(*Document[T])) }
	}
	if o.Seal != nil {
		o.Seal.sealed = append(o.Seal.sealed, &c.core)
	}
	return c
}

// of is f for the *T of a document; nil stays nil.
func of[T, R any](f func(v *T) R) func(v any) R {
	if f == nil {
		return nil
	}
	return func(v any) R { return f(v.(*T)) }
}

// Document is a document with its decoded content.
type Document[T any] struct {
	Head
	Value T
}

func (d *Document[T]) value() any { return &d.Value }

// Head is what documents have, whatever their type.
type Head struct {
	Name string
	// Version is the one that was read or written; 0: the document is not stored.
	Version uint64
	// Err says why the document cannot be read, and is nil otherwise. It wraps store.ErrNewer, or
	// ErrMasterKey or ErrDamaged with Options.Seal. Value has the readable fields.
	Err error
	// Data is the content as it is stored.
	Data []byte

	plain []byte // Data, opened
}

func (h *Head) head() *Head { return h }

// Get reads a document. The error is store.ErrNotFound, or Document.Err. With
// store.ErrNotFound, the document is one that Put creates.
func (c *Collection[T]) Get(ctx context.Context, name string) (d Document[T], err error) {
	err = c.get(ctx, name, &d)
	return d, err
}

// All reads all documents, by name, unreadable ones included.
func (c *Collection[T]) All(ctx context.Context) ([]Document[T], error) {
	raws, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Document[T], len(raws))
	for i := range raws {
		c.decode(raws[i], &all[i])
	}
	return all, nil
}

// Page returns up to limit values behind the name after, for which CheckCursor holds, and the name of the last if others
// follow. It ends early at store.PageBytes, and leaves out unreadable documents.
func (c *Collection[T]) Page(ctx context.Context, after string, limit int) (page []T, next string, err error) {
	size, last := 0, ""
	for raw, err := range c.From(ctx, after, limit+1) {
		if err != nil {
			return nil, "", err
		}
		if len(page) == limit || size > store.PageBytes {
			return page, last, nil
		}
		if d := c.Decode(raw); d.Err == nil {
			page, size, last = append(page, d.Value), size+len(raw.Data), raw.Name
		}
	}
	return page, "", nil
}

// Decode decodes a document of the collection.
func (c *Collection[T]) Decode(raw store.Document) (d Document[T]) {
	c.decode(raw, &d)
	return d
}

// Put writes a document in the place of the version that was read, and sets its new
// version. The error is store.ErrConflict if the stored version is another one, or d.Err.
func (c *Collection[T]) Put(ctx context.Context, d *Document[T]) error { return c.put(ctx, d) }

// PutAll is Put for many documents, in larger writes. stored says of each whether it was
// written; the stored version of the others is another one. With an error, nothing is
// known of any of them. The collection must be Strict: nothing of the documents is merged.
func (c *Collection[T]) PutAll(ctx context.Context, docs []*Document[T]) (stored []bool, err error) {
	all := make([]document, len(docs))
	for i, d := range docs {
		all[i] = d
	}
	return c.putAll(ctx, all)
}

// Create writes a new document. Errors: those of Put and Reserve.
func (c *Collection[T]) Create(ctx context.Context, name string, v T) (Document[T], error) {
	d := Document[T]{Head{Name: name}, v}
	return d, c.create(ctx, &d)
}

// Set makes a value that of a document, as Update does. created: there was none.
func (c *Collection[T]) Set(ctx context.Context, name string, v T, allow ...Allow) (stored T, created bool, err error) {
	d, err := c.Update(ctx, name, func(d *Document[T]) error {
		created, d.Value = d.Version == 0, v
		return nil
	}, allow...)
	return d.Value, created && err == nil, err
}

// Change is Update for a document that exists. The error is store.ErrNotFound otherwise.
func (c *Collection[T]) Change(ctx context.Context, name string, change func(d *Document[T]) error, allow ...Allow) (d Document[T], err error) {
	err = c.update(ctx, name, &d, func() error { return change(&d) }, allow, true)
	return d, err
}

// Update changes a document, or creates it: change gets it with Version 0 then. An error
// of change or allow ends the update and is returned, except ErrKept of change. Other errors:
// Document.Err, ErrFull, and store.ErrConflict after many tries.
func (c *Collection[T]) Update(ctx context.Context, name string, change func(d *Document[T]) error, allow ...Allow) (d Document[T], err error) {
	err = c.update(ctx, name, &d, func() error { return change(&d) }, allow, false)
	return d, err
}

// Ensure returns a document. The first call of all nodes creates it with what create returns. The errors are
// those of create and Update.
func (c *Collection[T]) Ensure(ctx context.Context, name string, create func() (T, error)) (Document[T], error) {
	return c.Update(ctx, name, func(d *Document[T]) (err error) {
		if d.Version != 0 {
			return ErrKept
		}
		d.Value, err = create()
		return err
	})
}

// Allowed asks all of allow, as changes do. An unreadable document has the version that can be
// read.
func (c *Collection[T]) Allowed(d *Document[T], allow []Allow) error { return c.allowed(d, allow) }

// Delete deletes the version of a document that was read. The error is
// store.ErrConflict if the stored version is another one, store.ErrNotFound if there is
// none.
func (c *Collection[T]) Delete(ctx context.Context, d *Document[T]) error { return c.remove(ctx, d) }
