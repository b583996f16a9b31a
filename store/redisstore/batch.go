package redisstore

import "github.com/duehook/duehook/job"

// batch is what a script is told of several jobs of a shard, in the words of
// lua/lib/batch.lua: keys are named once, and referred to by number.
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

// newBatch makes a batch for so many jobs with so many arguments each. ofLane
// gives the keys that the script needs of a lane; nil: its bucket.
func (sh *shard) newBatch(jobs, args int, ofLane func(job.Lane, string) []string) *batch {
	if ofLane == nil {
		ofLane = func(_ job.Lane, name string) []string { return []string{sh.bucket(name)} }
	}
	return &batch{
		sh: sh, ofLane: ofLane, lanes: make(map[job.Lane]int), numbers: make(map[string]int, pages),
		jobs: make([]any, 0, jobs*(args+3)),
	}
}

// add adds a job with what the script is to know of it.
func (b *batch) add(key job.Key, lane job.Lane, args ...any) {
	n, known := b.lanes[lane]
	if !known {
		n = len(b.names) + 1
		name := lane.String()
		b.lanes[lane] = n
		b.names = append(b.names, name)
		b.keys = append(b.keys, b.ofLane(lane, name)...)
	}
	b.jobs = append(b.jobs, n, b.other(b.sh.page(key)), key.ID)
	b.jobs = append(b.jobs, args...)
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

// index is the number of a biz_key's index, 0 without one.
func (b *batch) index(bizKey string) int {
	if bizKey == "" {
		return 0
	}
	return b.other(b.sh.biz(bizKey))
}

// call is what to call the script with, behind its own keys and arguments.
func (b *batch) call(keys []string, args ...any) ([]string, []any) {
	keys = append(append(keys, b.keys...), b.others...)
	all := make([]any, 0, len(args)+1+len(b.names)+len(b.jobs))
	all = append(append(all, args...), len(b.names))
	return keys, append(append(all, b.names...), b.jobs...)
}
