package store

import "github.com/duehook/duehook/internal/job"

// TopicStats counts the jobs of a topic.
type TopicStats struct {
	Topic  string
	States map[job.State]int64 // missing: 0
}

// Unfinished is the number of jobs that have not ended.
func (t *TopicStats) Unfinished() (n int64) {
	for state, held := range t.States {
		if !state.Final() {
			n += held
		}
	}
	return n
}

// MaxLanes bounds the lanes of a shard that one call counts.
const MaxLanes = 10_000

// TopicQuery selects topics.
type TopicQuery struct {
	Topic string       // this one only
	Part  string       // of the name, in any case; empty: all topics
	Only  job.TopicSet // restricts the query to topics; empty: all
	// Busiest sorts topics by their unfinished jobs, the most first; otherwise they are
	// sorted by name. It selects topics with unfinished jobs only, in one page of at most
	// 100, without a cursor. With more than 100 matching topics it may miss topics with few
	// waiting jobs, and swap topics of which one has less than twice as many as the other.
	Busiest bool
	// Also are topics to list even if they hold no job.
	Also   []string
	Limit  int    // 1..1000
	Cursor string // from the page before, or empty
}

// TopicPage is a page of topics. Next is empty on the last. A page may have fewer topics
// than the limit, even none, and a next page: it examines a bounded number of names.
type TopicPage struct {
	Topics []TopicStats
	Next   string
}
