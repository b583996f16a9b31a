package node

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store/sqlstore"
)

// How often a PostgreSQL server is examined, and how long that may take.
const (
	watchEvery = 30 * time.Second
	watchLimit = 10 * time.Second
)

// serverWatch examines a PostgreSQL server for what harms the store from outside: for metrics, and the log. After a failed
// examination it shows nothing.
type serverWatch struct {
	facts func(context.Context) (sqlstore.Facts, error)
	log   *slog.Logger
	last  atomic.Pointer[sqlstore.Facts]
	known map[[2]string]bool // troubles that were logged
}

func (w *serverWatch) run(ctx context.Context, clock job.Clock) error {
	loops.NewOutage("examining PostgreSQL", clock, w.log, nil).Repeat(ctx, loops.Task{Every: watchEvery, Limit: watchLimit, Do: w.look})
	return nil
}

func (w *serverWatch) look(ctx context.Context) error {
	f, err := w.facts(ctx)
	if err != nil {
		w.last.Store(nil)
		return err
	}
	w.last.Store(&f)
	known := map[[2]string]bool{}
	for _, t := range f.Troubles() {
		id := [2]string{t.Code, t.About}
		if known[id] = true; !w.known[id] {
			w.log.WarnContext(ctx, "PostgreSQL is in trouble", "trouble", t.Code, "details", t.Message)
		}
	}
	w.known = known
	return nil
}

// troubles are the troubles with their causes, and whether they are known.
func (w *serverWatch) troubles() (all []string, known bool) {
	f := w.last.Load()
	if f == nil {
		return nil, false
	}
	for _, t := range f.Troubles() {
		all = append(all, t.Code+": "+t.About)
	}
	return all, true
}

var (
	troubleDesc = prometheus.NewDesc("duehook_postgres_trouble", "1 for what harms the store from outside, by kind, and by what causes it or suffers.", []string{"trouble", "about"}, nil)
	heldDesc    = prometheus.NewDesc("duehook_postgres_vacuum_held_seconds", "Age of the oldest transaction that keeps PostgreSQL from removing old versions of rows.", nil, nil)
	xidsDesc    = prometheus.NewDesc("duehook_postgres_vacuum_held_transactions", "Transactions since the oldest one whose old versions of rows PostgreSQL must keep.", nil, nil)
	deadDesc    = prometheus.NewDesc("duehook_postgres_dead_rows", "Old versions of rows that autovacuum has not removed.", []string{"table"}, nil)
	queueDesc   = prometheus.NewDesc("duehook_postgres_notification_queue_ratio", "Share of the queue of notifications that is in use.", nil, nil)
	connsDesc   = prometheus.NewDesc("duehook_postgres_connections_ratio", "Connections of all programs, as a share of max_connections.", nil, nil)
)

// Describe describes the metrics.
func (*serverWatch) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{troubleDesc, heldDesc, xidsDesc, deadDesc, queueDesc, connsDesc} {
		ch <- desc
	}
}

// Collect shows the last examination.
func (w *serverWatch) Collect(ch chan<- prometheus.Metric) {
	f := w.last.Load()
	if f == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	for _, t := range f.Troubles() {
		gauge(troubleDesc, 1, t.Code, t.About)
	}
	for table, n := range f.DeadRows {
		gauge(deadDesc, float64(n), table)
	}
	gauge(heldDesc, f.Held.Seconds())
	gauge(xidsDesc, float64(f.HeldXIDs))
	gauge(queueDesc, f.Notifications)
	gauge(connsDesc, float64(f.Connections)/float64(max(1, f.MaxConnections)))
}
