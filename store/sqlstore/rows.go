package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// rows are the records and order keys that a transaction has read with locks, and changes.
type rows struct {
	jobs  map[job.Key]*record  // nil: there is no row
	bad   map[job.Key]error    // rows that cannot be read
	heads map[string]*head     // by order key
	moved map[job.Key]bool     // jobs that became parked, or no longer are
	logs  map[job.Key][]string // that are written whole
}

// lock reads rows of jobs, in order, and locks them. Keys that were read before are left out.
func (t *txn) lock(b *pgx.Batch, columns string, keys []job.Key) {
	if t.rows.jobs == nil {
		t.rows.jobs = map[job.Key]*record{}
	}
	topics, ids := make([]string, 0, len(keys)), make([]string, 0, len(keys))
	for _, key := range keys {
		if _, known := t.rows.jobs[key]; !known {
			t.rows.jobs[key] = nil
			topics, ids = append(topics, key.Topic), append(ids, key.ID)
		}
	}
	if len(topics) == 0 {
		return
	}
	q := b.Queue(t.s.sql(`SELECT `+columns+` FROM duehook.job j JOIN unnest($1::text[], $2::text[]) k (topic, id) ON j.topic = k.topic AND j.id = k.id
		ORDER BY j.topic, j.id FOR UPDATE OF j`), topics, ids)
	collect(q, func(row pgx.Rows) error {
		r, err := scan(row)
		switch {
		case r == nil:
			return err
		case err == nil && r.spec != nil:
			err = r.locate()
		}
		t.rows.jobs[r.Key], r.stored = r, true
		if err != nil {
			if t.rows.bad == nil {
				t.rows.bad = map[job.Key]error{}
			}
			t.rows.bad[r.Key] = err
		}
		if r.spec != nil && err == nil {
			r.note()
		}
		return nil
	})
}

// readable returns the record of a key that was read, nil if there is none or it cannot be read.
func (t *txn) readable(key job.Key) *record {
	if _, bad := t.rows.bad[key]; bad {
		return nil
	}
	return t.rows.jobs[key]
}

// hold keeps a record among those of the transaction.
func (t *txn) hold(r *record) {
	if t.rows.jobs == nil {
		t.rows.jobs = map[job.Key]*record{}
	}
	t.rows.jobs[r.Key] = r
}

// add adds a new record, in the place of an older one.
func (t *txn) add(r *record) {
	if old := t.rows.jobs[r.Key]; old != nil { // the row gives way
		r.was, r.stored = old.was, old.stored
	}
	r.fresh = true
	t.hold(r)
}

// column is the values of a column.
func column[R, T any](all []R, value func(R) T) []T {
	list := make([]T, len(all))
	for i, r := range all {
		list[i] = value(r)
	}
	return list
}

// orNull is NULL for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// jobColumn is a column of the table job, with its type, and its values in records.
type jobColumn struct {
	name, is string
	cells
}

// cells are the values of a column: of all records, as a parameter, and of one.
type cells struct {
	values func(all []*record) any
	value  func(r *record) any
}

// columnSet is some columns.
type columnSet []jobColumn

// of makes the values of a column from the records.
func of[T any](value func(*record) T) cells {
	return cells{func(all []*record) any { return column(all, value) }, func(r *record) any { return value(r) }}
}

var (
	keyColumns = columnSet{
		{"topic", "text", of(func(r *record) string { return r.Topic })},
		{"id", "text", of(func(r *record) string { return r.ID })},
	}
	progressColumns = columnSet{
		{"state", "int2", of(func(r *record) int16 { return int16(r.State) })},
		{"bucket", "int2", of(func(r *record) *int16 {
			if b, in := r.bucket(); in {
				return &b
			}
			return nil
		})},
		{"wake", "int8", of(func(r *record) int64 { return int64(r.wake()) })},
		{"next_at", "int8", of(func(r *record) int64 { return int64(r.NextAt) })},
		{"updated_at", "int8", of(func(r *record) int64 { return int64(r.UpdatedAt) })},
		{"due_at", "int8", of(func(r *record) int64 { return int64(r.DueAt) })},
		{"expires_at", "int8", of(func(r *record) int64 { return int64(r.ExpiresAt) })},
		{"ended_at", "int8", of(func(r *record) int64 { return int64(r.EndedAt) })},
		{"token", "int8", of(func(r *record) int64 { return int64(r.Token) })},
		{"version", "int8", of(func(r *record) int64 { return int64(r.Version) })},
		{"counted", "int8", of(func(r *record) int64 { return r.Counted })},
		{"attempts", "int4", of(func(r *record) int32 { return int32(r.Attempts) })},
		{"snoozes", "int4", of(func(r *record) int32 { return int32(r.Snoozes) })},
		{"expired_leases", "int4", of(func(r *record) int32 { return int32(r.ExpiredLeases) })},
		{"count_keys", "int4", of(func(r *record) int32 { return int32(r.countKeys) })},
		{"cancel_requested", "bool", of(func(r *record) bool { return r.CancelRequested })},
		{"fired", "bool", of(func(r *record) bool { return r.Fired })},
		{"reason", "text", of(func(r *record) string { return r.Reason })},
		{"dead_group", "text", of(func(r *record) *string { return orNull(r.standing().group) })},
		{"settled_by", "int8", of(func(r *record) int64 { return int64(r.settledBy) })},
		{"settled", "bytea", of(func(r *record) []byte {
			if r.settledBy == 0 {
				return nil
			}
			return encodeSettled(&r.settled)
		})},
	}
	contentColumns = columnSet{
		{"uid", "text", of(func(r *record) string { return r.UID })},
		{"lane", "uuid", of(func(r *record) laneID { return r.laneID })},
		{"created_at", "int8", of(func(r *record) int64 { return int64(r.CreatedAt) })},
		{"timeout", "int8", of(func(r *record) int64 { return int64(r.timeout) })},
		{"keeps_end", "bool", of(func(r *record) bool { return r.keepsEnd })},
		{"order_key", "text", of(func(r *record) *string { return orNull(r.order) })},
		{"biz_key", "text", of(func(r *record) *string { return orNull(r.names.BizKey) })},
		{"group_id", "text", of(func(r *record) *string { return orNull(r.names.GroupID) })},
		{"spec", "bytea", of(func(r *record) []byte { return r.spec })},
	}
)

// values are the values of the columns, the parameters of a statement.
func (c columnSet) values(all []*record) []any {
	list := make([]any, len(c))
	for i := range c {
		list[i] = c[i].values(all)
	}
	return list
}

// row are the values of the columns of one record.
func (c columnSet) row(r *record) []any {
	list := make([]any, len(c))
	for i := range c {
		list[i] = c[i].value(r)
	}
	return list
}

// only is the columns of these names.
func (c columnSet) only(names ...string) columnSet {
	return slices.DeleteFunc(slices.Clone(c), func(one jobColumn) bool { return !slices.Contains(names, one.name) })
}

// names are the names of the columns, joined.
func (c columnSet) names() string {
	all := make([]string, len(c))
	for i := range c {
		all[i] = c[i].name
	}
	return strings.Join(all, ", ")
}

// unnest is the table whose columns are the first parameters of a statement.
func (c columnSet) unnest() string {
	all := make([]string, len(c))
	for i := range c {
		all[i] = "$" + strconv.Itoa(i+1) + "::" + c[i].is + "[]"
	}
	return "unnest(" + strings.Join(all, ", ") + ") u (" + c.names() + ")"
}

// updated are the columns with those of the parameters of update beside.
func (c columnSet) updated() columnSet {
	return slices.Concat(keyColumns, c, columnSet{{"attempt", "text", of(attemptOf)}})
}

// update is the statement that writes the columns of rows, and appends an attempt to their logs. Its parameters are the values of
// updated.
func (c columnSet) update() string {
	set := make([]string, len(c))
	for i := range c {
		set[i] = c[i].name + " = u." + c[i].name
	}
	return `UPDATE duehook.job j SET ` + strings.Join(set, ", ") + `, log = CASE WHEN u.attempt IS NULL THEN j.log ELSE j.log || u.attempt END FROM ` +
		c.updated().unnest() + ` WHERE j.topic = u.topic AND j.id = u.id`
}

var (
	insertColumns  = slices.Concat(keyColumns, progressColumns, contentColumns)
	insertText     = insertOf(insertColumns)
	freshColumns   = slices.Concat(keyColumns, progressColumns.only("state", "bucket", "wake", "next_at", "updated_at", "due_at", "expires_at", "version"), contentColumns)
	freeText       = insertOf(freshColumns)
	insertFreeText = freeText + ` ON CONFLICT (topic, id) DO NOTHING RETURNING topic, id`
	progressText   = progressColumns.update()
	allColumns     = slices.Concat(progressColumns, contentColumns)
	contentText    = allColumns.update()
)

// insertOf is the statement that inserts rows with these columns.
func insertOf(c columnSet) string {
	return `INSERT INTO duehook.job (` + c.names() + `) SELECT u.* FROM ` + c.unnest()
}

// attemptOf is what an update appends to the log: one attempt. Several are in the log that is written whole.
func attemptOf(r *record) *string {
	if len(r.append) == 1 {
		return &r.append[0]
	}
	return nil
}

// prepare reads what writing the rows needs.
func (t *txn) prepare(ctx context.Context) error {
	if err := t.park(ctx); err != nil {
		return err
	}
	if err := t.shorten(ctx); err != nil {
		return err
	}
	followers := slices.DeleteFunc(t.followers, func(r *record) bool { return t.rows.jobs[r.Key] != nil })
	sortRecords(followers)
	followers = slices.CompactFunc(followers, func(a, b *record) bool { return a.Key == b.Key })
	if len(followers) == 0 {
		return nil
	}
	_, err := t.insertNew(ctx, followers)
	return err
}

// write writes the rows that have changed, and counts them in the deltas.
func (t *txn) write(b *pgx.Batch) {
	var deleted, free, inserted, progress, content, settled, settledGone []*record
	for _, r := range t.rows.jobs {
		if r == nil || !r.touched() {
			continue
		}
		t.countRecord(r)
		if r.stored && !r.claimed && (r.gone || r.fresh) {
			deleted = append(deleted, r)
		}
		switch {
		case r.gone && r.claimed:
			settledGone = append(settledGone, r)
		case r.claimed:
			settled = append(settled, r)
		case r.gone:
		case r.free:
			free = append(free, r)
		case r.fresh:
			inserted = append(inserted, r)
		case r.content:
			content = append(content, r)
		case r.changed:
			progress = append(progress, r)
		}
	}
	for _, all := range [][]*record{deleted, free, inserted, progress, content, settled, settledGone} {
		sortRecords(all)
	}
	if len(free) >= minCopied {
		t.copied = free
	} else if len(free) > 0 {
		b.Queue(t.s.sql(freeText), freshColumns.values(free)...)
	}
	if len(settled) > 0 {
		b.Queue(t.s.sql(asClaimedText), append(asClaimedColumns.updated().values(settled), len(settled))...)
	}
	if len(settledGone) > 0 {
		b.Queue(t.s.sql(goneText), append(settledColumns.values(settledGone), len(settledGone))...)
	}
	t.writeDeleted(b, deleted)
	if len(inserted) > 0 {
		b.Queue(t.s.sql(insertText), insertColumns.values(inserted)...)
	}
	if len(progress) > 0 {
		b.Queue(t.s.sql(progressText), progressColumns.updated().values(progress)...)
	}
	if len(content) > 0 {
		b.Queue(t.s.sql(contentText), allColumns.updated().values(content)...)
	}
	t.writeLogs(b)
	t.writeTurns(b)
}

// minCopied is how many new rows are worth a round trip of their own, in which they are copied: the server inserts them page by page, while
// the next ones are encoded.
const minCopied = 100

// copyFree copies new rows.
func (t *txn) copyFree(ctx context.Context) error {
	if len(t.copied) == 0 {
		return nil
	}
	_, err := t.conn.CopyFrom(ctx, pgx.Identifier{t.s.schema, "job"}, strings.Split(freshColumns.names(), ", "),
		pgx.CopyFromSlice(len(t.copied), func(i int) ([]any, error) { return freshColumns.row(t.copied[i]), nil }))
	return t.s.explain(err)
}

func (t *txn) writeDeleted(b *pgx.Batch, deleted []*record) {
	if len(deleted) == 0 {
		return
	}
	b.Queue(t.s.sql(`DELETE FROM duehook.job j USING unnest($1::text[], $2::text[]) k (topic, id) WHERE j.topic = k.topic AND j.id = k.id`), keyColumns.values(deleted)...)
	var uids []string
	for _, r := range deleted {
		if r.was != nil && r.was.keys > 0 {
			uids = append(uids, r.was.uid)
		}
	}
	if len(uids) > 0 {
		b.Queue(t.s.sql(`DELETE FROM duehook.counted WHERE uid = ANY($1)`), uids)
	}
}

// writeLogs writes logs that are not only appended to.
func (t *txn) writeLogs(b *pgx.Batch) {
	for key, log := range t.rows.logs {
		b.Queue(t.s.sql(`UPDATE duehook.job SET log = $3 WHERE topic = $1 AND id = $2`), key.Topic, key.ID, log)
	}
}

// countRecord adds the change of a record to the deltas.
func (t *txn) countRecord(r *record) {
	if r.was != nil {
		t.countStanding(r.was, -1)
	}
	if r.gone {
		return
	}
	is := r.standing()
	t.countStanding(&is, 1)
	if r.was != nil && is == *r.was {
		return
	}
	switch bucket, in := r.bucket(); {
	case in && bucket == bucketDue:
		t.deltas.lane(r.lane).wakeAt(r.wake())
	case in && bucket == bucketFlight:
		t.deltas.lane(r.lane).leaseAt(r.wake())
	}
}

func (t *txn) countStanding(s *standing, n int) {
	d := t.deltas.lane(s.lane)
	d.states[s.state] += n
	if s.parked {
		d.parked += n
	}
	if s.group != "" {
		t.deltas.group(s.group, n)
	}
}

// shorten reads the logs that may exceed their bounds when attempts are appended, and makes the new ones.
func (t *txn) shorten(ctx context.Context) error {
	b := &pgx.Batch{}
	for key, r := range t.rows.jobs {
		if r == nil || len(r.append) == 0 || r.gone || len(r.append) == 1 && !r.fresh && r.logged < store.MaxLog && r.logBytes+len(r.append[0]) <= store.MaxLogBytes {
			continue
		}
		b.Queue(t.s.sql(`SELECT log FROM duehook.job WHERE topic = $1 AND id = $2`), key.Topic, key.ID).QueryRow(func(row pgx.Row) error {
			var log []string
			if err := row.Scan(&log); err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			return t.keepLog(r, append(log, r.append...))
		})
	}
	if b.Len() == 0 {
		return nil
	}
	return t.send(ctx, b)
}

func (t *txn) keepLog(r *record, texts []string) error {
	log, err := decodeLog(texts)
	if err != nil { // somebody wrote into it: it begins anew
		log = nil
		for _, text := range r.append {
			a, err := decodeAttempt(text)
			if err != nil {
				return err
			}
			log = append(log, a)
		}
		texts = r.append
	}
	kept := store.KeptLog(log, store.MaxLogBytes)
	if t.rows.logs == nil {
		t.rows.logs = map[job.Key][]string{}
	}
	t.rows.logs[r.Key], r.append = texts[len(texts)-len(kept):], nil
	return nil
}

// sortedKeys are keys in the order of locks, each once.
func sortedKeys(keys []job.Key) []job.Key {
	slices.SortFunc(keys, compareKeys)
	return slices.Compact(keys)
}

func sortRecords(all []*record) {
	slices.SortFunc(all, func(a, b *record) int { return compareKeys(a.Key, b.Key) })
}

func compareKeys(a, b job.Key) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID, b.ID))
}
