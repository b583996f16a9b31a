// Package nodes lists the nodes that share a store.
//
// Each node writes a document every 30 seconds, and deletes it when it stops. A node that died
// or cannot reach the store stays in the list for an hour, as silent. The embedded store has one
// node, which writes nothing. The list is for people: nothing relies on it.
package nodes

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Kind is the kind of the documents of nodes.
const Kind = "node"

const (
	beatEvery = 30 * time.Second
	// silentAfter is the age of the last heartbeat of a silent node: it missed two.
	silentAfter = 3 * beatEvery
	keptFor     = time.Hour
	maxNodes    = 1000
	tidyEvery   = 20 // heartbeats
	// The quickest of a few looks at the store's clock counts, or the first quick one.
	looks     = 3
	quick     = 10 * time.Millisecond
	stopLimit = 2 * time.Second
)

// Facts describe a node.
type Facts struct {
	ID      string `json:"id"`
	Host    string `json:"host"`
	Version string `json:"version"`
	Store   string `json:"store"` // embedded, redis or postgres
}

// Node is a node, by its last heartbeat.
type Node struct {
	Facts
	Started job.Instant `json:"started"`
	Seen    job.Instant `json:"seen"`
	// Ahead is how far the node's clock is ahead of the store's, up to the time that the store
	// takes to answer.
	Ahead time.Duration `json:"ahead"`
	// Silent: the last heartbeat is too old.
	Silent bool `json:"-"`
}

// Options of New. Store is required.
type Options struct {
	Facts
	Store interface {
		store.Figuring
		store.Documents
	}
	Alone  bool         // there are no other nodes
	Clock  job.Clock    // nil: the machine's
	Logger *slog.Logger // nil: none
}

// Registry lists nodes. Its methods are safe for concurrent use.
type Registry struct {
	o       Options
	docs    *documents.Exchange[Node]
	started time.Time
}

// New returns a Registry, which announces this node while Run does.
func New(o Options) *Registry {
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	e := documents.ExchangeOptions[Node]{
		Documents: o.Store, Kind: Kind, Name: o.ID, Latest: func(n *Node) job.Instant { return n.Seen },
		Kept: keptFor, Max: maxNodes, Logger: o.Logger,
	}
	if o.Alone {
		e.Documents = nil
	}
	return &Registry{o: o, docs: documents.NewExchange(e), started: o.Clock.Now()}
}

// own describes this node now.
func (r *Registry) own(ctx context.Context) (own Node, err error) {
	quickest := time.Duration(math.MaxInt64)
	for range looks {
		before := r.o.Clock.Now()
		now, err := store.Now(ctx, r.o.Store)
		if err != nil {
			return Node{}, err
		}
		after := r.o.Clock.Now()
		took := after.Sub(before)
		if took < quickest {
			quickest = took
			own = Node{Facts: r.o.Facts, Started: now.Add(r.started.Sub(after)), Seen: now, Ahead: job.InstantOf(before.Add(took / 2)).Sub(now)}
		}
		if took <= quick {
			break
		}
	}
	return own, nil
}

// List returns the nodes, in no order.
func (r *Registry) List(ctx context.Context) ([]Node, error) {
	own, err := r.own(ctx)
	if err != nil {
		return nil, err
	}
	all := []Node{own}
	err = r.docs.Others(ctx, func(n *Node) {
		n.Silent = n.Seen < own.Seen.Add(-silentAfter)
		all = append(all, *n)
	})
	return all, err
}

// Silent returns the hosts and ids of silent nodes.
func (r *Registry) Silent(ctx context.Context) (names []string, err error) {
	all, err := r.List(ctx)
	for i := range all {
		if n := &all[i]; n.Silent {
			names = append(names, n.Host+" "+n.ID)
		}
	}
	return names, err
}

// Running returns the hosts and ids of the nodes on a store that are not silent. The embedded store has none.
func Running(ctx context.Context, o Options) (names []string, err error) {
	all, err := New(o).List(ctx)
	for i := range all {
		if n := &all[i]; n.ID != o.ID && !n.Silent {
			names = append(names, n.Host+" "+n.ID)
		}
	}
	return names, err
}

// Run announces this node until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	if r.o.Alone {
		<-ctx.Done()
		return nil
	}
	for n := 0; ; n++ {
		if own, err := r.own(ctx); err == nil && r.docs.Put(ctx, own) && n%tidyEvery == 0 {
			r.docs.Tidy(ctx, own.Seen)
		}
		if job.Sleep(ctx, r.o.Clock, beatEvery) != nil {
			break
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	r.docs.Withdraw(last)
	return nil
}
