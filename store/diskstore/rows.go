package diskstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/duehook/duehook/store"
)

// rows are the changes of rows that a call makes, in order. Nobody may alter keys or values later.
type rows struct {
	db      *pebble.DB
	changes []rowChange
	latest  map[string]int // by key: its last change
	bytes   int
	ranges  bool // a change deletes a range, which latest does not show

	// fetched has rows from before the changes, nil for those that there are not.
	fetched map[string][]byte

	index   *pebble.Batch // shows the first changes to searches; nil until one needs it
	indexed int           // how many
}

// rowChange sets or deletes a row, or deletes a range of rows.
type rowChange struct {
	kind       pebble.InternalKeyKind
	key, value []byte // of a range: its first key, and the one behind its last
}

func (r *rows) add(kind pebble.InternalKeyKind, key, value []byte) {
	if r.latest == nil {
		r.latest = map[string]int{}
	}
	r.latest[string(key)] = len(r.changes)
	r.ranges = r.ranges || kind == pebble.InternalKeyKindRangeDelete
	r.changes = append(r.changes, rowChange{kind, key, value})
	r.bytes += len(key) + len(value)
}

// get returns a row, which the caller must not alter; nil if there is none.
func (r *rows) get(key []byte) ([]byte, error) {
	if r.ranges {
		all, err := r.reader()
		if err != nil {
			return nil, err
		}
		return get(all, key)
	}
	at, changed := r.latest[string(key)]
	switch {
	case !changed:
		if value, known := r.fetched[string(key)]; known {
			return value, nil
		}
		return get(r.db, key)
	case r.changes[at].kind == pebble.InternalKeyKindDelete:
		return nil, nil
	case r.changes[at].value == nil:
		return []byte{}, nil
	}
	return r.changes[at].value, nil
}

// look passes a row to visit, nil if there is none. visit must neither keep nor alter it.
func (r *rows) look(key []byte, visit func(value []byte) error) error {
	if _, changed := r.latest[string(key)]; changed || r.ranges {
		value, err := r.get(key)
		if err != nil {
			return err
		}
		return visit(value)
	}
	value, closer, err := r.db.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return visit(nil)
	case err != nil:
		return unavailable(fmt.Errorf("read a row: %w", err))
	}
	return errors.Join(visit(value), closer.Close())
}

// fetch reads rows of one family for the calls of get that follow: one search in order costs much
// less than many. What exceeds store.BatchBytes is left to get.
func (r *rows) fetch(keys [][]byte) error {
	if len(keys) < 2 {
		return nil
	}
	slices.SortFunc(keys, bytes.Compare)
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: keys[0][:1], UpperBound: end(keys[0][:1])})
	if err != nil {
		return unavailable(fmt.Errorf("read rows: %w", err))
	}
	r.fetched = make(map[string][]byte, len(keys))
	for size := 0; len(keys) > 0 && size < store.BatchBytes; keys = keys[1:] {
		var value []byte
		if it.SeekPrefixGE(keys[0]) {
			value = append([]byte{}, it.Value()...)
		}
		r.fetched[string(keys[0])] = value
		size += len(value)
	}
	return unavailable(errors.Join(it.Error(), it.Close()))
}

// reader searches all rows, as the changes leave them.
func (r *rows) reader() (pebble.Reader, error) {
	if len(r.changes) == 0 {
		return r.db, nil
	}
	if r.index == nil {
		r.index = r.db.NewIndexedBatch()
	}
	var err error
	for ; r.indexed < len(r.changes) && err == nil; r.indexed++ {
		err = r.changes[r.indexed].apply(r.index)
	}
	return r.index, err
}

// batch has the changes, ordered by family. The engine then finds most of their places next to
// the ones before. Changes of different families do not depend on each other.
func (r *rows) batch() (*pebble.Batch, error) {
	var next [1 << 8]int // by family: the place of its next change
	for i := range r.changes {
		next[r.changes[i].key[0]]++
	}
	for i, sum := 0, 0; i < len(next); i++ {
		next[i], sum = sum, sum+next[i]
	}
	sorted := make([]*rowChange, len(r.changes))
	for i := range r.changes {
		at := &next[r.changes[i].key[0]]
		sorted[*at] = &r.changes[i]
		*at++
	}
	const overhead = 16 // of a change, at most
	b := r.db.NewBatchWithSize(r.bytes + overhead*(len(sorted)+1))
	for _, c := range sorted {
		if err := c.apply(b); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

func (c *rowChange) apply(b *pebble.Batch) error {
	switch c.kind {
	case pebble.InternalKeyKindDelete:
		return b.Delete(c.key, nil)
	case pebble.InternalKeyKindRangeDelete:
		return b.DeleteRange(c.key, c.value, nil)
	}
	return b.Set(c.key, c.value, nil)
}

// close releases what searches needed.
func (r *rows) close() error {
	if r.index == nil {
		return nil
	}
	return r.index.Close()
}
