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
	"fmt"
	"iter"

	"github.com/duehook/duehook/job"
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
	// Seal and Open encrypt and decrypt contents. Nil: contents are plain JSON.
	Seal, Open func(name string, data []byte) ([]byte, error)
}

// Collection is the documents of one kind. Its methods are safe for concurrent use.
// Their errors are those of the store, wrapped, besides the ones they name.
type Collection[T any] struct {
	o    Options[T]
	room room
}

// New returns a Collection.
func New[T any](o Options[T]) *Collection[T] {
	if o.New == nil {
		o.New = func(string) (zero T) { return zero }
	}
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	return &Collection[T]{o: o, room: room{counting: make(chan struct{}, 1)}}
}

// Document is a document with its decoded content.
type Document[T any] struct {
	Name string
	// Version is the one that was read or written; 0: the document is not stored.
	Version uint64
	Value   T
	// Err says why the document cannot be read, and is nil otherwise. It wraps
	// store.ErrNewer, or is Open's. Value has the readable fields.
	Err error
	// Data is the content as it is stored.
	Data []byte

	plain []byte // Data, opened
}

// Get reads a document. The error is store.ErrNotFound, or Document.Err. With
// store.ErrNotFound, the document is one that Put creates.
func (c *Collection[T]) Get(ctx context.Context, name string) (Document[T], error) {
	raw, err := store.ReadDocument(ctx, c.o.Store, c.o.Kind, name)
	if err != nil {
		return Document[T]{Name: name, Value: c.o.New(name)}, fmt.Errorf("read the %s %s: %w", c.o.Kind, name, c.missing(err))
	}
	d := c.Decode(raw)
	return d, d.Err
}

func (c *Collection[T]) missing(err error) error {
	if c.o.Missing != nil && errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %w", c.o.Missing, err)
	}
	return err
}

// All reads all documents, by name, unreadable ones included.
func (c *Collection[T]) All(ctx context.Context) ([]Document[T], error) {
	raws, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Document[T], len(raws))
	for i := range raws {
		all[i] = c.Decode(raws[i])
	}
	return all, nil
}

// List reads all documents, by name, without decoding them.
func (c *Collection[T]) List(ctx context.Context) ([]store.Document, error) {
	return c.page(ctx, "", 0)
}

// From reads the documents behind the name after, by name and up to size at once, without
// decoding them. It ends with an error.
func (c *Collection[T]) From(ctx context.Context, after string, size int) iter.Seq2[store.Document, error] {
	return func(yield func(store.Document, error) bool) {
		for {
			raws, err := c.page(ctx, after, size)
			if err != nil {
				yield(store.Document{}, err)
				return
			}
			if len(raws) == 0 {
				return
			}
			for _, raw := range raws {
				if !yield(raw, nil) {
					return
				}
			}
			after = raws[len(raws)-1].Name
		}
	}
}

// Page returns up to limit values behind the name after, and the name of the last if others
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

func (c *Collection[T]) page(ctx context.Context, after string, limit int) ([]store.Document, error) {
	raws, err := c.o.Store.ListDocuments(ctx, store.DocumentQuery{Kind: c.o.Kind, After: after, Limit: limit})
	if err != nil {
		return nil, fmt.Errorf("list the documents %s: %w", c.o.Kind, err)
	}
	return raws, nil
}

// Decode decodes a document of the collection.
func (c *Collection[T]) Decode(raw store.Document) Document[T] {
	d := Document[T]{Name: raw.Name, Version: raw.Version, Value: c.o.New(raw.Name), Data: raw.Data, plain: raw.Data}
	if c.o.Open != nil {
		if d.plain, d.Err = c.o.Open(d.Name, d.Data); d.Err != nil {
			d.Err = fmt.Errorf("open the %s %s: %w", c.o.Kind, d.Name, d.Err)
			return d
		}
	}
	err := decode(d.plain, &d.Value, c.o.Strict)
	if err == nil && c.o.Check != nil {
		err = c.o.Check(&d.Value)
	}
	if err != nil {
		d.Err = fmt.Errorf("%w: the %s %s: %w", store.ErrNewer, c.o.Kind, d.Name, err)
	}
	return d
}

// Put writes a document in the place of the version that was read, and sets its new
// version. The error is store.ErrConflict if the stored version is another one, or d.Err.
func (c *Collection[T]) Put(ctx context.Context, d *Document[T]) error {
	if d.Err != nil {
		return d.Err
	}
	plain, _, err := encode(&d.Value, d.plain)
	if err != nil {
		return err
	}
	return c.write(ctx, d, plain)
}

func (c *Collection[T]) write(ctx context.Context, d *Document[T], plain []byte) (err error) {
	data := plain
	if c.o.Seal != nil {
		if data, err = c.o.Seal(d.Name, plain); err != nil {
			return err
		}
	}
	stored, err := store.PutDocument(ctx, c.o.Store, store.Document{Kind: c.o.Kind, Name: d.Name, Version: d.Version, Data: data})
	if err != nil {
		return fmt.Errorf("write the %s %s: %w", c.o.Kind, d.Name, err)
	}
	d.Version, d.Data, d.plain = stored.Version, data, plain
	return nil
}

// PutAll is Put for many documents, in larger writes. stored says of each whether it was
// written; the stored version of the others is another one. With an error, nothing is
// known of any of them. The collection must be Strict: nothing of the documents is merged.
func (c *Collection[T]) PutAll(ctx context.Context, docs []*Document[T]) (stored []bool, err error) {
	raws := make([]store.Document, len(docs))
	for i, d := range docs {
		if d.Err != nil {
			return nil, d.Err
		}
		data, _, err := encode(&d.Value, nil)
		if err != nil {
			return nil, err
		}
		raws[i] = store.Document{Kind: c.o.Kind, Name: d.Name, Version: d.Version, Data: data}
	}
	versions, err := c.o.Store.PutDocuments(ctx, raws)
	if err != nil {
		return nil, fmt.Errorf("write %d documents %s: %w", len(docs), c.o.Kind, err)
	}
	stored = make([]bool, len(docs))
	for i, version := range versions {
		if stored[i] = version != 0; stored[i] {
			docs[i].Version, docs[i].Data, docs[i].plain = version, raws[i].Data, raws[i].Data
		}
	}
	return stored, nil
}

// Restore creates a document with the Data of one that the store lost. The error is
// store.ErrConflict if there is one again.
func (c *Collection[T]) Restore(ctx context.Context, name string, data []byte) error {
	_, err := store.PutDocument(ctx, c.o.Store, store.Document{Kind: c.o.Kind, Name: name, Data: data})
	if err != nil {
		return fmt.Errorf("restore the %s %s: %w", c.o.Kind, name, err)
	}
	return nil
}

// Create writes a new document. Errors: those of Put and Reserve.
func (c *Collection[T]) Create(ctx context.Context, name string, v T) (Document[T], error) {
	d := Document[T]{Name: name, Value: v}
	if err := c.stamp(&d, Stamp{}); err != nil {
		return d, err
	}
	err := c.replace(ctx, &d, before{})
	return d, err
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
func (c *Collection[T]) Change(ctx context.Context, name string, change func(d *Document[T]) error, allow ...Allow) (Document[T], error) {
	return c.update(ctx, name, change, allow, true)
}

// Update changes a document, or creates it: change gets it with Version 0 then. An error
// of change or allow ends the update and is returned, except ErrKept of change. Other errors:
// Document.Err, ErrFull, and store.ErrConflict after many tries.
func (c *Collection[T]) Update(ctx context.Context, name string, change func(d *Document[T]) error, allow ...Allow) (Document[T], error) {
	return c.update(ctx, name, change, allow, false)
}

func (c *Collection[T]) update(ctx context.Context, name string, change func(d *Document[T]) error, allow []Allow, existing bool) (d Document[T], err error) {
	err = again(func() error {
		d, err = c.Get(ctx, name)
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return err
		case existing && !c.exists(&d):
			return fmt.Errorf("change the %s %s: %w", c.o.Kind, name, c.missing(store.ErrNotFound))
		}
		if err := c.Allowed(&d, allow); err != nil {
			return err
		}
		was := c.before(&d)
		if err := change(&d); err != nil {
			return err
		}
		if err := c.stamp(&d, was.stamp); err != nil {
			return err
		}
		return c.replace(ctx, &d, was)
	})
	if errors.Is(err, ErrKept) {
		err = nil
	}
	return d, err
}

// Rewrite writes a document as it is, with its stamp, if stale says so of the stored content. So
// Options.Seal seals it anew. Errors: Document.Err, and store.ErrConflict after many tries. A
// missing document is none.
func (c *Collection[T]) Rewrite(ctx context.Context, name string, stale func(data []byte) bool) (rewritten bool, err error) {
	err = again(func() error {
		rewritten = false
		d, err := c.Get(ctx, name)
		if errors.Is(err, store.ErrNotFound) || err == nil && !stale(d.Data) {
			return nil
		}
		if err == nil {
			err = c.Put(ctx, &d)
		}
		rewritten = err == nil
		return err
	})
	return rewritten, err
}

// before is what matters of a document before a change.
type before struct {
	takes amount
	stamp Stamp
}

func (c *Collection[T]) before(d *Document[T]) (was before) {
	if was.stamp = c.stampOf(&d.Value); d.Version != 0 {
		was.takes = c.takes(d, d.plain)
	}
	return was
}

func (c *Collection[T]) exists(d *Document[T]) bool {
	return d.Version != 0 && (c.o.Exists == nil || c.o.Exists(&d.Value))
}

func (c *Collection[T]) size(d *Document[T], plain []byte) int {
	if c.o.Size == nil || len(plain) == 0 {
		return len(plain)
	}
	return c.o.Size(&d.Value)
}

// Allowed asks all of allow, as changes do. An unreadable document has the version that can be
// read.
func (c *Collection[T]) Allowed(d *Document[T], allow []Allow) error {
	version := c.stampOf(&d.Value).Version
	if c.o.Version != nil {
		version = c.o.Version(d)
	}
	for _, allowed := range allow {
		if err := allowed(c.exists(d), version); err != nil {
			return err
		}
	}
	return nil
}

// replace writes the changed document, or deletes it when it is blank.
func (c *Collection[T]) replace(ctx context.Context, d *Document[T], was before) error {
	plain, newer, err := encode(&d.Value, d.plain)
	switch {
	case err != nil:
		return err
	case newer || c.o.Blank == nil || !c.o.Blank(&d.Value):
		takes := c.takes(d, plain)
		more := takes.above(was.takes)
		if err := c.Reserve(ctx, more.documents, more.bytes); err != nil {
			return err
		}
		if err = c.write(ctx, d, plain); err == nil {
			c.room.gain(was.takes.above(takes))
		}
		return err
	case d.Version == 0:
		return nil
	}
	if err = c.Delete(ctx, d); errors.Is(err, store.ErrNotFound) {
		err = store.ErrConflict // what was read is gone
	}
	d.Version, d.Data, d.plain = 0, nil, nil
	return err
}

// Delete deletes the version of a document that was read. The error is
// store.ErrConflict if the stored version is another one, store.ErrNotFound if there is
// none.
func (c *Collection[T]) Delete(ctx context.Context, d *Document[T]) error {
	if err := store.DeleteDocument(ctx, c.o.Store, c.o.Kind, d.Name, d.Version); err != nil {
		return fmt.Errorf("delete the %s %s: %w", c.o.Kind, d.Name, c.missing(err))
	}
	c.room.gain(c.takes(d, d.plain))
	return nil
}

// Remove deletes a document, readable or not. Errors: those of allow, store.ErrNotFound, and
// store.ErrConflict after many tries.
func (c *Collection[T]) Remove(ctx context.Context, name string, allow ...Allow) error {
	return again(func() error {
		d, err := c.Get(ctx, name)
		if d.Version == 0 {
			return err
		}
		if err := c.Allowed(&d, allow); err != nil {
			return err
		}
		return c.Delete(ctx, &d)
	})
}

// again runs a compare-and-swap until nobody was faster, a bounded number of times.
func again(once func() error) (err error) {
	for range tries {
		if err = once(); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return err
}
