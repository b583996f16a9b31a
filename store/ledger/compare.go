package ledger

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Difference is what a journal and a store disagree about.
type Difference string

// The differences.
const (
	// DifferentNot: they agree, as far as that can be seen.
	DifferentNot Difference = ""
	// MissingInStore: unfinished in the journal, or a dead letter, and the store
	// has no such job.
	MissingInStore Difference = "missing_in_store"
	// FinishedInJournal: the store would send it, and the journal knows its end.
	FinishedInJournal Difference = "finished_in_journal"
	// BehindInStore: the journal has a later version, or a later registration.
	BehindInStore Difference = "behind_in_store"
	// BehindInJournal: the store has.
	BehindInJournal Difference = "behind_in_journal"
	// UnreadableInJournal: the journal has a job, or an attempt of it, that cannot
	// be read, and so not be restored.
	UnreadableInJournal Difference = "unreadable_in_journal"
	// MissingInJournal: unfinished in the store, and the journal has no such job.
	MissingInJournal Difference = "missing_in_journal"
)

// entryRow is a message without what the client gave.
type entryRow struct {
	seq       int64
	key       job.Key
	uid       string
	created   job.Instant
	state     job.State
	version   uint64
	token     uint64
	wakeAt    job.Instant // when an unfinished job needs attention
	confirmed int64
	open      bool // it may be restored
	// followed: another registration of its key is known to have come later than
	// the job that the store has. Only looked up for messages that are superseded.
	followed bool
	bad      error // why it cannot be read; then nothing but the names is to be relied on
}

func (e *entryRow) unreadable() unreadable {
	return unreadable{seq: e.seq, key: e.key, uid: e.uid, state: e.state, err: e.bad}
}

const (
	// What entryRow.scan reads; v.i is which of the rows asked for it is.
	entryColumns = `m.seq, m.topic, m.id, m.uid, m.created, m.status, m.version, m.token, m.next_at, m.expires,
		m.confirmed, CASE WHEN m.done_at IS NULL THEN 1 ELSE 0 END`
	// sqlEntries finds the message of a uid, and the one that may be restored.
	sqlEntries = `SELECT v.i, ` + entryColumns + ` FROM {rows} JOIN message m ON m.topic = v.topic AND m.id = v.id
		WHERE m.uid = v.uid OR m.done_at IS NULL ORDER BY m.seq`
	// sqlFollowed counts the messages of a key that were registered later than a
	// job of the store, by the store's time. Parameters: topic, id, uid, created, created, uid.
	sqlFollowed = `SELECT count(*) FROM message WHERE topic = ? AND id = ? AND uid <> ? AND confirmed > 0
		AND (created > ? OR created = ? AND uid > ?)`
	// sqlLatest reads the message of a key that may be restored, or else the latest.
	sqlLatest = `SELECT ` + entryColumns + ` FROM message m WHERE m.topic = ? AND m.id = ?
		ORDER BY CASE WHEN m.done_at IS NULL THEN 0 ELSE 1 END, m.seq DESC LIMIT 1`
)

func (e *entryRow) scan(scan func(...any) error, first ...any) error {
	var next, expires job.Instant
	var state, version, token int64
	err := scan(append(first, &e.seq, &e.key.Topic, &e.key.ID, &e.uid, &e.created, &state, &version, &token,
		&next, &expires, &e.confirmed, &e.open)...)
	if e.bad = checkRow(state, version, token); e.bad == nil {
		e.state, e.version, e.token = job.State(state), uint64(version), uint64(token)
	}
	j := job.Job{NextAt: next, ExpiresAt: expires}
	e.wakeAt = j.WakeAt()
	return err
}

// laterThan reports whether e was registered later than the job that the store
// has. One that is not confirmed has its node's time.
func (e *entryRow) laterThan(s *store.Standing) bool {
	switch {
	case e.confirmed == unconfirmed:
		return s.State.Final()
	case e.created != s.CreatedAt:
		return e.created > s.CreatedAt
	}
	return e.uid > s.UID
}

// against compares a message that may be restored with what the store has of
// its key. Of two equal versions that differ an end is right: it has happened.
func (e *entryRow) against(s *store.Standing) Difference {
	switch {
	case !s.Exists():
		return MissingInStore
	case s.UID == e.uid && s.Version <= e.version && e.state.Final() && !s.State.Final():
		return FinishedInJournal
	case s.UID != e.uid && e.laterThan(s), s.UID == e.uid && s.Version < e.version:
		return BehindInStore
	case s.UID != e.uid, s.Version > e.version:
		return BehindInJournal
	case s.State.Final() && !e.state.Final():
		return BehindInJournal
	}
	return DifferentNot
}

// judged compares an unfinished job of the store with the messages of its key:
// its own and the one that may be restored, of which either may be nil. It
// gives the message that is right when the store is not.
func judged(s *store.Standing, own, open *entryRow) (Difference, *entryRow) {
	switch {
	case own != nil && own.open:
		return own.against(s), own
	case open != nil && open.laterThan(s):
		return BehindInStore, open
	case own == nil && open != nil:
		return BehindInJournal, nil
	case own == nil:
		return MissingInJournal, nil
	case own.ended(s):
		return FinishedInJournal, own
	}
	return BehindInJournal, nil // it was replayed, or taken for replaced
}

// ended reports whether a message that may not be restored tells how the job of
// the store ended. That it was replaced is said of messages, too, whose
// registration reached the store only after that of the other.
func (e *entryRow) ended(s *store.Standing) bool {
	switch {
	case e.confirmed == unconfirmed: // it was withdrawn
		return false
	case e.confirmed == superseded && (e.followed || e.state == job.Cancelled):
		return e.followed
	}
	return e.version >= s.Version
}

// entriesOf looks up the messages of keys, in the order of keys: those of the
// registrations that the store has, and those that may be restored.
func (s *comparer) entriesOf(ctx context.Context, keys []job.Key, standings []store.Standing) (own, open []*entryRow, err error) {
	args := make([]any, 0, len(lookupColumns)*len(keys))
	for i := range keys {
		args = append(args, int64(i), keys[i].Topic, keys[i].ID, standings[i].UID)
	}
	own, open = make([]*entryRow, len(keys)), make([]*entryRow, len(keys))
	err = s.entries.each(args, func(stmt *sql.Stmt, args []any) error {
		rows, err := stmt.QueryContext(ctx, args...)
		if err != nil {
			return err
		}
		defer rows.Close() //nolint:errcheck // rows.Err tells
		for rows.Next() {
			var i int
			e := &entryRow{}
			if err := e.scan(rows.Scan, &i); err != nil {
				return err
			}
			if e.bad != nil {
				continue
			}
			if e.uid == standings[i].UID {
				own[i] = e
			}
			if e.open {
				open[i] = e
			}
		}
		return rows.Err()
	})
	for i := range keys {
		if e := own[i]; err == nil && e != nil && e.confirmed == superseded {
			e.followed, err = s.followed(ctx, keys[i], &standings[i])
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("look up messages: %w", unavailable(err))
	}
	return own, open, nil
}

func (s *comparer) followed(ctx context.Context, key job.Key, j *store.Standing) (bool, error) {
	var n int
	err := s.read.QueryRowContext(ctx, s.st.bind(sqlFollowed),
		key.Topic, key.ID, j.UID, int64(j.CreatedAt), int64(j.CreatedAt), j.UID).Scan(&n)
	return n > 0, err
}

// comparer reads a journal, to hold it against a store.
type comparer struct {
	read    *sql.DB
	st      *statements // of which the words of the server are used
	entries bulk
	inner   store.Store
}

func newComparer(ctx context.Context, read *sql.DB, d dialect, inner store.Store) (*comparer, error) {
	entries, err := prepareBulk(ctx, read, d.selected(sqlEntries, lookupColumns), len(lookupColumns))
	if err != nil {
		return nil, err
	}
	return &comparer{read: read, st: &statements{dialect: d}, entries: entries, inner: inner}, nil
}

func (s *comparer) close() error { return s.entries.close() }

// comparePage is how many jobs are compared at a time.
const comparePage = 1000

// openPage reads messages that may be restored, those that follow after (nil:
// the first).
func (s *comparer) openPage(ctx context.Context, topic string, after *entryRow) ([]*entryRow, error) {
	condition, args, order := s.st.walk(after)
	if topic != "" {
		condition += " AND m.topic = ?"
		args = append(args, topic)
	}
	rows, err := s.read.QueryContext(ctx, s.st.bind("SELECT "+entryColumns+" FROM message m WHERE m.done_at IS NULL"+
		condition+" ORDER BY "+order+" LIMIT ?"), append(args, comparePage)...)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", unavailable(err))
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	var page []*entryRow
	for rows.Next() {
		e := &entryRow{}
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

// finding is a difference, as it was seen once.
type finding struct {
	difference Difference
	key        job.Key
	entry      *entryRow // nil: the journal has nothing that matters
	standing   store.Standing
}

// same reports whether two looks at a job saw the same: nothing is under way.
func (f *finding) same(o *finding) bool {
	if f.difference != o.difference || f.standing != o.standing || (f.entry == nil) != (o.entry == nil) {
		return false
	}
	return f.entry == nil || f.entry.seq == o.entry.seq && f.entry.version == o.entry.version
}

// fromJournal compares a page of the journal with the store.
func (s *comparer) fromJournal(ctx context.Context, page []*entryRow) ([]finding, error) {
	if len(page) == 0 {
		return nil, nil
	}
	keys := make([]job.Key, len(page))
	for i, e := range page {
		keys[i] = e.key
	}
	standings, err := s.inner.Standings(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("look jobs up in the store: %w", err)
	}
	var found []finding
	for i, e := range page {
		if d := e.against(&standings[i]); d != DifferentNot {
			found = append(found, finding{d, e.key, e, standings[i]})
		}
	}
	return found, nil
}

// fromStore compares jobs that are unfinished in the store with the journal.
// Messages that may be restored are for fromJournal to compare.
func (s *comparer) fromStore(ctx context.Context, keys []job.Key, standings []store.Standing) ([]finding, error) {
	own, open, err := s.entriesOf(ctx, keys, standings)
	if err != nil {
		return nil, err
	}
	var found []finding
	for i := range keys {
		if open[i] != nil {
			continue
		}
		if d, e := judged(&standings[i], own[i], nil); d != DifferentNot {
			found = append(found, finding{d, keys[i], e, standings[i]})
		}
	}
	return found, nil
}

// again looks a second time at what was found. moving is how many jobs the store
// is to have from the journal, which has changed between the looks.
func (s *comparer) again(ctx context.Context, found []finding) (still []finding, moving int, err error) {
	keys, before := make([]job.Key, len(found)), make([]store.Standing, len(found))
	for i := range found {
		keys[i], before[i] = found[i].key, found[i].standing
	}
	own, open, err := s.entriesOf(ctx, keys, before)
	if err != nil {
		return nil, 0, err
	}
	// After the journal: what the store shows is at least as late.
	standings, err := s.inner.Standings(ctx, keys)
	if err != nil {
		return nil, 0, fmt.Errorf("look jobs up in the store: %w", err)
	}
	for i := range found {
		now := finding{key: keys[i], standing: standings[i]}
		switch {
		case standings[i].UID != before[i].UID: // it changed
		case open[i] != nil:
			now.difference, now.entry = open[i].against(&standings[i]), open[i]
		case standings[i].Exists() && (!standings[i].State.Final() || standings[i].State == job.Dead):
			now.difference, now.entry = judged(&standings[i], own[i], nil)
		}
		switch {
		case now.difference == DifferentNot:
		case now.same(&found[i]):
			still = append(still, now)
		case now.putsForward():
			moving++
		}
	}
	return still, moving, nil
}
