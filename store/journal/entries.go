package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Reader reads a journal.
type Reader struct {
	pools   *pools
	dialect dialect
	clock   job.Clock
	entries bulk
}

// OpenReader opens a journal that exists, and neither makes nor changes it.
func OpenReader(ctx context.Context, url, namespace string, clock job.Clock) (*Reader, error) {
	d, err := dialectFor(url)
	if err != nil {
		return nil, err
	}
	if file, is := d.(*sqlite); is {
		if _, err := os.Stat(file.path); err != nil {
			return nil, fmt.Errorf("there is no journal: %w", err)
		}
	}
	p, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	r := &Reader{pools: p, dialect: d, clock: clock}
	err = checkVersion(ctx, p, d)
	if err == nil {
		err = checkNamespace(ctx, p, d, cmp.Or(namespace, DefaultNamespace))
	}
	if err == nil {
		err = r.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// checkVersion refuses a journal whose tables are not those of this version.
func checkVersion(ctx context.Context, p *pools, d dialect) error {
	rows, err := p.read.QueryContext(ctx, "SELECT 1 FROM message WHERE 1 = 0")
	if err != nil {
		return fmt.Errorf("there is no journal: %w", err)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	m, err := provider(p, d)
	if err != nil {
		return err
	}
	has, knows, err := m.GetVersions(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read the journal's version: %w", err)
	case has != knows:
		return fmt.Errorf("the journal was written by another version of duehook: its tables have version %d, this one wants %d", has, knows)
	}
	return nil
}

func (r *Reader) prepare(ctx context.Context) (err error) {
	r.entries, err = prepareBulk(ctx, r.pools.read, r.dialect.selected(sqlEntries, lookupColumns), len(lookupColumns))
	return err
}

// Close closes the journal.
func (r *Reader) Close() error { return errors.Join(r.entries.close(), r.pools.close()) }

// Entry is a message without what the client gave.
type Entry struct {
	Seq       int64
	Key       job.Key
	UID       string
	Created   job.Instant
	State     job.State
	Version   uint64
	Token     uint64
	WakeAt    job.Instant // when an unfinished job needs attention
	Confirmed int64
	Open      bool // it may be restored
	// Followed: another registration of its key is known to have come later than the
	// job that the store has. Only looked up for superseded messages.
	Followed bool
	Bad      error // why it cannot be read; then only the names are valid
}

// Unreadable is the entry as a job that cannot be read.
func (e *Entry) Unreadable() Unreadable {
	return Unreadable{Seq: e.Seq, Key: e.Key, UID: e.UID, State: e.State, Err: e.Bad}
}

const (
	// What Entry.scan reads; v.i is which of the rows asked for it is.
	entryColumns = `m.seq, m.topic, m.id, m.uid, m.created, m.status, m.version, m.token, m.next_at, m.expires,
		m.confirmed, CASE WHEN m.done_at IS NULL THEN 1 ELSE 0 END`
	// sqlEntries finds the message of a uid, and the open one.
	sqlEntries = `SELECT v.i, ` + entryColumns + ` FROM {rows} JOIN message m ON m.topic = v.topic AND m.id = v.id
		WHERE m.uid = v.uid OR m.done_at IS NULL ORDER BY m.seq`
	// sqlFollowed counts the messages of a key that were registered later than a
	// job of the store, by the store's time. Parameters: topic, id, uid, created, created, uid.
	sqlFollowed = `SELECT count(*) FROM message WHERE topic = ? AND id = ? AND uid <> ? AND confirmed > 0
		AND (created > ? OR created = ? AND uid > ?)`
	// sqlLatest reads the open message of a key, or else the latest.
	sqlLatest = `SELECT ` + entryColumns + ` FROM message m WHERE m.topic = ? AND m.id = ?
		ORDER BY CASE WHEN m.done_at IS NULL THEN 0 ELSE 1 END, m.seq DESC LIMIT 1`
)

func (e *Entry) scan(scan func(...any) error, first ...any) error {
	var next, expires job.Instant
	var state, version, token int64
	err := scan(append(first, &e.Seq, &e.Key.Topic, &e.Key.ID, &e.UID, &e.Created, &state, &version, &token,
		&next, &expires, &e.Confirmed, &e.Open)...)
	if e.Bad = checkRow(state, version, token); e.Bad == nil {
		e.State, e.Version, e.Token = job.State(state), uint64(version), uint64(token)
	}
	j := job.Job{NextAt: next, ExpiresAt: expires}
	e.WakeAt = j.WakeAt()
	return err
}

// Entries looks up the messages of keys, in the order of keys: those of the
// registrations that the store has, and the open ones.
func (r *Reader) Entries(ctx context.Context, keys []job.Key, standings []store.Standing) (own, open []*Entry, err error) {
	args := make([]any, 0, len(lookupColumns)*len(keys))
	for i := range keys {
		args = append(args, int64(i), keys[i].Topic, keys[i].ID, standings[i].UID)
	}
	own, open = make([]*Entry, len(keys)), make([]*Entry, len(keys))
	err = r.entries.each(args, func(stmt *sql.Stmt, args []any) error {
		rows, err := stmt.QueryContext(ctx, args...)
		if err != nil {
			return err
		}
		defer rows.Close() //nolint:errcheck // rows.Err tells
		for rows.Next() {
			var i int
			e := &Entry{}
			if err := e.scan(rows.Scan, &i); err != nil {
				return err
			}
			if e.Bad != nil {
				continue
			}
			if e.UID == standings[i].UID {
				own[i] = e
			}
			if e.Open {
				open[i] = e
			}
		}
		return rows.Err()
	})
	for i := range keys {
		if e := own[i]; err == nil && e != nil && e.Confirmed == Superseded {
			e.Followed, err = r.followed(ctx, keys[i], &standings[i])
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("look up messages: %w", unavailable(err))
	}
	return own, open, nil
}

func (r *Reader) followed(ctx context.Context, key job.Key, j *store.Standing) (bool, error) {
	var n int
	err := r.pools.read.QueryRowContext(ctx, r.dialect.bind(sqlFollowed),
		key.Topic, key.ID, j.UID, int64(j.CreatedAt), int64(j.CreatedAt), j.UID).Scan(&n)
	return n > 0, err
}

// EntryPage is how many messages OpenEntries returns at most.
const EntryPage = 1000

// OpenEntries reads a page of open messages of a topic, or of all topics if it is
// empty, after an entry; nil: from the first.
func (r *Reader) OpenEntries(ctx context.Context, topic string, after *Entry) ([]*Entry, error) {
	condition, args, order := r.dialect.walk(after)
	if topic != "" {
		condition += " AND m.topic = ?"
		args = append(args, topic)
	}
	rows, err := r.pools.read.QueryContext(ctx, r.dialect.bind("SELECT "+entryColumns+" FROM message m WHERE m.done_at IS NULL"+
		condition+" ORDER BY "+order+" LIMIT ?"), append(args, EntryPage)...)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", unavailable(err))
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	var page []*Entry
	for rows.Next() {
		e := &Entry{}
		if err := e.scan(rows.Scan); err != nil {
			return nil, fmt.Errorf("read the journal: %w", unavailable(err))
		}
		page = append(page, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the journal: %w", unavailable(err))
	}
	return page, nil
}

// Latest reads the open message of a key, or else the latest; store.ErrNotFound if
// there is none.
func (r *Reader) Latest(ctx context.Context, key job.Key) (*Entry, error) {
	e := &Entry{}
	err := e.scan(r.pools.read.QueryRowContext(ctx, r.dialect.bind(sqlLatest), key.Topic, key.ID).Scan)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, store.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("look a message up: %w", unavailable(err))
	}
	return e, nil
}

// AllUnreadable reads all open messages, and returns those that cannot be read.
func (r *Reader) AllUnreadable(ctx context.Context) ([]Unreadable, error) {
	var all []Unreadable
	for after := (*Entry)(nil); ; {
		page, err := r.OpenEntries(ctx, "", after)
		if err != nil {
			return nil, err
		}
		var seqs []int64
		for _, e := range page {
			if e.Bad != nil {
				all = append(all, e.Unreadable())
			} else {
				seqs = append(seqs, e.Seq)
			}
		}
		err = r.Messages(ctx, seqs, func(_ []Stored, bad []Unreadable) error {
			all = append(all, bad...)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(page) < EntryPage {
			return all, nil
		}
		after = page[len(page)-1]
	}
}
