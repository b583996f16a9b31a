package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/store"
)

const (
	// releaseEvery is how long a node may look after schedules while another one has newer time zones.
	releaseEvery = 5 * time.Second
	releaseKind  = "tzdata"
	releaseName  = "newest"
)

// newest is the document with the newest release of the time zone database that nodes of the store have had.
type newest struct {
	Release string `json:"release"`
}

func releases(s store.Documents) *documents.Collection[newest] {
	return documents.New(documents.Options[newest]{Store: s, Kind: releaseKind})
}

// NewestRelease returns the newest release of the time zone database that nodes of the store have had, as far as they looked
// after schedules; empty: none did.
func NewestRelease(ctx context.Context, s store.Documents) (string, error) {
	d, err := releases(s).Get(ctx, releaseName)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return d.Value.Release, errors.Join(err, d.Err)
}

// release is what a node knows about the newest release.
type release struct {
	docs    *documents.Collection[newest]
	checked time.Time
	old     bool // the node's own is older
}

// outdated reports whether a node with newer time zones has looked after the schedules of the store. Two nodes with
// different rules would register different occurrences. A node that has the newest release writes that down.
func (m *Manager) outdated(ctx context.Context) (bool, error) {
	r := &m.engine.release
	now, own := m.clock.Now(), m.o.TZData
	if !r.checked.IsZero() && now.Sub(r.checked) < releaseEvery {
		return r.old, nil
	}
	d, err := r.docs.Get(ctx, releaseName)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, fmt.Errorf("read the newest release of time zones: %w", err)
	}
	old := d.Value.Release > own
	if d.Value.Release < own {
		_, err := r.docs.Update(ctx, releaseName, func(d *documents.Document[newest]) error {
			if old = d.Value.Release > own; old {
				return documents.ErrKept
			}
			d.Value.Release = own
			return nil
		})
		if err != nil && !errors.Is(err, documents.ErrKept) {
			return false, fmt.Errorf("write the newest release of time zones: %w", err)
		}
	}
	if old && !r.old {
		m.log.WarnContext(ctx, "this node does not look after schedules: its time zones are older than those of another node, now or before; "+
			"start it with a newer version of duehook, or give it a newer release with --tzdata",
			"release", own)
	}
	r.checked, r.old = now, old
	return old, nil
}

// stand ends the work of a node with old time zones.
func (m *Manager) stand(ctx context.Context) {
	e := m.engine
	m.o.Leader.Resign(ctx, channel)
	e.leading = false
	m.mayPurge.Store(false)
	if m.o.Leader == nil { // nobody else looks after them
		m.metrics.count.WithLabelValues(string(failing)).Set(float64(len(e.known.All())))
	}
	e.listed = time.Time{}
}
