// Package inbox registers the jobs that applications write into tables of their own databases.
//
// A row of the table duehook_inbox is a registration, which commits with the transaction of the application. One elected
// node reads a table at a time. A round reads the first rows, registers their jobs and deletes the rows. A row that cannot
// become a job now, or never, is set aside in the table, so that later rounds do not meet it.
//
// No step is atomic with another one: a node may stop between them, or stand still while another node takes over. The
// uid of a job is made of the inbox's name and the row's key, so a store that has the job knows the row again.
package inbox

import (
	"cmp"
	"context"
	_ "embed" // the tables
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/internal/services/leader"
	"github.com/duehook/duehook/store"
)

// The statements that make the table.
var (
	//go:embed postgres.sql
	PostgresTable string
	//go:embed mysql.sql
	MySQLTable string
)

// Inbox is the table of one database.
type Inbox struct {
	Name string
	URL  string // postgres://… or mysql://…
	// Topics are those that the rows may use; empty: all.
	Topics job.TopicSet
}

// Registration is what a row asks for: a job, or the jobs of a fan-out.
type Registration struct {
	Job app.Prepared
	Fan *app.FanOut // nil: a job
}

// key is that of the job; a fan-out has its own id.
func (r *Registration) key() job.Key {
	if r.Fan != nil {
		return job.Key{Topic: r.Fan.Topic, ID: r.Fan.ID}
	}
	return r.Job.Key()
}

// Jobs registers jobs. An *app.App does.
type Jobs interface {
	Register(ctx context.Context, jobs ...app.Prepared) ([]store.Registered, error)
	RegisterGroup(ctx context.Context, f *app.FanOut) ([]store.Registered, error)
	Refuse(n int, invalid bool)
}

// Options of New. Jobs, Prepare, Explain and MaxRequest are required.
type Options struct {
	Inboxes []Inbox
	Jobs    Jobs
	// Prepare checks the request of a row. A job without an id gets the id.
	Prepare func(ctx context.Context, request []byte, id string, from app.Origin) (Registration, error)
	// Explain says what an error means for the one who wrote the request, and whether it is that one's fault.
	Explain func(err error) (text string, fault bool)
	// MaxRequest bounds a request, in bytes.
	MaxRequest int64
	// Poll is the longest pause between looks at an idle inbox; zero: DefaultPoll.
	Poll time.Duration
	// FromNow has delays count from the registration, because the store has a clock of its own.
	FromNow bool
	// Free is closed while rows may be read; nil: always.
	Free    func() <-chan struct{}
	Leader  *leader.Leader // nil: there are no other nodes
	Logger  *slog.Logger   // nil: none
	Metrics prometheus.Registerer

	// For tests: an error of step stops a reader before the step; pause replaces shortPause, and stuck stuckAfter.
	step         func(inbox, name string) error
	pause, stuck time.Duration
}

// DefaultPoll is the default of Options.Poll.
const DefaultPoll = time.Second

// MaxInboxes bounds the inboxes of a node.
const MaxInboxes = 16

// Manager reads inboxes. Its methods are safe for concurrent use.
type Manager struct {
	o       Options
	readers map[string]*reader
	metrics *metrics
}

// Errors of calls for an inbox.
var (
	// ErrNotFound: there is no inbox of this name.
	ErrNotFound = errors.New("inbox not found")
	// ErrUnavailable: its database does not answer as it should. Wraps the cause.
	ErrUnavailable = errors.New("the inbox is unavailable")
)

// New returns a Manager. It connects to nothing yet.
func New(o Options) (*Manager, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Poll, o.pause, o.stuck = cmp.Or(o.Poll, DefaultPoll), cmp.Or(o.pause, shortPause), cmp.Or(o.stuck, stuckAfter)
	m := &Manager{o: o, readers: map[string]*reader{}, metrics: newMetrics()}
	for _, in := range o.Inboxes {
		t, err := open(in.URL, o.MaxRequest)
		if err != nil {
			return nil, fmt.Errorf("inbox %s: %w", in.Name, err)
		}
		m.readers[in.Name] = newReader(m, in, t)
	}
	return m, metered.Register(o.Metrics, "inboxes", m.metrics.rows, m.metrics.failed, m.metrics.reading)
}

// Run reads until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	var readers errgroup.Group
	for _, r := range m.readers {
		readers.Go(func() error { return r.run(ctx) })
	}
	<-ctx.Done()
	return readers.Wait()
}

type metrics struct {
	rows            *prometheus.CounterVec
	failed, reading *prometheus.GaugeVec
}

// The outcomes of rows.
const (
	outcomeRegistered = "registered"
	outcomeRepeated   = "repeated"
	outcomeFailed     = "failed"
	outcomeWaits      = "waits"
)

func newMetrics() *metrics {
	return &metrics{
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duehook_inbox_rows_total",
			Help: "Rows of inboxes that this node has handled, by outcome. A row may wait for more than one name.",
		}, []string{"inbox", "outcome"}),
		failed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "duehook_inbox_failed_rows",
			Help: "Rows of an inbox that are no job and stay with their error, as the node that reads it counts them; at most 10,000.",
		}, []string{"inbox"}),
		reading: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "duehook_inbox_reading",
			Help: "1 on the node that reads the inbox, if its database answers; 0 on the others.",
		}, []string{"inbox"}),
	}
}
