package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/records"
)

// claim claims the chosen jobs. A row that is locked, or has changed, stays as it is: nothing here waits for rows.
func (t *taking) claim(ctx context.Context) error {
	var all, parked []*candidate
	for _, l := range t.lanes {
		for _, c := range slices.Concat(l.flies.jobs, l.waits.jobs) {
			switch {
			case c.chosen:
				all = append(all, c)
			case c.behind && c.state != job.Running && l.visited:
				parked = append(parked, c)
			}
		}
	}
	if len(all)+len(parked) == 0 {
		return nil
	}
	byKey := map[job.Key]*candidate{}
	for _, c := range all {
		c.until = t.now.Add(t.o.LeaseOf(c.timeout))
		byKey[c.key()] = c
	}
	sortCandidates(all)
	b := &pgx.Batch{}
	t.queueClaims(b, all, byKey)
	t.queueParking(b, parked)
	if err := t.send(ctx, b); err != nil {
		return err
	}
	slices.SortFunc(t.claims, func(a, b claimed) int { return a.nth - b.nth }) // higher priorities first
	for _, c := range all {
		if c.chosen = false; !c.gone { // its row is locked, or has changed
			c.locked = true
			t.room++
			t.bytes -= c.size
			t.count(c, -1)
			if t.shares != nil {
				t.shares.Took(c.lane.lane.Topic, -1)
			}
		}
	}
	return nil
}

func (c *candidate) key() job.Key { return job.Key{Topic: c.lane.lane.Topic, ID: c.id} }

func sortCandidates(all []*candidate) {
	slices.SortFunc(all, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.lane.lane.Topic, b.lane.lane.Topic), cmp.Compare(a.id, b.id))
	})
}

// queueClaims writes claims, and the heads of their order keys.
func (t *taking) queueClaims(b *pgx.Batch, all []*candidate, byKey map[job.Key]*candidate) {
	if len(all) == 0 {
		return
	}
	jobs, priors := make([]job.Job, len(all)), make([]int64, len(all))
	for i, c := range all {
		j := &jobs[i]
		j.State, j.Token, j.Version, j.CreatedAt, j.ExpiredLeases = c.state, c.token, c.version, c.created, c.expired
		_, prior := records.Claim(j, t.now)
		priors[i] = int64(prior)
	}
	q := b.Queue(t.s.sql(`UPDATE duehook.job j SET state = 3, bucket = 0, wake = c.until, token = c.token, version = c.version, updated_at = c.updated,
			expired_leases = c.expired, claim_at = $11, claim_by = $12, claim_from = c.was, claim_prior = c.prior
		FROM (
			SELECT j.ctid AS place, c.until, c.token, c.version, c.updated, c.expired, c.was, c.prior
			FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int4[], $9::int2[], $10::int8[], $13::tid[])
				AS c (topic, id, old, until, token, version, updated, expired, was, prior, place)
			JOIN duehook.job j ON j.ctid = c.place AND j.topic = c.topic AND j.id = c.id AND j.version = c.old
			FOR UPDATE OF j SKIP LOCKED
		) c WHERE j.ctid = c.place RETURNING `+claimColumns),
		column(all, func(c *candidate) string { return c.lane.lane.Topic }),
		column(all, func(c *candidate) string { return c.id }),
		column(all, func(c *candidate) int64 { return int64(c.version) }),
		column(all, func(c *candidate) int64 { return int64(c.until) }),
		column(jobs, func(j job.Job) int64 { return int64(j.Token) }),
		column(jobs, func(j job.Job) int64 { return int64(j.Version) }),
		column(jobs, func(j job.Job) int64 { return int64(j.UpdatedAt) }),
		column(jobs, func(j job.Job) int32 { return int32(j.ExpiredLeases) }),
		column(all, func(c *candidate) int16 { return int16(c.state) }),
		priors, int64(t.now), t.o.By, column(all, func(c *candidate) pgtype.TID { return c.place }))
	collect(q, func(row pgx.Rows) error {
		r, err := scan(row)
		if r == nil {
			return err
		}
		c := byKey[r.Key]
		c.gone = true
		if err != nil {
			t.s.log.Error("a job cannot be read", "job", r.Key.String(), "error", err)
			return nil
		}
		t.claims = append(t.claims, claimed{r, c.nth, store.Claimed{Now: t.now, From: r.claim.from, Earlier: r.claim.prior}})
		return nil
	})
	var orders []string
	for _, c := range all {
		if c.order != "" {
			orders = append(orders, c.order)
		}
	}
	if len(orders) > 0 {
		b.Queue(t.s.sql(`UPDATE duehook.order_head SET taken = true WHERE order_key = ANY($1) AND NOT taken`), orders)
	}
}

// queueParking parks jobs that another one of their order key has gone ahead of.
func (t *taking) queueParking(b *pgx.Batch, parked []*candidate) {
	if len(parked) == 0 {
		return
	}
	sortCandidates(parked)
	byKey := map[job.Key]*candidate{}
	for _, c := range parked {
		byKey[c.key()] = c
	}
	q := b.Queue(t.s.sql(`UPDATE duehook.job j SET bucket = 2 FROM (
			SELECT j.topic, j.id FROM unnest($1::text[], $2::text[], $3::int8[]) AS c (topic, id, version)
			JOIN duehook.job j ON j.topic = c.topic AND j.id = c.id AND j.version = c.version FOR UPDATE OF j SKIP LOCKED
		) c WHERE j.topic = c.topic AND j.id = c.id RETURNING j.topic, j.id`),
		column(parked, func(c *candidate) string { return c.lane.lane.Topic }),
		column(parked, func(c *candidate) string { return c.id }),
		column(parked, func(c *candidate) int64 { return int64(c.version) }))
	collect(q, func(row pgx.Rows) error {
		var key job.Key
		if err := row.Scan(&key.Topic, &key.ID); err != nil {
			return err
		}
		if c := byKey[key]; c != nil {
			c.gone = true
			c.lane.counts.parked++
			c.lane.topic.counts.parked++
		}
		return nil
	})
}

// committed finds out whether a take whose COMMIT had no answer is in the database.
func (t *taking) committed(ctx context.Context) bool {
	if len(t.claims) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveWait)
	defer cancel()
	found := map[string]bool{}
	err := t.s.again(ctx, func() error {
		clear(found)
		b := &pgx.Batch{}
		queueTimeouts(ctx, b, new(job.Instant))
		b.Queue(`SELECT pg_advisory_xact_lock($1)`, t.s.takeLock()) // the server may still be committing
		q := b.Queue(t.s.sql(`SELECT j.topic, j.id FROM unnest($1::text[], $2::text[], $3::int8[]) AS c (topic, id, token)
			JOIN duehook.job j ON j.topic = c.topic AND j.id = c.id AND j.token = c.token
			WHERE j.state = 3 AND j.claim_at = $4 AND j.claim_by = $5`),
			column(t.claims, func(c claimed) string { return c.record.Topic }), column(t.claims, func(c claimed) string { return c.record.ID }),
			column(t.claims, func(c claimed) int64 { return int64(c.record.Token) }), int64(t.now), t.o.By)
		collect(q, func(row pgx.Rows) error {
			var key job.Key
			err := row.Scan(&key.Topic, &key.ID)
			found[key.String()] = true
			return err
		})
		return t.s.explain(t.s.pool.SendBatch(ctx, b).Close())
	})
	if err != nil || len(found) == 0 {
		return false
	}
	t.claims = slices.DeleteFunc(t.claims, func(c claimed) bool { return !found[c.record.Key.String()] })
	return true
}

const resolveWait = 5 * time.Second
