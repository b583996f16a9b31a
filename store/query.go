package store

import (
	"errors"
	"slices"
	"strings"

	"github.com/duehook/duehook/job"
)

// Query selects jobs; empty fields select all.
type Query struct {
	Topic    string
	States   []job.State // any of them
	BizKey   string
	Endpoint string
	Reason   string      // why the job ended
	Labels   []job.Label // all of them
	Priority int         `json:",omitempty"` // its number
	// DueFrom and DueTo (exclusive) are about when the next attempt is due, or
	// of an ended job, when the first one was.
	DueFrom, DueTo job.Instant
	// CreatedFrom and CreatedTo (exclusive) are about when the job was registered.
	CreatedFrom, CreatedTo job.Instant `json:",omitempty"`
	IDPrefix               string      `json:",omitempty"` // with what the id begins
	// UID selects one job at most, by its uid, which was made by BindUID.
	UID string `json:",omitempty"`

	// Order is that of the jobs; empty for the order that costs least. It needs a topic
	// and one state.
	Order Order `json:",omitempty"`

	Limit  int    // 1..1000
	Cursor string // from the page before, or empty
}

// Matches reports whether the query selects the job.
func (q *Query) Matches(j *job.Job) bool {
	return (q.Topic == "" || q.Topic == j.Topic) && strings.HasPrefix(j.ID, q.IDPrefix) && (q.UID == "" || q.UID == j.UID) &&
		q.Wants(j.State) &&
		(q.BizKey == "" || q.BizKey == j.Spec.BizKey) &&
		(q.Reason == "" || q.Reason == j.Reason) &&
		(q.Endpoint == "" || q.Endpoint == j.Lane().Endpoint) &&
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

// Order is an order in which List gives the jobs of one topic and one state.
type Order string

// The orders. Due is Query.DueFrom's time; of jobs that wait it is the time at which
// they next need attention, so the end of their TTL if that comes first. Jobs of the
// same time are in the order of their ids. Orders with a - are the other way round.
const (
	OrderDue         Order = "due"
	OrderDueBack     Order = "-due"
	OrderCreated     Order = "created"
	OrderCreatedBack Order = "-created"
)

// Orders are all of them.
var Orders = []Order{OrderDue, OrderDueBack, OrderCreated, OrderCreatedBack}

// Errors of a listing in an order.
var (
	// ErrBadOrder: there is no such order, or not of what the query selects.
	ErrBadOrder = errors.New("an order is one of due, -due, created and -created, for jobs of one topic and one state")
	// ErrTooManyToSort: no index has the order, and a page would take too much work.
	ErrTooManyToSort = errors.New("too many jobs to sort for a page")
)

// Times are what listings sort jobs by. They are zero for a job that is gone.
type Times struct {
	Created job.Instant
	Due     job.Instant // see Query.DueFrom
}

// TimesOf are the times of a job.
func TimesOf(j *job.Job) Times {
	if j.State.Final() {
		return Times{j.CreatedAt, j.DueAt}
	}
	return Times{j.CreatedAt, j.NextAt}
}
