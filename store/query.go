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

	// Order needs States that it sorts. Empty: the order that costs least.
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
		j.Spec.HasLabels(q.Labels) && q.within(j)
}

// Wants reports whether the query selects jobs of the state.
func (q *Query) Wants(s job.State) bool { return len(q.States) == 0 || slices.Contains(q.States, s) }

// within reports whether the query selects jobs of these times.
func (q *Query) within(j *job.Job) bool {
	due := DueOfJob(j)
	return due >= q.DueFrom && (q.DueTo == 0 || due < q.DueTo) &&
		j.CreatedAt >= q.CreatedFrom && (q.CreatedTo == 0 || j.CreatedAt < q.CreatedTo)
}

// DueOfJob is the time that Query.DueFrom bounds.
func DueOfJob(j *job.Job) job.Instant {
	if j.State.Final() {
		return j.DueAt
	}
	return j.WakeAt()
}

// Order is an order that an index has. With a "-" it is descending.
type Order string

// The orders. OrderDue and OrderDueBack sort jobs that are waiting or retrying, by the time of
// Query.DueFrom; OrderEndedBack sorts ended jobs by when they ended. Jobs of one time and one state
// are in the order of topic/id. All states of the query must be ones that the order sorts.
const (
	OrderDue       Order = "due"
	OrderDueBack   Order = "-due"
	OrderEndedBack Order = "-ended"
)

// Orders are all orders.
var Orders = []Order{OrderDue, OrderDueBack, OrderEndedBack}

// Sorts reports whether the order sorts jobs of a state.
func (o Order) Sorts(s job.State) bool {
	switch o {
	case OrderDue, OrderDueBack:
		return s == job.Waiting || s == job.Retrying
	case OrderEndedBack:
		return s.Final()
	}
	return false
}

// Errors of a listing in an order.
var (
	// ErrBadOrder: the order is unknown, or the query does not allow it.
	ErrBadOrder = errors.New("an order is due or -due of jobs that are waiting or retrying, or -ended of ended jobs")
	// ErrTooManyToSort: the jobs are in too many indexes to merge for a page.
	ErrTooManyToSort = errors.New("too many lanes, groups of dead letters or topics to sort for a page")
)
