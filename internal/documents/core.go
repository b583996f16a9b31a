package documents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// document is a *Document[T].
type document interface {
	head() *Head
	value() any // its *T
}

// core is a Collection without the type of its values. The compiler makes a copy of each method of a
// Collection for each T, in each package that sees one. So the methods of a Collection are short.
type core struct {
	store         store.Documents
	kind          string
	strict        bool
	missing, full error
	bounds        amount
	tombstone     []byte
	clock         job.Clock
	seal          *Seal
	room          room

	empty         func() document
	reset         func(v any, name string)
	version       func(d document) uint64
	blank, exists func(v any) bool
	size          func(v any) int
	check         func(v any) error
	stamp         func(v any) *Stamp
}

func (c *core) get(ctx context.Context, name string, d document) error {
	raw, err := store.ReadDocument(ctx, c.store, c.kind, name)
	if err != nil {
		*d.head() = Head{Name: name}
		c.reset(d.value(), name)
		return fmt.Errorf("read the %s %s: %w", c.kind, name, c.orMissing(err))
	}
	c.decode(raw, d)
	return d.head().Err
}

func (c *core) orMissing(err error) error {
	if c.missing != nil && errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %w", c.missing, err)
	}
	return err
}

// List reads all documents, by name, without decoding them.
func (c *core) List(ctx context.Context) ([]store.Document, error) {
	return c.page(ctx, "", 0)
}

// From reads the documents behind the name after, by name and up to size at once, without
// decoding them. It ends with an error.
func (c *core) From(ctx context.Context, after string, size int) iter.Seq2[store.Document, error] {
	return func(yield func(store.Document, error) bool) {
		if err := CheckCursor(after); err != nil {
			yield(store.Document{}, err)
			return
		}
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

// CheckCursor checks the name behind which a page begins; empty is the first page. The error wraps
// store.ErrBadCursor.
func CheckCursor(after string) error {
	if err := job.CheckName(after); err != nil && after != "" {
		return fmt.Errorf("%w: it %w", store.ErrBadCursor, err)
	}
	return nil
}

func (c *core) page(ctx context.Context, after string, limit int) ([]store.Document, error) {
	raws, err := c.store.ListDocuments(ctx, store.DocumentQuery{Kind: c.kind, After: after, Limit: limit})
	if err != nil {
		return nil, fmt.Errorf("list the documents %s: %w", c.kind, err)
	}
	return raws, nil
}

func (c *core) decode(raw store.Document, into document) {
	d, v := into.head(), into.value()
	*d = Head{Name: raw.Name, Version: raw.Version, Data: raw.Data, plain: raw.Data}
	c.reset(v, raw.Name)
	if c.seal != nil {
		if d.plain, d.Err = c.seal.open(c.kind, d.Name, d.Data); d.Err != nil {
			d.Err = fmt.Errorf("open the %s %s: %w", c.kind, d.Name, d.Err)
			return
		}
	}
	err := decode(d.plain, v, c.strict)
	if err == nil && c.check != nil {
		err = c.check(v)
	}
	switch {
	case err != nil && c.seal != nil: // its text could quote the content
		d.Err = fmt.Errorf("%w: the %s %s has unknown content", ErrDamaged, c.kind, d.Name)
	case err != nil:
		d.Err = fmt.Errorf("%w: the %s %s: %w", store.ErrNewer, c.kind, d.Name, err)
	}
}

func (c *core) put(ctx context.Context, d document) error {
	if err := d.head().Err; err != nil {
		return err
	}
	plain, _, err := encode(d.value(), d.head().plain)
	if err != nil {
		return err
	}
	return c.write(ctx, d.head(), plain)
}

func (c *core) write(ctx context.Context, d *Head, plain []byte) (err error) {
	data := plain
	if c.seal != nil {
		if data, err = c.seal.seal(c.kind, d.Name, plain); err != nil {
			return err
		}
	}
	stored, err := store.PutDocument(ctx, c.store, store.Document{Kind: c.kind, Name: d.Name, Version: d.Version, Data: data})
	if err != nil {
		return fmt.Errorf("write the %s %s: %w", c.kind, d.Name, err)
	}
	d.Version, d.Data, d.plain = stored.Version, data, plain
	return nil
}

func (c *core) putAll(ctx context.Context, docs []document) (stored []bool, err error) {
	raws := make([]store.Document, len(docs))
	for i, d := range docs {
		if err := d.head().Err; err != nil {
			return nil, err
		}
		data, _, err := encode(d.value(), nil)
		if err != nil {
			return nil, err
		}
		raws[i] = store.Document{Kind: c.kind, Name: d.head().Name, Version: d.head().Version, Data: data}
	}
	versions, err := c.store.PutDocuments(ctx, raws)
	if err != nil {
		return nil, fmt.Errorf("write %d documents %s: %w", len(docs), c.kind, err)
	}
	stored = make([]bool, len(docs))
	for i, version := range versions {
		if stored[i] = version != 0; stored[i] {
			d := docs[i].head()
			d.Version, d.Data, d.plain = version, raws[i].Data, raws[i].Data
		}
	}
	return stored, nil
}

// restore creates a document with the Data of one that the store lost. The error is
// store.ErrConflict if there is one again.
func (c *core) restore(ctx context.Context, name string, data []byte) error {
	_, err := store.PutDocument(ctx, c.store, store.Document{Kind: c.kind, Name: name, Data: data})
	if err != nil {
		return fmt.Errorf("restore the %s %s: %w", c.kind, name, err)
	}
	return nil
}

func (c *core) create(ctx context.Context, d document) error {
	if err := c.setStamp(d, Stamp{}); err != nil {
		return err
	}
	return c.replace(ctx, d, before{})
}

// update changes a document by change, which finds it in d.
func (c *core) update(ctx context.Context, name string, d document, change func() error, allow []Allow, existing bool) error {
	err := again(func() error {
		err := c.get(ctx, name, d)
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return err
		case existing && !c.stands(d):
			return fmt.Errorf("change the %s %s: %w", c.kind, name, c.orMissing(store.ErrNotFound))
		}
		if err := c.allowed(d, allow); err != nil {
			return err
		}
		was := c.before(d)
		if err := change(); err != nil {
			return err
		}
		if err := c.setStamp(d, was.stamp); err != nil {
			return err
		}
		return c.replace(ctx, d, was)
	})
	if errors.Is(err, ErrKept) {
		err = nil
	}
	return err
}

// before is what matters of a document before a change.
type before struct {
	takes amount
	stamp Stamp
}

func (c *core) before(d document) (was before) {
	if was.stamp = c.stampOf(d); d.head().Version != 0 {
		was.takes = c.takes(d, d.head().plain)
	}
	return was
}

// stands reports whether a document exists, and is no tombstone.
func (c *core) stands(d document) bool {
	return d.head().Version != 0 && (c.exists == nil || c.exists(d.value()))
}

func (c *core) allowed(d document, allow []Allow) error {
	version := c.stampOf(d).Version
	if c.version != nil {
		version = c.version(d)
	}
	for _, allowed := range allow {
		if err := allowed(c.stands(d), version); err != nil {
			return err
		}
	}
	return nil
}

// replace writes the changed document, or deletes it when it is blank.
func (c *core) replace(ctx context.Context, d document, was before) error {
	h := d.head()
	plain, newer, err := encode(d.value(), h.plain)
	switch {
	case err != nil:
		return err
	case newer || c.blank == nil || !c.blank(d.value()):
		takes := c.takes(d, plain)
		more := takes.above(was.takes)
		if err := c.Reserve(ctx, more.documents, more.bytes); err != nil {
			return err
		}
		if err = c.write(ctx, h, plain); err == nil {
			c.room.gain(was.takes.above(takes))
		}
		return err
	case h.Version == 0:
		return nil
	}
	if err = c.remove(ctx, d); errors.Is(err, store.ErrNotFound) {
		err = store.ErrConflict // what was read is gone
	}
	h.Version, h.Data, h.plain = 0, nil, nil
	return err
}

func (c *core) remove(ctx context.Context, d document) error {
	h := d.head()
	if err := store.DeleteDocument(ctx, c.store, c.kind, h.Name, h.Version); err != nil {
		return fmt.Errorf("delete the %s %s: %w", c.kind, h.Name, c.orMissing(err))
	}
	c.room.gain(c.takes(d, h.plain))
	return nil
}

// Remove deletes a document, readable or not. Errors: those of allow, store.ErrNotFound, and
// store.ErrConflict after many tries.
func (c *core) Remove(ctx context.Context, name string, allow ...Allow) error {
	d := c.empty()
	return again(func() error {
		err := c.get(ctx, name, d)
		if d.head().Version == 0 {
			return err
		}
		if err := c.allowed(d, allow); err != nil {
			return err
		}
		return c.remove(ctx, d)
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

// stampOf is the stamp of a document, which has one if the collection says so.
func (c *core) stampOf(d document) (s Stamp) {
	if c.stamp != nil {
		s = *c.stamp(d.value())
	}
	return s
}

// setStamp sets the stamp of a changed document that had another one before. It returns ErrKept if
// only the stamp differs.
func (c *core) setStamp(d document, before Stamp) error {
	if c.stamp == nil {
		return nil
	}
	*c.stamp(d.value()) = before
	if h := d.head(); h.Version != 0 {
		plain, _, err := encode(d.value(), h.plain)
		if err != nil {
			return err
		}
		if bytes.Equal(plain, h.plain) {
			return ErrKept
		}
	}
	*c.stamp(d.value()) = before.next(job.InstantOf(c.clock.Now()))
	return nil
}
