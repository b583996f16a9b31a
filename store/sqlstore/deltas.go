package sqlstore

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
)

// laneID identifies a lane: the first bytes of the SHA-256 of its name.
type laneID = [16]byte

func laneIDOf(name string) laneID {
	sum := sha256.Sum256([]byte(name))
	return laneID(sum[:])
}

// deltas are what a transaction adds to the figures. It inserts them: a row of figures that all transactions change
// would have them wait for each other. Take folds them.
type deltas struct {
	lanes  map[job.Lane]*delta
	groups map[string]*delta // of dead letters
}

// delta is what a transaction adds to the figures of a lane, or of a group of dead letters.
type delta struct {
	name      string
	grouped   bool
	states    [8]int
	parked    int         // jobs behind others of their order key
	orderKeys int         // attributed to any lane
	wake      job.Instant // the earliest one of jobs that were written to bucket 1; 0: none
	lease     job.Instant // the same of bucket 0
}

// lane returns the delta of a lane.
func (d *deltas) lane(l job.Lane) *delta {
	if d.lanes == nil {
		d.lanes = map[job.Lane]*delta{}
	}
	if d.lanes[l] == nil {
		d.lanes[l] = &delta{name: l.String()}
	}
	return d.lanes[l]
}

// group counts dead letters of a group.
func (d *deltas) group(name string, n int) {
	if d.groups == nil {
		d.groups = map[string]*delta{}
	}
	if d.groups[name] == nil {
		d.groups[name] = &delta{name: name, grouped: true}
	}
	d.groups[name].states[job.Dead] += n
}

// wakeAt notes that the lane has a job that needs attention at a time.
func (d *delta) wakeAt(at job.Instant) { note(&d.wake, at) }

// leaseAt notes that the lane has a lease that ends at a time.
func (d *delta) leaseAt(at job.Instant) { note(&d.lease, at) }

// note keeps the earlier of two times. Zero is none.
func note(first *job.Instant, at job.Instant) {
	if *first == 0 || at != 0 && at < *first {
		*first = at
	}
}

// write queues the insertion.
func (d *deltas) write(t *txn, b *pgx.Batch) {
	var all []*delta
	for _, one := range d.lanes {
		if one.states != [8]int{} || one.parked != 0 || one.orderKeys != 0 || one.wake != 0 || one.lease != 0 {
			all = append(all, one)
		}
	}
	for _, one := range d.groups {
		if one.states[job.Dead] != 0 {
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b *delta) int { return cmp.Compare(a.name, b.name) })
	lanes, names := make([]*laneID, len(all)), make([]string, len(all))
	wakes, leases := make([]int64, len(all)), make([]int64, len(all))
	var states [8][]int32
	for state := range states {
		states[state] = make([]int32, len(all))
	}
	parked, keys := make([]int32, len(all)), make([]int32, len(all))
	for i, one := range all {
		names[i], parked[i], keys[i] = one.name, int32(one.parked), int32(one.orderKeys)
		wakes[i], leases[i] = int64(one.wake), int64(one.lease)
		if !one.grouped {
			id := laneIDOf(one.name)
			lanes[i] = &id
		}
		for state, n := range one.states {
			states[state][i] = int32(n)
		}
	}
	b.Queue(t.s.sql(`INSERT INTO duehook.delta (lane, name, waiting, retrying, running, delivered, dead, cancelled, expired, parked, order_keys, wake, lease)
		SELECT lane, name, waiting, retrying, running, delivered, dead, cancelled, expired, parked, order_keys, nullif(wake, 0), nullif(lease, 0)
		FROM unnest($1::uuid[], $2::text[], $3::int[], $4::int[], $5::int[], $6::int[], $7::int[], $8::int[], $9::int[], $10::int[], $11::int[], $12::bigint[], $13::bigint[])
		AS d (lane, name, waiting, retrying, running, delivered, dead, cancelled, expired, parked, order_keys, wake, lease)`),
		lanes, names, states[job.Waiting], states[job.Retrying], states[job.Running], states[job.Delivered],
		states[job.Dead], states[job.Cancelled], states[job.Expired], parked, keys, wakes, leases)
}
