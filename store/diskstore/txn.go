package diskstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// txn is one call that changes the store, under its lock. Its rows are written together.
// After an error it reads nothing, and nothing is written.
type txn struct {
	s       *Store
	now     job.Instant
	rows    rows
	err     error
	changed bool // what is in memory

	lanes  map[*lane]struct{} // whose counts changed
	topics map[*topic]bool    // true: counts of ended jobs changed
	groups map[string]struct{}
	figure bool // the figures of the store changed
}

// durable says whether a call waits for the disk.
type durable bool

// change runs a call under the lock, writes its rows, and waits for the disk if it is
// durable. What the call saw is then on the disk, too.
func (s *Store) change(ctx context.Context, d durable, call func(t *txn)) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.active.Done()
	t := s.begin(now)
	call(t)
	b, err := t.commit(d)
	waits := err == nil && bool(d)
	var own *syncing
	if waits {
		own = &syncing{done: make(chan struct{})}
		s.syncing = own
	}
	s.leave()
	if b == nil {
		return err
	}
	if waits {
		if err = b.SyncWait(); err != nil {
			s.engineFailed(err)
		} else {
			s.onDisk(now)
		}
		close(own.done)
	}
	if err != nil {
		return unavailable(err)
	}
	if err := b.Close(); err != nil {
		return unavailable(err)
	}
	return s.Failure()
}

// begin begins a call at now.
func (s *Store) begin(now job.Instant) *txn { return &txn{s: s, now: now, rows: rows{db: s.db}} }

// onDisk notes that the calls before now are on the disk.
func (s *Store) onDisk(now job.Instant) {
	for {
		before := s.synced.Load()
		if int64(now) <= before || s.synced.CompareAndSwap(before, int64(now)) {
			return
		}
	}
}

// await waits until the rows of a call are on the disk.
func (s *Store) await(ctx context.Context, c *syncing) error {
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
		return s.Failure()
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

// commit writes the rows. Without an error, the batch is applied; it is nil if there are no rows and
// nobody waits.
func (t *txn) commit(d durable) (b *pebble.Batch, err error) {
	s := t.s
	if t.err == nil {
		t.writeCounts()
	}
	t.note(t.rows.close())
	if t.err == nil && (bool(d) || len(t.rows.changes) > 0) {
		b, err = t.rows.batch()
		t.note(err)
	}
	if t.err != nil {
		if t.changed { // what is in memory is ahead of the rows
			s.fail(t.err)
		}
		return nil, unavailable(t.err)
	}
	switch {
	case bool(d):
		if b.Empty() {
			t.note(b.LogData(nil, nil)) // what others wrote before must be on the disk
		}
		t.note(s.apply(func() error { return s.db.ApplyNoSyncWait(b, pebble.Sync) }))
	case b != nil:
		t.note(s.apply(func() error { return s.db.Apply(b, pebble.NoSync) }))
	}
	if t.err != nil {
		s.engineFailed(t.err)
	}
	return b, t.err
}

// apply writes a batch. The engine panics once its log cannot be written.
func (s *Store) apply(write func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.stuck = true
			err = fmt.Errorf("the storage engine cannot write its log: %v", r)
		}
	}()
	return write()
}

func (t *txn) note(err error) {
	if t.err == nil {
		t.err = err
	}
}

// set and the like take key and value over.
func (t *txn) set(key, value []byte) { t.rows.add(pebble.InternalKeyKindSet, key, value) }
func (t *txn) delete(key []byte)     { t.rows.add(pebble.InternalKeyKindDelete, key, nil) }

func (t *txn) deleteRange(from, to []byte) {
	t.rows.add(pebble.InternalKeyKindRangeDelete, from, to)
}

// get returns a row, which the caller must not alter; nil if there is none.
func (t *txn) get(key []byte) []byte {
	if t.err != nil {
		return nil
	}
	value, err := t.rows.get(key)
	t.note(err)
	return value
}

// scan visits rows in order until visit returns false. It must not keep key or value.
func (t *txn) scan(from, to []byte, visit func(key, value []byte) bool) {
	if t.err != nil {
		return
	}
	r, err := t.rows.reader()
	if err == nil {
		err = scan(r, from, to, visit)
	}
	t.note(err)
}

// get returns a copy of a row, nil if there is none. A row that is there is not nil.
func get(r pebble.Reader, key []byte) ([]byte, error) {
	value, closer, err := r.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, unavailable(fmt.Errorf("read a row: %w", err))
	}
	return append(make([]byte, 0, len(value)), value...), closer.Close()
}

// getter is get of some rows.
type getter func(key []byte) ([]byte, error)

func getterOf(r pebble.Reader) getter {
	return func(key []byte) ([]byte, error) { return get(r, key) }
}

// scan visits rows in order until visit returns false. It must not keep key or value.
func scan(r pebble.Reader, from, to []byte, visit func(key, value []byte) bool) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return unavailable(fmt.Errorf("read rows: %w", err))
	}
	for ok := it.First(); ok && visit(it.Key(), it.Value()); ok = it.Next() {
	}
	return unavailable(errors.Join(it.Error(), it.Close()))
}

// scanBack is scan from the end.
func scanBack(r pebble.Reader, from, to []byte, visit func(key, value []byte) bool) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return unavailable(fmt.Errorf("read rows: %w", err))
	}
	for ok := it.Last(); ok && visit(it.Key(), it.Value()); ok = it.Prev() {
	}
	return unavailable(errors.Join(it.Error(), it.Close()))
}

// load returns the record of a key, nil if there is none.
func (t *txn) load(key job.Key) *record {
	if t.err != nil {
		return nil
	}
	rec, err := loadRecord(t.rows.get, key)
	if err != nil {
		t.note(err)
		return nil
	}
	if rec != nil {
		rec.overlay(t.s.flights[key])
	}
	return rec
}

// holder returns the job that has a key, without its body; nil if there is none. A batch may name a thousand large jobs:
// under the lock, their bodies are not even copied.
func (t *txn) holder(key job.Key) (j *job.Job) {
	at := t.get(row(famKey, key.Topic, key.ID))
	if at == nil {
		return nil
	}
	t.note(t.rows.look(at[1:], func(value []byte) error {
		rec, err := recordAt(key, at, value)
		if err != nil {
			return err
		}
		rec.overlay(t.s.flights[key])
		head, err := rec.head()
		j = &head
		return err
	}))
	if t.err != nil {
		return nil
	}
	return j
}

// has reports whether a key has a record.
func (t *txn) has(key job.Key) bool { return t.get(row(famKey, key.Topic, key.ID)) != nil }

// keyRow is where the record of a key is: a byte that says whether its entry is parked, and
// a place.
func keyRow(rec *record) []byte {
	return rec.place.append([]byte{byte(bit(1, rec.parked))})
}

// loadRecord reads the record of a key with get, nil if there is none.
func loadRecord(get getter, key job.Key) (*record, error) {
	at, err := get(row(famKey, key.Topic, key.ID))
	if at == nil || err != nil {
		return nil, err
	}
	value, err := get(at[1:])
	if err != nil {
		return nil, err
	}
	return recordAt(key, at, value)
}

// recordAt decodes the row of a record, nil for none. at is the row of its key.
func recordAt(key job.Key, at, value []byte) (*record, error) {
	if value == nil {
		return nil, fmt.Errorf("%w: %s has no record", store.ErrUnreadable, key)
	}
	rec, err := decodeRecord(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	rec.parked, rec.place = at[0] != 0, parsePlace(at[1:])
	return rec, nil
}

// overlay adds what is known of a job in flight.
func (r *record) overlay(f *flight) {
	if f == nil {
		return
	}
	r.flight = f
	if f.claimed {
		r.State, r.Token, r.Version, r.UpdatedAt, r.ExpiredLeases = job.Running, f.token, f.version, f.updated, f.expiredLeases
	}
}
