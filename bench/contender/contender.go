// Package contender runs the contenders: duehook, the limit, and other queues,
// each as a process of its own that delivers to one receiver.
package contender

import (
	"context"
	"fmt"
	"time"

	"github.com/duehook/duehook/bench/receiver"
	"github.com/duehook/duehook/bench/system"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// Job is a callback to be registered.
type Job struct {
	Topic string // only duehook has them
	ID    string
	URL   string
	Due   time.Time
	Body  []byte
	// Callback is the URL that hears of the delivery, if it is not empty. Only duehook
	// has that.
	Callback string
	// OrderKey is the order key, if it is not empty. Only duehook has that.
	OrderKey string
}

// Load is many jobs of one kind.
type Load struct {
	// First is the number of the first job, Jobs how many there are.
	First, Jobs int
	URL         string
	// Due is when job n is due, Topic its topic.
	Due   func(n int) time.Time
	Topic func(n int) string
	// Callback is the callback of job n; nil: no job has one.
	Callback func(n int) string
	// OrderKey is the order key of job n; nil: no job has one.
	OrderKey func(n int) string
	// Fast allows a way that does not answer for each job.
	Fast bool
}

// BodySize is the size of all bodies, in bytes.
const BodySize = 300

// Job makes the nth of the load.
func (l *Load) Job(n int) Job {
	n += l.First
	due := l.Due(n)
	j := Job{Topic: l.Topic(n), ID: id(n), URL: l.URL, Due: due, Body: receiver.Body(n, due, BodySize)}
	if l.Callback != nil {
		j.Callback = l.Callback(n)
	}
	if l.OrderKey != nil {
		j.OrderKey = l.OrderKey(n)
	}
	return j
}

// id is as long and as random to look at as a UUID.
func id(n int) string {
	const odd = 0x9E3779B97F4A7C15 // spreads numbers over all of 64 bits, without repeating one
	h := uint64(n) * odd
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", h>>32, h>>16&0xffff, h>>4&0xfff, h&0xfff, n)
}

// Batches calls do for the jobs in batches of size.
func (l *Load) Batches(size int, do func([]Job) error) error {
	for from := 0; from < l.Jobs; from += size {
		batch := make([]Job, 0, size)
		for n := from; n < min(from+size, l.Jobs); n++ {
			batch = append(batch, l.Job(n))
		}
		if err := do(batch); err != nil {
			return err
		}
	}
	return nil
}

// Contender is one queue with its store, in a fresh state. It is used by one
// goroutine, but for Register.
type Contender interface {
	// Load registers jobs while nothing delivers, in whichever way is fast.
	Load(ctx context.Context, l *Load) error
	// Start starts delivering.
	Start(ctx context.Context) error
	// Register registers one job, as a client would, after Start.
	Register(ctx context.Context, j Job) error
	// Cost is what its processes and its store's have used since they began.
	Cost() (Cost, error)
	// Close ends everything.
	Close() error
}

// Served is a Contender whose server counts what it is asked.
type Served interface {
	// Served is how many transactions the server has ended.
	Served(ctx context.Context) (float64, error)
}

// Cost is processor time.
type Cost struct{ Processes, Store time.Duration }

// Sub is what c has beyond before.
func (c Cost) Sub(before Cost) Cost {
	return Cost{c.Processes - before.Processes, c.Store - before.Store}
}

// Setup is what contenders are made from.
type Setup struct {
	Binary      string // of duehook
	Dir         string // for files of the contenders
	Persistence string // of Redis: what appendfsync takes, or none
	Workers     int    // requests at a time
	Nodes       int    // how many processes deliver; 0: one
	CertFile    string // of a certificate to trust
	// Again is after how long a failed delivery is tried again; 0 leaves that to
	// the contender.
	Again    time.Duration
	Flags    []string  // of duehook serve, besides
	Postgres *Postgres // needed by River and duehook on PostgreSQL
}

// The names of contenders.
const (
	Duehook  = "duehook"
	Embedded = "duehook-embedded"
	OnSQL    = "duehook-postgres"
	Limit    = "limit"
	Asynq    = "asynq"
	River    = "river"
)

// Title is how documents call a contender.
func Title(name string) string {
	switch name {
	case Duehook:
		return "duehook on Redis"
	case Embedded:
		return "duehook embedded"
	case OnSQL:
		return "duehook on PostgreSQL"
	case Limit:
		return "the limit"
	case River:
		return "River"
	}
	return name
}

// Own reports whether a contender is duehook.
func Own(name string) bool { return name == Duehook || name == Embedded || name == OnSQL }

// New makes the contender of that name.
func New(ctx context.Context, name string, s *Setup) (Contender, error) {
	switch name {
	case Duehook:
		return newOnRedis(ctx, s)
	case Embedded:
		return newEmbedded(s)
	case OnSQL:
		return newOnPostgres(ctx, s)
	case Limit:
		return newLimit(ctx, s)
	case Asynq:
		return newAsynq(ctx, s)
	case River:
		return newRiver(ctx, s)
	}
	return nil, fmt.Errorf("there is no contender %q", name)
}

// costOf adds up processes.
func costOf(processes []*system.Process) (time.Duration, error) {
	var sum time.Duration
	for _, p := range processes {
		d, err := testenv.CPUTime(p.PID())
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}
