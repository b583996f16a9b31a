package redisstore

import (
	"fmt"
	"slices"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store/listing"
)

// batch collects the arguments of a script for several jobs of a shard (lua/lib/batch.lua).
// Each key is listed once, and jobs refer to it by number.
type batch struct {
	sh      *shard
	ofLane  func(lane job.Lane, name string) []string
	lanes   map[job.Lane]int
	names   []any    // of the lanes
	keys    []string // of the lanes
	numbers map[string]int
	others  []string // pages and indexes
	jobs    []any
}

// newBatch makes a batch for a number of jobs with a number of arguments each. ofLane
// returns a lane's keys; nil: its bucket.
func (sh *shard) newBatch(jobs, args int, ofLane func(job.Lane, string) []string) *batch {
	if ofLane == nil {
		ofLane = func(_ job.Lane, name string) []string { return []string{sh.bucket(name)} }
	}
	return &batch{
		sh: sh, ofLane: ofLane, lanes: make(map[job.Lane]int), numbers: make(map[string]int, pages),
		jobs: make([]any, 0, jobs*(args+3)),
	}
}

// add adds a job with the script's own arguments.
func (b *batch) add(key job.Key, lane job.Lane, args ...any) {
	b.jobs = append(b.jobs, b.lane(lane), b.other(b.sh.page(key)), key.ID)
	b.jobs = append(b.jobs, args...)
}

// lane is the number of a lane.
func (b *batch) lane(lane job.Lane) int {
	n, known := b.lanes[lane]
	if !known {
		n = len(b.names) + 1
		name := lane.String()
		b.lanes[lane] = n
		b.names = append(b.names, name)
		b.keys = append(b.keys, b.ofLane(lane, name)...)
	}
	return n
}

// other is the number of a page or an index.
func (b *batch) other(name string) int {
	n, known := b.numbers[name]
	if !known {
		n = len(b.others) + 1
		b.numbers[name] = n
		b.others = append(b.others, name)
	}
	return n
}

// indexes are the numbers of the indexes by name that have a job, 0 for none.
func (b *batch) indexes(of job.Indexes) any {
	switch {
	case of.GroupID == "" && of.BizKey == "":
		return 0
	case of.GroupID == "":
		return b.other(b.sh.named(of.BizKey))
	}
	group := b.other(b.sh.named(listing.GroupIndex(of.GroupID)))
	if of.BizKey == "" {
		return group
	}
	return fmt.Sprint(group, b.other(b.sh.named(of.BizKey)))
}

// counted is the number of the HASH of a counted job, 0 without a uid.
func (b *batch) counted(uid string) int {
	if uid == "" {
		return 0
	}
	return b.other(b.sh.counted(uid))
}

// group is the number of a group of dead letters, 0 without one.
func (b *batch) group(name string) int {
	if name == "" {
		return 0
	}
	return b.other(b.sh.dead(name))
}

// call returns all keys and arguments of the script, its own first.
func (b *batch) call(keys []string, args ...any) ([]string, []any) {
	keys = slices.Concat(keys, b.keys, b.others)
	all := make([]any, 0, len(args)+1+len(b.names)+len(b.jobs))
	all = append(append(all, args...), len(b.names))
	return keys, append(append(all, b.names...), b.jobs...)
}
