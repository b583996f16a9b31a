package groups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
)

// Errors on which callers decide.
var (
	// ErrNotFound: no group has this name.
	ErrNotFound = errors.New("group not found")
	// ErrTooMany: there are MaxGroups, or they take MaxAllBytes.
	ErrTooMany = errors.New("too many groups")
)

const documentKind = "group"

// Check returns an error if the server must not call a destination, which the field names.
type Check func(field job.Field, d job.Destination) error

// Manager keeps groups. Its methods are safe for concurrent use.
type Manager struct {
	docs  *documents.Collection[Group]
	check Check
}

// New makes a Manager of the groups in a store. The clock stamps changes; nil: the machine's.
func New(s store.Documents, check Check, clock job.Clock) *Manager {
	return &Manager{check: check, docs: documents.New(documents.Options[Group]{
		Store: s, Kind: documentKind, Missing: ErrNotFound, New: func(name string) Group { return Group{Name: name} },
		Strict: true, // a member may have conditions that only a newer version knows
		Max:    MaxGroups, MaxBytes: MaxAllBytes, Full: ErrTooMany,
		Clock: clock, Stamp: func(g *Group) *documents.Stamp { return &g.Stamp },
	})}
}

// Get reads a group from the store, as the caller may see it. Errors of this and the following calls: ErrNotFound,
// store.ErrNewer, and the store's.
func (m *Manager) Get(ctx context.Context, name string) (Group, error) {
	d, err := m.docs.Get(ctx, name)
	d.Value.show(access.SightOf(ctx))
	return d.Value, err
}

// Put creates or replaces a group that Draft.Group made. Equal content changes nothing.
// Errors: a *job.ValidationError, ErrTooMany, those of Check, and allow's.
func (m *Manager) Put(ctx context.Context, g Group, allow ...documents.Allow) (stored Group, created bool, err error) {
	for i := range g.Members {
		if err := m.check(job.Field("members").In(strconv.Itoa(i)).In("url"), g.Members[i].URL); err != nil {
			return Group{}, false, err
		}
	}
	text, err := json.Marshal(g)
	if err != nil {
		return Group{}, false, fmt.Errorf("encode a group: %w", err)
	}
	if len(text) > MaxBytes {
		return Group{}, false, job.Invalid("members", fmt.Sprintf("must take at most %d bytes together, not %d", MaxBytes, len(text)))
	}
	return m.docs.Set(ctx, g.Name, g, allow...)
}

// Delete deletes a group. Its jobs stay.
func (m *Manager) Delete(ctx context.Context, name string, allow ...documents.Allow) error {
	return m.docs.Remove(ctx, name, allow...)
}

// List returns up to limit groups behind the name after, and the name of the last if others
// follow. It ends early at store.PageBytes, and leaves out groups that only a newer version
// can read.
func (m *Manager) List(ctx context.Context, after string, limit int) (page []Group, next string, err error) {
	err = access.Paged(ctx, after, func(after string) (*string, error) {
		page, next, err = m.docs.Page(ctx, after, limit)
		return &next, err
	})
	for i := range page {
		page[i].show(access.SightOf(ctx))
	}
	return page, next, err
}
