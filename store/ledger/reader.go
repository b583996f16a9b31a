package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
)

// reader reads a ledger.
type reader struct {
	pools   *pools
	clock   job.Clock
	lookups bulk // words.lookup
	// registering looks up for registrations. One query at a time serves all of them: claims wait
	// half a second for a connection at most.
	registering *batch.Batcher[*lookup]
}

// lookup looks up the messages of keys: those of the store's jobs, and the last ones.
type lookup struct {
	keys      []job.Key
	standings []store.Standing
	found     [][]*entry // in the order of keys
	err       error
}

// openReader opens an existing ledger for reading.
func openReader(ctx context.Context, url, namespace string) (*reader, error) {
	p, err := openPools(ctx, url)
	if err != nil {
		return nil, err
	}
	r := &reader{pools: p, clock: job.SystemClock()}
	if err = checkVersion(ctx, p); err == nil {
		err = checkNamespace(ctx, p, cmp.Or(namespace, DefaultNamespace))
	}
	if err == nil {
		err = r.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *reader) prepare(ctx context.Context) (err error) {
	r.lookups, err = prepareBulk(ctx, r.pools.read, r.pools.lookup())
	r.registering = batch.New(batch.Options[*lookup]{
		Workers: 1, MaxCount: entryPage, Cost: func(l *lookup) (count, bytes int) { return len(l.keys), 0 },
	}, r.answer)
	return err
}

// answer answers lookups with one query.
func (r *reader) answer(ctx context.Context, all []*lookup) {
	var args []any
	var into []*[]*entry
	for _, l := range all {
		l.found = make([][]*entry, len(l.keys))
		for i, key := range l.keys {
			args = append(args, int64(len(into)), key.Topic, key.ID, l.standings[i].UID)
			into = append(into, &l.found[i])
		}
	}
	found, err := r.lookups.find(ctx, nil, args)
	for i := range into {
		*into[i] = found[i]
	}
	for _, l := range all {
		if err != nil {
			l.err = fmt.Errorf("look up messages: %w", unavailable(err))
		}
	}
}

// entries looks up messages, in the order of keys: those of the store's jobs, and the last ones of the keys.
func (r *reader) entries(ctx context.Context, keys []job.Key, standings []store.Standing) ([][]*entry, error) {
	l := &lookup{keys: keys, standings: standings}
	r.answer(ctx, []*lookup{l})
	return l.found, l.err
}

// entriesFirst is entries before a call changes the jobs. It does not wait for a server that hangs, not
// even behind other calls.
func (r *reader) entriesFirst(ctx context.Context, keys []job.Key, standings []store.Standing) ([][]*entry, error) {
	l := &lookup{keys: keys, standings: standings}
	ctx, cancel := context.WithTimeout(ctx, silenceLimit)
	defer cancel()
	if err := r.registering.Do(ctx, l); err != nil {
		return nil, fmt.Errorf("look up messages: %w", unavailable(err))
	}
	return l.found, l.err
}

func (r *reader) close() error { return r.pools.close() }

// entry is a message without the client's content.
type entry struct {
	seq      int64
	key      job.Key
	place    // with the uid
	created  job.Instant
	state    job.State
	version  uint64
	token    uint64
	wakeAt   job.Instant // when an unfinished job needs attention
	replaced bool        // it is not the last registration of its key
	open     bool        // it may be restored
	done     job.Instant // from when its age counts, or zero
	bad      error       // why it cannot be read; then only the names are valid
}

const (
	// What entry.scan reads.
	entryColumns = `m.seq, m.topic, m.id, m.uid, m.created, m.status, m.version, m.token, m.next_at, m.expires,
		m.place, m.replaced, CASE WHEN m.done_at IS NULL THEN 1 ELSE 0 END, coalesce(m.done_at, 0)`
)

// lookup finds messages of keys: that of the uid, and the last one. v.i is the index of the key.
func (w *words) lookup() shape {
	return w.about("SELECT v.i, "+entryColumns+" FROM {rows} "+w.messages+` ON m.topic = v.topic AND m.id = v.id
		WHERE m.uid = v.uid OR m.replaced = 0`, lookupColumns)
}

func (e *entry) scan(scan func(...any) error, first ...any) error {
	var next, expires job.Instant
	var state, version, token int64
	err := scan(append(first, &e.seq, &e.key.Topic, &e.key.ID, &e.uid, &e.created, &state, &version, &token,
		&next, &expires, &e.at, &e.replaced, &e.open, &e.done)...)
	if e.bad = checkRow(state, version, token); e.bad == nil {
		e.state, e.version, e.token = job.State(state), uint64(version), uint64(token)
	}
	j := job.Job{NextAt: next, ExpiresAt: expires}
	e.wakeAt = j.WakeAt()
	return err
}

// readable is e, or nil if it cannot be read.
func readable(e *entry) *entry {
	if e != nil && e.bad != nil {
		return nil
	}
	return e
}

// find looks up messages for lookupColumns, in a transaction unless tx is nil, by the
// first column.
func (b *bulk) find(ctx context.Context, tx *sql.Tx, args []any) (map[int][]*entry, error) {
	found := map[int][]*entry{}
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
			e := &entry{}
			if err := e.scan(rows.Scan, &i); err != nil {
				return err
			}
			found[i] = append(found[i], e)
		}
		return rows.Err()
	})
	return found, err
}

// pickOwn returns the message of uid. Without a uid it returns the last one.
func pickOwn(list []*entry, uid string) (own *entry) {
	for _, e := range list {
		if e.uid == uid || uid == "" && !e.replaced {
			own = e
		}
	}
	return own
}

// entryPage is how many messages OpenEntries returns at most.
const entryPage = 1000

// openEntries reads the page of open messages behind an entry; nil: the first page. An
// empty topic means all.
func (r *reader) openEntries(ctx context.Context, topic string, after *entry) ([]*entry, error) {
	condition, args, order := r.pools.walk(after)
	if topic != "" {
		condition += " AND m.topic = ?"
		args = append(args, topic)
	}
	text := r.pools.bind("SELECT " + entryColumns + " FROM message m WHERE m.done_at IS NULL" + condition + " ORDER BY " + order + " LIMIT ?")
	var page []*entry
	err := each(ctx, r.pools.read, text, append(args, entryPage), func(rows *sql.Rows) error {
		e := &entry{}
		page = append(page, e)
		return e.scan(rows.Scan)
	})
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", unavailable(err))
	}
	return page, nil
}

// decodeAll notes which messages of a page cannot be read with what the client gave, and their attempts.
func (r *reader) decodeAll(ctx context.Context, page []*entry) error {
	bySeq := map[int64]*entry{}
	var seqs []int64
	for _, e := range page {
		if bySeq[e.seq] = e; e.bad == nil {
			seqs = append(seqs, e.seq)
		}
	}
	return r.messages(ctx, seqs, func(_ []stored, bad []*entry) error {
		for _, e := range bad {
			bySeq[e.seq].bad = e.bad
		}
		return nil
	})
}

// messages reads messages with their logs and passes them to work in parts, because
// bodies may be large.
func (r *reader) messages(ctx context.Context, seqs []int64, work func(messages []stored, bad []*entry) error) error {
	for len(seqs) > 0 {
		page := seqs[:min(len(seqs), readPage)]
		seqs = seqs[len(page):]
		sizes, err := r.sizes(ctx, page)
		if err != nil {
			return fmt.Errorf("read messages: %w", unavailable(err))
		}
		for len(page) > 0 {
			n := store.Batch(len(page), len(page), func(i int) int { return sizes[page[i]] })
			messages, bad, err := r.readMessages(ctx, page[:n])
			if err != nil {
				return fmt.Errorf("read messages: %w", unavailable(err))
			}
			if err := work(messages, bad); err != nil {
				return err
			}
			page = page[n:]
		}
	}
	return nil
}

// sizes are the sizes of messages with their bodies, by seq.
func (r *reader) sizes(ctx context.Context, seqs []int64) (map[int64]int, error) {
	sizes := make(map[int64]int, len(seqs))
	return sizes, each(ctx, r.pools.read, sqlSizes+in(seqs), nil, func(rows *sql.Rows) error {
		var seq int64
		var size int
		err := rows.Scan(&seq, &size)
		sizes[seq] = size
		return err
	})
}

func (r *reader) readMessages(ctx context.Context, seqs []int64) ([]stored, []*entry, error) {
	var page []stored
	err := each(ctx, r.pools.read, sqlStored+"WHERE m.seq"+in(seqs), nil, func(rows *sql.Rows) error {
		var m stored
		err := m.scan(rows)
		page = append(page, m)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return r.decode(ctx, page)
}

// readPage is how many messages are read at a time, fewer if they are large.
const readPage = 500

// stored is a message with its payload and log.
type stored struct {
	seq int64
	store.RestoredJob
	size int   // of its body and spec
	bad  error // why it cannot be read
}

// scan reads the columns of sqlStored.
func (m *stored) scan(rows *sql.Rows) error {
	j := &m.Job
	var state, token, version, cancel, counted int64
	var body, spec []byte
	err := rows.Scan(&m.seq, &j.Topic, &j.ID, &j.UID, &j.CreatedAt, &j.DueAt, &j.ExpiresAt, &state,
		&j.Attempts, &j.Snoozes, &j.ExpiredLeases, &token, &version, &cancel,
		&j.NextAt, &j.Reason, &j.EndedAt, &j.UpdatedAt, &counted, &body, &spec)
	if err != nil {
		return err
	}
	j.UpdatedAt = max(j.UpdatedAt, j.CreatedAt) // a job in the place of another is registered after it
	m.size = len(body) + len(spec)
	m.bad = checkRow(state, token, version, int64(j.Attempts), int64(j.Snoozes), int64(j.ExpiredLeases), counted)
	if m.bad == nil {
		j.State, j.Token, j.Version, j.CancelRequested = job.State(state), uint64(token), uint64(version), cancel != 0
		j.Counted, j.Fired = counted/2, counted%2 == 1
		m.bad = decodeSpec(&j.Spec, spec)
		j.Spec.Body = body
	}
	return nil
}

func decodeSpec(s *job.Spec, text []byte) error {
	if text == nil {
		return errPayload
	}
	if err := encoding.DecodeSpec(text, s); err != nil {
		return fmt.Errorf("decode its spec: %w", err)
	}
	return nil
}

// unreadable is the message of a job that cannot be read.
func (m *stored) unreadable(err error) *entry {
	return &entry{seq: m.seq, key: m.Job.Key, place: place{uid: m.Job.UID}, state: m.Job.State, bad: err}
}

// decode makes jobs of messages. A job that was running when the process died had no
// outcome: the attempt is not charged, but its lease counts as expired, so that a job that
// crashes its process ends. It leaves out unreadable jobs and attempts.
func (r *reader) decode(ctx context.Context, page []stored) (jobs []stored, bad []*entry, err error) {
	seqs, counted := make([]int64, len(page)), []int64(nil)
	for i := range page {
		seqs[i] = page[i].seq
		if page[i].Job.Spec.Count != nil {
			counted = append(counted, page[i].seq)
		}
	}
	logs, broken, err := readLogs(ctx, r.pools.read, seqs)
	if err != nil {
		return nil, nil, err
	}
	keys, err := readCountKeys(ctx, r.pools.read, counted)
	if err != nil {
		return nil, nil, err
	}
	now := job.InstantOf(r.clock.Now())
	for i := range page {
		m := &page[i]
		if m.bad != nil {
			bad = append(bad, m.unreadable(m.bad))
			continue
		}
		if err := broken[m.seq]; err != nil {
			bad = append(bad, m.unreadable(err))
		}
		if m.Job.State == job.Running {
			m.Job.ExpireLease(now)
		}
		m.Log = logs[m.seq]
		if n := len(m.Log); n > 0 {
			m.Job.LastAttempt = &m.Log[n-1]
		}
		m.CountKeys = keys[m.seq]
	}
	return slices.DeleteFunc(page, func(m stored) bool { return m.bad != nil }), bad, nil
}

// readLogs reads the attempt logs of messages. Attempts that cannot be read are
// left out; broken has the errors by message.
func readLogs(ctx context.Context, from querier, seqs []int64) (logs map[int64][]job.Attempt, broken map[int64]error, err error) {
	if len(seqs) == 0 {
		return nil, nil, nil
	}
	logs, broken = map[int64][]job.Attempt{}, map[int64]error{}
	err = each(ctx, from, sqlLogs(seqs), nil, func(rows *sql.Rows) error {
		var seq int64
		var text []byte
		if err := rows.Scan(&seq, &text); err != nil {
			return err
		}
		var a job.Attempt
		if err := encoding.DecodeAttempt(text, &a); err != nil {
			broken[seq] = fmt.Errorf("decode an attempt of it: %w", err)
		} else {
			logs[seq] = append(logs[seq], a)
		}
		return nil
	})
	for seq := range logs {
		// A missing one may have been written late.
		sort.SliceStable(logs[seq], func(i, j int) bool { return logs[seq][i].StartedAt < logs[seq][j].StartedAt })
	}
	return logs, broken, err
}
