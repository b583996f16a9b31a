package store

import (
	"cmp"
	"context"

	"github.com/duehook/duehook/internal/job"
)

// Reader reads one shard at a time: names, entries of indexes, records and figures. Package
// listing makes searches, pages and counts of the whole store from these calls. Each call is
// bounded by count and by bytes, and may see another moment of the store.
type Reader interface {
	Figuring
	// Get returns a job.
	Get(ctx context.Context, key job.Key) (job.Job, error)
	// Outlook returns what delays the job's next attempt, without Higher and Beside. Errors
	// are those of Get. With ErrNotFound, Outlook.Now is set.
	Outlook(ctx context.Context, key job.Key) (Outlook, error)
	// Names returns the first q.N names from q.From on, in order; fewer if there are no more.
	Names(ctx context.Context, q NameQuery) ([]string, error)
	// Entries returns entries of an index, by score and id; fewer than span.N if there are no
	// more. The call for an IndexUID examines a bounded part of the store: without the entry,
	// next is where to go on, as Span.After. Elsewhere next is nil.
	Entries(ctx context.Context, of Index, span Span) (entries []Entry, next *Position, err error)
	// Read reads the first of some jobs: one at least, and others as long as those before take
	// less than BatchBytes together.
	Read(ctx context.Context, q ReadQuery) (Records, error)
}

// Figuring is the part of a Reader that counts.
type Figuring interface {
	// Shards returns the number of independent parts. Each is carried and read on its own.
	Shards() int
	// Figures returns the figures that q asks for.
	Figures(ctx context.Context, q FigureQuery) (Figures, error)
}

// NameKind distinguishes the indexes of names.
type NameKind uint8

// The indexes of names.
const (
	TopicNames    NameKind = iota // topics that hold jobs
	BusyNames                     // up to N topics among which are those with the most unfinished jobs, or nearly so, in any order
	EndpointNames                 // endpoints with unfinished jobs
	LaneNames                     // lanes with unfinished jobs, of Topic and of Endpoint
	DueNames                      // up to N lanes that may have waiting jobs due before Before
	DeadNames                     // groups of dead letters, of Topic
	EndedNames                    // topics that may have ended jobs other than dead letters
)

// NameQuery selects names of a shard. Empty fields select all.
type NameQuery struct {
	Kind            NameKind
	Shard           int
	Topic, Endpoint string
	Before          job.Instant
	From            string // the first name that may be listed
	N               int
}

// IndexKind distinguishes the indexes of jobs. Listings show them in this order.
type IndexKind uint8

// The indexes of jobs.
const (
	IndexLane   IndexKind = iota // the bucket of a lane; Name is the lane
	IndexDead                    // a group of dead letters; Name is its name in package listing
	IndexEnded                   // a topic's other ended jobs; Name is the topic
	IndexNamed                   // the jobs of a biz_key, which is Name, or of a group id; see package listing
	IndexUID                     // the job with a uid, which is Name, wherever it is
	IndexVisits                  // the lanes by when carriers next visit them, which is the score; without a name
)

// Index is an ordered index of a shard.
type Index struct {
	Kind  IndexKind `json:"k"`
	Name  string    `json:"n"`
	Shard int       `json:"s,omitempty"`
}

// Position is the position of an entry in its index. The store defines the score, which
// must be finite.
type Position struct {
	Score float64 `json:"t"`
	ID    string  `json:"i"`
}

// Compare orders the positions of an index.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Score, o.Score), cmp.Compare(p.ID, o.ID))
}

// Entry is an entry of an index: the id of a job, or its whole key in an IndexNamed or
// IndexUID, and the state as far as the index knows it. In these two the state means nothing.
// In a lane, jobs that wait are in the order of when they need attention, behind those in
// flight.
type Entry struct {
	Position
	State job.State
	// Place is where the store has the record, for ReadQuery.Places. Empty: it looks for the key.
	Place string
}

// Span is a part of an index: the N entries after a position, or from the start when After is
// nil. With Back they are those before it, or from the end, the last one first. Lanes, dead letters and
// other ended jobs are read backwards.
type Span struct {
	After *Position
	N     int
	Back  bool
}

// ReadQuery names jobs to read.
type ReadQuery struct {
	// Shard has the jobs by an index of it. AnyShard: the store looks for the first job, and
	// the errors are those of Get.
	Shard int
	Keys  []job.Key
	// Places are those of the entries of the jobs; nil: unknown. A job may have left its place.
	Places []string
	Part   Part
}

// AnyShard leaves it to the store to find a job, or means all shards.
const AnyShard = -1

// Part is a part of a job's record.
type Part uint8

// The parts that Read reads.
const (
	WholeJob Part = iota // Records.Jobs
	JobHead              // Records.Jobs, without their bodies
	JobLog               // Records.Logs
)

// Records are the records of the first jobs of a query, or a part of them. A job that is gone
// or cannot be read has nil.
type Records struct {
	Jobs []*job.Job
	Logs [][]job.Attempt
}

// Attempts returns the log of the job's attempts, oldest first. It holds the last MaxLog
// attempts, or fewer if they take more than MaxLogBytes.
func Attempts(ctx context.Context, r Reader, key job.Key) ([]job.Attempt, error) {
	found, err := r.Read(ctx, ReadQuery{Shard: AnyShard, Keys: []job.Key{key}, Part: JobLog})
	if err != nil {
		return nil, err
	}
	return found.Logs[0], nil
}

// Now returns the store's time: that of its first shard.
func Now(ctx context.Context, r Figuring) (job.Instant, error) {
	f, err := r.Figures(ctx, FigureQuery{Now: true})
	return f.Now, err
}

// FigureQuery says what Figures returns of a shard.
type FigureQuery struct {
	Shard     int
	Now       bool        // the store's time
	Depth     bool        // Figures.Depth
	Circuits  bool        // those that are not closed, at At
	At        job.Instant // zero: now
	Limits    bool        // those of topics
	Topics    []string    // Figures.Topics has the counts of each
	Endpoints []string
	Groups    []string // of dead letters
	Lanes     []string // Figures.Lanes has the counts of each, as Due says
	Due       DueQuery
}

// DueQuery says which waiting jobs of lanes are counted: neither carried nor claimed ones.
type DueQuery struct {
	// Bounds ascend. Jobs are counted by when they need attention: from Bounds[0] to before
	// Bounds[1], and so on. EndOfTime is the last bound of all jobs.
	Bounds []job.Instant
	// Behind counts jobs that wait for another job of their order key, too, by when they are due.
	Behind bool
	// First asks for LaneFigures.First.
	First bool
	// Most bounds the entries that the call examines, in a store that must examine them.
	Most int
}

// EndOfTime is behind all times.
const EndOfTime = job.Instant(1) << 62

// Figures are figures of a shard.
type Figures struct {
	Now      job.Instant // if asked for, or needed for Circuits
	Depth    Depth
	Circuits map[string]Circuit // by endpoint
	Limits   map[string]Limits  // by topic; zero if they cannot be read
	// Topics and Endpoints count jobs by state; missing: 0. Endpoints have unfinished ones only.
	Topics, Endpoints []map[job.State]int64
	Groups            []DeadFigures
	Lanes             []LaneFigures
	Cost              int // about how many entries and lanes were examined
}

// DeadFigures are about a group of dead letters: how many there are, and when the first and the
// last one ended.
type DeadFigures struct {
	Count          int64
	Oldest, Newest job.Instant
}

// LaneFigures count waiting jobs of a lane.
type LaneFigures struct {
	Due []int64 // one for each range between two bounds
	// First is when the first of the jobs is due, if some were counted.
	First job.Instant
	// PartialFrom is zero if all were counted. Otherwise jobs due then or later may be missing.
	PartialFrom job.Instant
}
