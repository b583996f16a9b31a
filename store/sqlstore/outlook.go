package sqlstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/records"
	"github.com/duehook/duehook/store/rules"
)

// maxCounted is how many jobs an outlook counts. Figures beyond it are lower bounds.
const maxCounted = 250_000

// Outlook returns the facts that delay a job's next attempt.
func (s *Store) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	r, now, err := s.read(ctx, key)
	for range store.Tries(ctx) {
		if err != nil {
			return store.Outlook{Now: now, Shards: 1}, err
		}
		o := store.Outlook{Now: now, Shards: 1}
		if o.Job, err = r.job(); err != nil || r.State.Final() {
			return o, err
		}
		var current *record
		if current, err = s.surroundings(ctx, r, &o); err == nil && current.Version == r.Version && current.UID == r.UID {
			return o, nil
		}
		r, now = current, o.Now
	}
	return store.Outlook{Now: now, Shards: 1}, store.ErrConflict
}

// surroundings reads the facts around a job, and then the job again: if it is as it was, so were the facts.
func (s *Store) surroundings(ctx context.Context, r *record, o *store.Outlook) (current *record, err error) {
	var missing, unreadable error
	o.At = r.wake()
	if r.State == job.Running {
		o.Worker = r.claim.by
	}
	circuits := map[string]store.Circuit{}
	o.Now, err = s.ask(ctx, func(b *pgx.Batch) {
		s.askLook(b, r, o)
		s.askInFlight(b, r, o, circuits)
		s.askAhead(b, r, o)
		if r.order != "" {
			s.askHead(b, r, o, &unreadable)
		}
		s.askRecord(b, r.Key, &current, &missing)
	})
	if err == nil {
		err = errors.Join(missing, unreadable)
	}
	o.Circuit = rules.CircuitAt(circuits[r.lane.Endpoint], o.Now)
	return current, err
}

// askLook asks when the lane is looked at, and what limits it.
func (s *Store) askLook(b *pgx.Batch, r *record, o *store.Outlook) {
	column := "wake"
	if r.State == job.Running {
		column = "lease"
	}
	b.Queue(s.sql(`SELECT coalesce(least((SELECT `+column+` FROM duehook.lane WHERE lane = $1), (SELECT min(`+column+`) FROM duehook.delta WHERE lane = $1)), 0),
		coalesce((SELECT held FROM duehook.topic WHERE topic = $2), 0), coalesce((SELECT pace FROM duehook.topic WHERE topic = $2), 0),
		(SELECT limits FROM duehook.limits WHERE topic = $2), EXISTS (SELECT FROM duehook.lane WHERE name > $2 || '|' AND name < $2 || '|M' AND `+unfinished+` > 0)
			OR EXISTS (SELECT FROM duehook.lane WHERE name > $2 || '|N' AND name < $2 || '}' AND `+unfinished+` > 0)
			OR EXISTS (SELECT FROM duehook.delta WHERE lane IS NOT NULL AND `+topicOfDelta+` = $2 AND split_part(name, '|', 2) <> 'M' AND `+unfinished+` > 0)`),
		r.laneID, r.Topic).QueryRow(func(row pgx.Row) error {
		var held job.Instant
		var pace float64
		var limits *string
		if err := row.Scan(&o.Look, &held, &pace, &limits, &o.Ranked); err != nil {
			return err
		}
		if r.State != job.Running {
			o.Look = max(o.Look, held)
		}
		if o.Limits = limitsOf(limits); o.Limits.Rate > 0 {
			o.NextByRate = rules.PaceOf(o.Limits.Rate, 1, pace).NextAt(o.Now)
		}
		return nil
	})
}

// askInFlight asks for the jobs in flight, and the circuit.
func (s *Store) askInFlight(b *pgx.Batch, r *record, o *store.Outlook, circuits map[string]store.Circuit) {
	const sum = `(SELECT coalesce(sum(running), 0) FROM (SELECT running FROM duehook.`
	const deltas = ` UNION ALL SELECT running FROM duehook.delta WHERE lane IS NOT NULL AND `
	b.Queue(s.sql(`SELECT `+sum+`topic WHERE topic = $1`+deltas+topicOfDelta+` = $1) n)::int8,
		`+sum+`endpoint WHERE endpoint = $2`+deltas+endpointOfDelta+` = $2) n)::int8,
		`+sum+`lane WHERE endpoint = $2 AND name >= $1 || '|' AND name < $1 || '}'`+deltas+topicOfDelta+` = $1 AND `+endpointOfDelta+` = $2) n)::int8`),
		r.Topic, r.lane.Endpoint).QueryRow(func(row pgx.Row) error {
		var topic int64
		err := row.Scan(&topic, &o.EndpointInFlight, &o.LaneInFlight)
		if o.Limits != (store.Limits{}) {
			o.TopicInFlight = topic
		}
		return err
	})
	s.askCircuits(b, circuits, `endpoint = $1`, r.lane.Endpoint)
}

// askAhead asks for the number of jobs of the lane that go before a waiting one.
func (s *Store) askAhead(b *pgx.Batch, r *record, o *store.Outlook) {
	bucket, in := r.bucket()
	if !in || bucket == bucketFlight {
		return
	}
	b.Queue(s.sql(`SELECT count(*) FROM (
			(SELECT 1 FROM duehook.job WHERE lane = $1 AND bucket = 1 AND (wake, id) < ($2, $3 COLLATE "C") LIMIT $5)
			UNION ALL (SELECT 1 FROM duehook.job WHERE lane = $1 AND bucket = 2 AND $4 = 2 AND (wake, id) < ($2, $3 COLLATE "C") LIMIT $5)
		) n`), r.laneID, int64(r.wake()), r.ID, bucket, maxCounted).QueryRow(func(row pgx.Row) error { return row.Scan(&o.Ahead) })
}

// askHead asks for the job that goes before because of the order key.
func (s *Store) askHead(b *pgx.Batch, r *record, o *store.Outlook, unreadable *error) {
	*unreadable = nil
	collect(b.Queue(s.sql(`SELECT `+withContent+` FROM duehook.order_head h JOIN duehook.job j ON j.topic = $2 AND j.id = h.id
		WHERE h.order_key = $1 AND h.id <> $3`), r.order, r.Topic, r.ID), func(row pgx.Rows) error {
		head, err := scanJob(row)
		if err != nil && !errors.Is(err, store.ErrUnreadable) {
			return err
		}
		o.Head, *unreadable = head, err
		return nil
	})
	b.Queue(s.sql(`SELECT count(*) FROM (SELECT 1 FROM duehook.order_queue WHERE order_key = $1 AND turn < $2 LIMIT $3) n`),
		r.order, []byte(records.TurnOf(&r.Job)), maxCounted).QueryRow(func(row pgx.Row) error {
		var before int64
		err := row.Scan(&before)
		if o.Head != nil {
			o.Before = 1 + before
		}
		return err
	})
}
