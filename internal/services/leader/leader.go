// Package leader elects one node at a time for all work of which a store needs one, by lease.
//
// The lease is a document of the store that names the leader. Each write of it is a
// heartbeat; without one for the time of the lease, any node may take over. Each node
// measures that time with its own clock, from when it first saw a version, so clocks
// need not agree. A leader that stood still may not know yet that another node took
// over: its work must be safe then, for example by writing only the versions of
// documents that it read.
package leader

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

const (
	// Kind is the kind of the document that is the lease.
	Kind = "leader"
	name = "elected"
	// Lease is how long a leader without heartbeats stays the leader.
	Lease     = 6 * time.Second
	beatEvery = 2 * time.Second
	// young is the age up to which a heartbeat needs no other one.
	young = Lease / 5
	// stuckAfter is how long a task may not ask whether this node still leads. One that hangs costs the node the lease, and
	// the node does not lead for the time of a lease, so that another one can.
	stuckAfter = time.Minute
	resignTime = time.Second
)

// Options of New. Store, Node and Clock are required.
type Options struct {
	Store store.Documents
	Node  string // unique to the process
	// Rank decides between nodes: one with a greater rank takes the lease from one with a smaller one.
	Rank   string
	Clock  job.Clock
	Logger *slog.Logger // nil: none
}

// Leader is a node's part in the election. A nil *Leader always leads: there are no other nodes. Its methods are safe for
// concurrent use.
type Leader struct {
	o    Options
	docs *documents.Collection[content]

	mu    sync.Mutex
	asked map[string]time.Time // tasks with work, and when they called Lead
	leads bool
	// mine is the lease as this node wrote it last, at the time wrote. Without a version it
	// does not lead.
	mine  documents.Document[content]
	wrote time.Time
	// seen is the version of the lease that was read last, since the time since.
	seen  uint64
	since time.Time
	rests time.Time // until then this node does not lead
}

// content is the content of the document.
type content struct {
	Node string `json:"node"` // empty: there is no leader
	Rank string `json:"rank,omitempty"`
}

// New returns a Leader.
func New(o Options) *Leader {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Leader{o: o, docs: documents.New(documents.Options[content]{Store: o.Store, Kind: Kind}), asked: map[string]time.Time{}}
}

// Lead reports whether this node leads, for a task that has work: it writes a heartbeat unless the last one is young, or
// takes over an expired lease. It takes half a lease at most. The error is the store's.
func (l *Leader) Lead(ctx context.Context, task string) (bool, error) {
	if l == nil {
		return true, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[task] = l.o.Clock.Now()
	return l.lead(ctx)
}

// Resign ends the work of a task. Without any, the lease ends, too, and another node takes over at once. It
// works for up to resignTime after the end of ctx.
func (l *Leader) Resign(ctx context.Context, task string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, has := l.asked[task]; !has {
		return
	}
	delete(l.asked, task)
	if len(l.asked) == 0 {
		l.resign(ctx)
	}
}

// Run keeps the lease until ctx ends while tasks have work, however seldom each of them asks.
func (l *Leader) Run(ctx context.Context) error {
	if l == nil {
		<-ctx.Done()
		return nil
	}
	for job.Sleep(ctx, l.o.Clock, beatEvery) == nil {
		l.keep(ctx)
	}
	return nil
}

func (l *Leader) keep(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mine.Version == 0 {
		return
	}
	for task, at := range l.asked {
		if l.o.Clock.Now().Sub(at) > stuckAfter {
			l.o.Logger.ErrorContext(ctx, "a task of the leader hangs; another node may take over", "task", task)
			delete(l.asked, task)
			l.rests = l.o.Clock.Now().Add(Lease)
			l.resign(ctx)
			return
		}
	}
	_, _ = l.lead(ctx) // the tasks report errors
}

// lead does what Lead does, and logs changes.
func (l *Leader) lead(ctx context.Context) (leads bool, err error) {
	defer func() {
		if leads != l.leads {
			l.o.Logger.InfoContext(ctx, "the leader changed", "leading", leads)
			l.leads = leads
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, Lease/2)
	defer cancel()
	now := l.o.Clock.Now()
	if now.Before(l.rests) {
		return false, nil
	}
	if l.mine.Version != 0 { // the write says whether it still leads
		if now.Sub(l.wrote) < young {
			return true, nil
		}
		err := l.docs.Put(ctx, &l.mine)
		if err == nil {
			l.wrote = now
			return true, nil
		}
		l.mine = documents.Document[content]{}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
	}
	d, err := l.read(ctx)
	if err != nil {
		return false, err
	}
	if d.Version != l.seen || l.since.IsZero() {
		l.seen, l.since = d.Version, now
	}
	// An unreadable document may be the lease of a newer version.
	free := d.Err == nil && (d.Value.Node == "" || d.Value.Node == l.o.Node || d.Value.Rank < l.o.Rank)
	if !free && now.Sub(l.since) < Lease {
		return false, nil
	}
	if d.Err != nil {
		d = documents.Document[content]{Head: documents.Head{Name: d.Name, Version: d.Version}}
	}
	d.Value = content{Node: l.o.Node, Rank: l.o.Rank}
	err = l.docs.Put(ctx, &d)
	if errors.Is(err, store.ErrConflict) {
		return false, nil // another node was faster
	}
	if err == nil {
		l.mine, l.wrote = d, now
	}
	return err == nil, err
}

func (l *Leader) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTime)
	defer cancel()
	l.mine = documents.Document[content]{}
	d, err := l.read(ctx)
	if err == nil && d.Err == nil && d.Value.Node == l.o.Node {
		d.Value.Node = ""
		_ = l.docs.Put(ctx, &d) // or the lease expires
	}
}

func (l *Leader) read(ctx context.Context) (documents.Document[content], error) {
	d, err := l.docs.Get(ctx, name)
	if d.Err != nil || errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return d, err
}
