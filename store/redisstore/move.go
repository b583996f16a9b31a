package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// walkCount is how many fields of a page are read at once, roughly: some are bodies.
const walkCount = 10

// movedAtOnce bounds the jobs that are moved at once.
const movedAtOnce = 100

// reportEvery is the interval of progress reports.
const reportEvery = 5 * time.Second

// moveJobs moves all jobs, in passes until one finds none, and counts them.
func (m *mover) moveJobs(ctx context.Context) (err error) {
	for found := -1; found != 0; {
		before := m.report.Moved
		found, m.report.Unreadable, m.spoiled = 0, 0, map[string]bool{}
		for _, sh := range m.from.shards {
			for _, page := range sh.jobs {
				n, err := m.movePage(ctx, sh, page)
				if err != nil {
					return err
				}
				found += n
			}
		}
		if found > 0 && m.report.Moved == before {
			return fmt.Errorf("%d jobs are left in their old shards", found)
		}
	}
	m.report.After, err = census(ctx, m.to, m.from)
	return err
}

// movePage moves the jobs of a page of an old shard, and returns how many it found.
func (m *mover) movePage(ctx context.Context, sh *shard, page string) (found int, err error) {
	var keys []job.Key
	move := func(least int) error {
		for len(keys) > least {
			raws, _, err := m.from.readRaw(ctx, sh, keys[:min(len(keys), movedAtOnce)], store.BatchBytes, wholeRecords)
			if err != nil {
				return err
			}
			records := m.readable(sh, keys, raws)
			if err := m.move(ctx, sh, records); err != nil {
				return err
			}
			found, keys = found+len(records), keys[len(raws):]
		}
		return nil
	}
	scan := func(cursor uint64) *redis.ScanCmd { return m.from.db.HScan(ctx, page, cursor, "", walkCount) }
	err = m.from.eachPage(scan, func(fields []string) error {
		for i := 0; i < len(fields); i += 2 {
			if key, ok := registeredAs(fields[i]); ok && !slices.Contains(keys, key) { // a scan may find a field twice
				keys = append(keys, key)
			}
		}
		return move(movedAtOnce)
	})
	if err == nil {
		err = move(0)
	}
	return found, err
}

// readable decodes the records to move, and counts those that cannot be read: they stay. A walk
// may meet a job again that was moved. reserve writes the necessary forwards.
func (m *mover) readable(sh *shard, keys []job.Key, raws []raw) (records []*record) {
	for i, w := range raws {
		r, err := decodeRecord(keys[i], w)
		switch led := (*forwardedError)(nil); {
		case w.missing(), errors.As(err, &led):
		case err != nil:
			m.report.Unreadable++
			m.spoiled[sh.prefix] = true
		default:
			records = append(records, r)
		}
	}
	return records
}

// move moves jobs of an old shard.
func (m *mover) move(ctx context.Context, sh *shard, records []*record) error {
	if len(records) == 0 {
		return nil
	}
	jobs, changes := make([]copied, len(records)), make([]change, len(records))
	for i, r := range records {
		log, err := r.attempts()
		if err != nil {
			m.o.Logger.Error("a job's log cannot be read", "error", err)
		}
		aside, err := m.from.Aside(ctx, &r.Job)
		if err != nil {
			return err
		}
		jobs[i] = copied{record: r, log: log, countKeys: aside.CountKeys, stops: aside.Stops}
		changes[i] = change{key: r.Key, was: r.stored, from: r.position()}.forgetting()
	}
	if err := m.to.copy(ctx, jobs); err != nil {
		return err
	}
	if err := m.check(ctx, records); err != nil {
		return err
	}
	done, err := m.from.change(ctx, m.from.run, changeScript, sh, false, changes)
	for _, w := range done {
		if w == stored {
			m.report.Moved++
		}
	}
	if now := job.SystemClock().Now(); m.o.Report != nil && now.Sub(m.told) >= reportEvery {
		m.told = now
		m.o.Report(m.report)
	}
	return err
}

// check checks that the new shards have jobs, and waits until replicas have them, too, if
// MinReplicas is set. An earlier run may have been broken off before it removed the old ones.
func (m *mover) check(ctx context.Context, records []*record) error {
	where := func(i int) int { return m.to.shardFor(records[i].Key, records[i].Spec.OrderKey) }
	return m.to.toShards(ctx, len(records), where, func(ctx context.Context, sh *shard, items []int) ([]int, error) {
		keys := make([]job.Key, min(len(items), maxRead))
		for n := range keys {
			keys[n] = records[items[n]].Key
		}
		there, err := m.to.someRecords(ctx, sh, keys)
		if err != nil {
			return nil, err
		}
		for n, is := range there {
			r := records[items[n]]
			if is == nil {
				return nil, fmt.Errorf("%s: its new shard does not have it", r.Key)
			}
			if is.UID != r.UID || is.Version != r.Version {
				return nil, fmt.Errorf("%s: its new shard has another job (%s v%d, and %s v%d in the old one)", r.Key, is.UID, is.Version, r.UID, r.Version)
			}
		}
		_, err = m.to.commit(ctx, sh, markScript, []string{sh.mark}, nil)
		return items[len(there):], err
	})
}

// census counts the jobs of stores.
func census(ctx context.Context, stores ...*Store) (c Census, err error) {
	for _, s := range stores {
		d, err := listing.Depth(ctx, s)
		if err != nil {
			return c, err
		}
		for state, n := range d.States {
			c.add(state, n)
		}
	}
	return c, nil
}
