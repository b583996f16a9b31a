package store

import "github.com/duehook/duehook/job"

// TopicStats counts the jobs that a topic holds now.
type TopicStats struct {
	Topic  string
	States map[job.State]int64 // missing means 0
	// DueIn counts unfinished jobs by DueRanges, in that order; overdue ones
	// and those being worked on are in the first. Nil in listings of topics.
	DueIn []int64
	// DuePartial is set when the topic has more than MaxLanes lanes: DueIn counts
	// the jobs of so many.
	DuePartial bool
}

// Unfinished is how many of the jobs have not ended.
func (t *TopicStats) Unfinished() (n int64) {
	for state, held := range t.States {
		if !state.Final() {
			n += held
		}
	}
	return n
}

// MaxLanes bounds how many lanes of a shard one call counts.
const MaxLanes = 10_000

// TopicQuery selects topics.
type TopicQuery struct {
	Part string // of the name, whatever its case; empty: all topics
	// Also are topics that are listed although they may hold no job.
	Also   []string
	Limit  int    // 1..1000
	Cursor string // from the page before, or empty
}

// TopicPage is one page of topics, by name; Next is empty on the last. A page may
// hold fewer topics than asked for, even none, and still have a next one: a page
// examines a bounded number of names.
type TopicPage struct {
	Topics []TopicStats
	Next   string
}

// BusyTopic is a topic with its unfinished jobs.
type BusyTopic struct {
	Topic      string
	Unfinished int64
}
