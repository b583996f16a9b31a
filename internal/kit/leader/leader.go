// Package leader elects one node at a time for a task, by lease.
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
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/store"
)

// Kind is the kind of documents that are leases, by the names of tasks.
const Kind = "leader"

// Heartbeats notices documents that nobody writes any more. It belongs to one goroutine.
type Heartbeats struct {
	clock job.Clock
	lease time.Duration
	seen  map[string]heartbeat // by name
}

// heartbeat is a version of a document, and when it was first seen.
type heartbeat struct {
	version uint64
	at      time.Time
}

// NewHeartbeats returns a Heartbeats for leases of a duration.
func NewHeartbeats(clock job.Clock, lease time.Duration) *Heartbeats {
	return &Heartbeats{clock: clock, lease: lease}
}

// Expired returns the documents whose version did not change for the time of a lease.
// versions has all documents by name; others are forgotten.
func (h *Heartbeats) Expired(versions map[string]uint64) map[string]bool {
	now := h.clock.Now()
	seen, expired := make(map[string]heartbeat, len(versions)), map[string]bool{}
	for name, version := range versions {
		last, known := h.seen[name]
		if !known || last.version != version {
			last = heartbeat{version: version, at: now}
		}
		seen[name] = last
		if now.Sub(last.at) >= h.lease {
			expired[name] = true
		}
	}
	h.seen = seen
	return expired
}

// Options of New. All are required.
type Options struct {
	Store store.Documents
	Task  string // a name, the same on all nodes
	Node  string // unique to the process
	Clock job.Clock
	Lease time.Duration // several times as long as the pause between calls of Lead
}

// Leader is a node's part in an election. It belongs to one goroutine. A nil *Leader always
// leads: there are no other nodes.
type Leader struct {
	o     Options
	docs  *documents.Collection[content]
	beats *Heartbeats
	// mine is the lease as this node wrote it last, at the time wrote. Without a version it
	// does not lead.
	mine  documents.Document[content]
	wrote time.Time
}

// content is the content of the document.
type content struct {
	Node string `json:"node"` // empty: there is no leader
}

const (
	resignTime = time.Second
	// youngShare is the part of a lease, as a divisor, after which a heartbeat is due again.
	youngShare = 5
)

// New returns a Leader.
func New(o Options) *Leader {
	return &Leader{
		o: o, docs: documents.New(documents.Options[content]{Store: o.Store, Kind: Kind}), beats: NewHeartbeats(o.Clock, o.Lease),
	}
}

// Lead reports whether this node leads: it writes a heartbeat unless the last one is young, or
// takes over an expired lease. It takes half a lease at most. The error is the store's.
func (l *Leader) Lead(ctx context.Context) (bool, error) {
	if l == nil {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.o.Lease/2)
	defer cancel()
	now := l.o.Clock.Now()
	if l.mine.Version != 0 { // the write says whether it still leads
		if now.Sub(l.wrote) < l.o.Lease/youngShare {
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
	// An unreadable document may be the lease of a newer version.
	free := d.Err == nil && (d.Value.Node == "" || d.Value.Node == l.o.Node)
	if expired := l.beats.Expired(map[string]uint64{d.Name: d.Version})[d.Name]; !free && !expired {
		return false, nil
	}
	if d.Err != nil {
		d = documents.Document[content]{Head: documents.Head{Name: d.Name, Version: d.Version}}
	}
	d.Value.Node = l.o.Node
	err = l.docs.Put(ctx, &d)
	if errors.Is(err, store.ErrConflict) {
		return false, nil // another node was faster
	}
	if err == nil {
		l.mine, l.wrote = d, now
	}
	return err == nil, err
}

// Resign ends the lease, if this node leads, so that another node takes over at once. It
// works for up to resignTime after the end of ctx.
func (l *Leader) Resign(ctx context.Context) {
	if l == nil {
		return
	}
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
	d, err := l.docs.Get(ctx, l.o.Task)
	if d.Err != nil || errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return d, err
}
