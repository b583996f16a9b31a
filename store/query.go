package store

import (
	"errors"
	"slices"
	"strings"

	"github.com/duehook/duehook/internal/job"
)

// Query selects jobs. Empty fields select all.
type Query struct {
	Topic    string
	States   []job.State // any of them
	BizKey   string
	Endpoint string
	Reason   string      // why the job ended
	Labels   []job.Label // all of them
	Priority int         `json:",omitempty"` // 1 to 9
	// DueFrom and DueTo (exclusive) bound when the next attempt is due, or the end of the TTL if that
	// is earlier; of an ended job, when the first attempt was due.
	DueFrom, DueTo job.Instant
	// CreatedFrom and CreatedTo (exclusive) bound when the job was registered.
	CreatedFrom, CreatedTo job.Instant `json:",omitempty"`
	IDPrefix               string      `json:",omitempty"` // of the id
	Schedule               string      `json:",omitempty"` // that made the job
	GroupID                string      `json:",omitempty"` // of the job: see job.Job.GroupID
	OrderKey               string      `json:",omitempty"` // in any topic, unless Topic says which
	Dialect                string      `json:",omitempty"` // of the API that registered the job
	IndexedID              string      `json:",omitempty"` // in any topic, see job.Dialect.Indexed
	// UID selects at most one job. BindUID made the uid.
	UID string `json:",omitempty"`

	// Only restricts the query to topics; empty: all.
	Only job.TopicSet `json:",omitempty"`

	// Order needs a topic and one state. Empty: the order that costs least.
	Order Order `json:",omitempty"`

	Limit  int    // 1..1000
	Cursor string // from the page before, or empty
}

// Matches reports whether the query selects the job.
func (q *Query) Matches(j *job.Job) bool {
	return (q.Topic == "" || q.Topic == j.Topic) && q.Only.Has(j.Topic) && strings.HasPrefix(j.ID, q.IDPrefix) && (q.UID == "" || q.UID == j.UID) &&
		q.Wants(j.State) &&
		(q.BizKey == "" || q.BizKey == j.Spec.BizKey) &&
		(q.OrderKey == "" || q.OrderKey == j.Spec.OrderKey) &&
		(q.Reason == "" || q.Reason == j.Reason) &&
		(q.Endpoint == "" || q.Endpoint == j.Lane().Endpoint) &&
		(q.Schedule == "" || j.Spec.Occurrence != nil && j.Spec.Occurrence.Schedule == q.Schedule) &&
		(q.GroupID == "" || q.GroupID == j.GroupID()) &&
		(q.IndexedID == "" || job.IDIndex(q.IndexedID) == j.Indexes().GroupID) &&
		(q.Dialect == "" || q.Dialect == j.Spec.DialectName()) &&
		(q.Priority == 0 || q.Priority == j.Spec.Priority.Number()) &&
		j.Spec.HasLabels(q.Labels) && q.Within(TimesOf(j))
}

// Wants reports whether the query selects jobs of the state.
func (q *Query) Wants(s job.State) bool { return len(q.States) == 0 || slices.Contains(q.States, s) }

// Within reports whether the query selects jobs of these times.
func (q *Query) Within(t Times) bool {
	return t.Due >= q.DueFrom && (q.DueTo == 0 || t.Due < q.DueTo) &&
		t.Created >= q.CreatedFrom && (q.CreatedTo == 0 || t.Created < q.CreatedTo)
}

// Order is an order of the jobs of one state.
type Order string

// The orders. "due" sorts by the time of Query.DueFrom. Jobs of the same time are sorted
// by topic/id. An order with a "-" is reversed.
const (
	OrderDue         Order = "due"
	OrderDueBack     Order = "-due"
	OrderCreated     Order = "created"
	OrderCreatedBack Order = "-created"
)

// Orders are all orders.
var Orders = []Order{OrderDue, OrderDueBack, OrderCreated, OrderCreatedBack}

// Errors of a listing in an order.
var (
	// ErrBadOrder: the order is unknown, or the query does not allow it.
	ErrBadOrder = errors.New("an order is one of due, -due, created and -created, for jobs of one state")
	// ErrTooManyToSort: no index has the order, and sorting would take too much work.
	ErrTooManyToSort = errors.New("too many jobs to sort for a page")
)

// Times are the times by which listings sort jobs. They are zero for a missing job.
type Times struct {
	Created job.Instant
	Due     job.Instant // see Query.DueFrom
}

// TimesOf are the times of a job.
func TimesOf(j *job.Job) Times {
	if j.State.Final() {
		return Times{j.CreatedAt, j.DueAt}
	}
	return Times{j.CreatedAt, j.WakeAt()}
}
