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

// ErrNone is OpenReader's error if nothing was journaled in the database yet.
var ErrNone = errors.New("there is no journal")

// Reader reads a journal.
type Reader struct {
	pools   *pools
	words   *words
	clock   job.Clock
	entries bulk
}

// OpenReader opens an existing journal for reading.
func OpenReader(ctx context.Context, url, namespace string) (*Reader, error) {
	d, err := dialectFor(url)
	if err != nil {
		return nil, err
	}
	if file, is := d.(*sqlite); is {
		if _, err := os.Stat(file.path); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNone, err)
		}
	}
	p, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	r := &Reader{pools: p, words: d.words(), clock: job.SystemClock()}
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
		return fmt.Errorf("%w: %w", ErrNone, err)
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
	r.entries, err = prepareBulk(ctx, r.pools.read, r.words.about(lookupOf(entryColumns, ""), lookupColumns))
	return err
}

// Close closes the journal.
func (r *Reader) Close() error { return r.pools.close() }

// Entry is a message without the client's content.
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
	Open      bool        // it may be restored
	Done      job.Instant // from when its age counts, or zero
	// Followed: the key was surely registered again after the job that the store has.
	// Looked up for superseded messages only.
	Followed bool
	Bad      error // why it cannot be read; then only the names are valid
}

// Unreadable is the entry as a job that cannot be read.
func (e *Entry) Unreadable() Unreadable {
	return Unreadable{Seq: e.Seq, Key: e.Key, UID: e.UID, State: e.State, Err: e.Bad}
}

const (
	// What Entry.scan reads.
	entryColumns = `m.seq, m.topic, m.id, m.uid, m.created, m.status, m.version, m.token, m.next_at, m.expires,
		m.confirmed, CASE WHEN m.done_at IS NULL THEN 1 ELSE 0 END, coalesce(m.done_at, 0)`
	// fewColumns are those that inOrder needs. Others would cost allocations for each job.
	fewColumns = `m.seq, '', '', m.uid, 0, m.status, m.version, m.token, 0, 0,
		m.confirmed, CASE WHEN m.done_at IS NULL THEN 1 ELSE 0 END, 0`
	// sqlFollowed counts the messages of a key that were registered later than a
	// job of the store, by the store's time. Parameters: topic, id, uid, created, created, uid.
	sqlFollowed = `SELECT count(*) FROM message WHERE topic = ? AND id = ? AND uid <> ? AND confirmed > 0
		AND (created > ? OR created = ? AND uid > ?)`
	// sqlLatest reads the open message of a key, or else the latest.
	sqlLatest = `SELECT ` + entryColumns + ` FROM message m WHERE m.topic = ? AND m.id = ?
		ORDER BY CASE WHEN m.done_at IS NULL THEN 0 ELSE 1 END, m.seq DESC LIMIT 1`
)

// lookupOf finds messages of keys: that of the uid, or all without a uid; the open one; and
// others. v.i is the index of the key.
func lookupOf(columns, others string) string {
	return "SELECT v.i, " + columns + ` FROM {rows} JOIN message m ON m.topic = v.topic AND m.id = v.id
		WHERE v.uid = '' OR m.uid = v.uid OR m.done_at IS NULL` + others + " ORDER BY m.seq"
}

func (e *Entry) scan(scan func(...any) error, first ...any) error {
	var next, expires job.Instant
	var state, version, token int64
	err := scan(append(first, &e.Seq, &e.Key.Topic, &e.Key.ID, &e.UID, &e.Created, &state, &version, &token,
		&next, &expires, &e.Confirmed, &e.Open, &e.Done)...)
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
	found, err := r.entries.find(ctx, nil, args)
	for i, list := range found {
		for _, e := range list {
			if e.Bad == nil && e.UID == standings[i].UID {
				own[i] = e
			}
			if e.Bad == nil && e.Open {
				open[i] = e
			}
		}
	}
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

// find looks up messages for lookupColumns, in a transaction unless tx is nil, by the
// first column.
func (b *bulk) find(ctx context.Context, tx *sql.Tx, args []any) (map[int][]*Entry, error) {
	found := map[int][]*Entry{}
	err := b.each(args, func(stmt *sql.Stmt, args []any) error {
		if tx != nil {
			stmt = tx.StmtContext(ctx, stmt)
		}
		rows, err := stmt.QueryContext(ctx, args...)
		if err != nil {
			return err
		}
		defer rows.Close() //nolint:errcheck // rows.Err reports it
		for rows.Next() {
			var i int
			e := &Entry{}
			if err := e.scan(rows.Scan, &i); err != nil {
				return err
			}
			found[i] = append(found[i], e)
		}
		return rows.Err()
	})
	return found, err
}

// PickOwn returns the message of uid. Without a uid it returns the open message, or
// else the latest.
func PickOwn(list []*Entry, uid string) (own *Entry) {
	for _, e := range list {
		if e.UID == uid || uid == "" && (own == nil || !own.Open || e.Open) {
			own = e
		}
	}
	return own
}

func (r *Reader) followed(ctx context.Context, key job.Key, j *store.Standing) (bool, error) {
	var n int
	err := r.pools.read.QueryRowContext(ctx, r.words.bind(sqlFollowed),
		key.Topic, key.ID, j.UID, int64(j.CreatedAt), int64(j.CreatedAt), j.UID).Scan(&n)
	return n > 0, err
}

// EntryPage is how many messages OpenEntries returns at most.
const EntryPage = 1000

// OpenEntries reads the page of open messages behind an entry; nil: the first page. An
// empty topic means all.
func (r *Reader) OpenEntries(ctx context.Context, topic string, after *Entry) ([]*Entry, error) {
	condition, args, order := r.words.walk(after)
	if topic != "" {
		condition += " AND m.topic = ?"
		args = append(args, topic)
	}
	text := r.words.bind("SELECT " + entryColumns + " FROM message m WHERE m.done_at IS NULL" + condition + " ORDER BY " + order + " LIMIT ?")
	var page []*Entry
	err := each(ctx, r.pools.read, text, append(args, EntryPage), func(rows *sql.Rows) error {
		e := &Entry{}
		page = append(page, e)
		return e.scan(rows.Scan)
	})
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", unavailable(err))
	}
	return page, nil
}

// Latest reads the open message of a key, or else the latest; store.ErrNotFound if
// there is none.
func (r *Reader) Latest(ctx context.Context, key job.Key) (*Entry, error) {
	e := &Entry{}
	err := e.scan(r.pools.read.QueryRowContext(ctx, r.words.bind(sqlLatest), key.Topic, key.ID).Scan)
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
