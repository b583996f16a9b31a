package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// ErrNoMembers means that the group of a schedule's job is missing, or has no member that the job is for.
var ErrNoMembers = errors.New("the group has no members")

// Occurrence is the part of a recurring schedule's job that its template lacks.
type Occurrence struct {
	Key job.Key // of the job, or of the fan-out
	UID func(key job.Key) string
	Of  job.Occurrence
	Due job.Instant
	Now job.Instant // by the store's clock
}

// CheckTemplate checks a draft from which jobs of a schedule are made. Errors are those
// of Prepare, within the field job.
func (s *App) CheckTemplate(d *job.Draft) error {
	now := job.InstantOf(s.o.Clock.Now())
	var request job.Request
	var err error
	if d.Group != nil {
		request, err = d.ForGroup(s.o.Bounds, now)
	} else {
		request, err = d.Registration(s.o.Bounds, now)
	}
	if err != nil {
		return err
	}
	if request.Key.Topic == alerts.Topic {
		return errReservedTopic()
	}
	if d.Group != nil {
		return s.checkCallbacks("job", request.Spec.Callbacks)
	}
	return s.checkDestinations("job", &request.Spec)
}

// Occurrence makes the registration of an occurrence from a template, with the defaults
// of its topic, or those for the members that its group has now. Stores count its TTL from when the job is due. Errors
// besides those of Draft.Registration: ErrNoMembers, and the store's.
func (s *App) Occurrence(ctx context.Context, d *job.Draft, o Occurrence) ([]store.Registration, error) {
	if d.Group != nil {
		return s.fanOut(ctx, d, o)
	}
	request, err := d.Registration(s.o.Bounds, o.Now)
	if err != nil {
		return nil, err
	}
	spec := ownBody(request.Spec)
	s.fill(d, request.Key.Topic, &spec)
	return []store.Registration{o.registration(o.Key, spec)}, nil
}

func (o *Occurrence) registration(key job.Key, spec job.Spec) store.Registration {
	spec.When, spec.Occurrence = job.When{At: o.Due}, &o.Of
	return store.Registration{Key: key, UID: store.OrderUID(o.UID(key), key.Topic, spec.OrderKey), Spec: spec, OnConflict: job.ConflictRenew}
}

func (s *App) fanOut(ctx context.Context, d *job.Draft, o Occurrence) ([]store.Registration, error) {
	request, err := d.ForGroup(s.o.Bounds, o.Now)
	if err != nil {
		return nil, err
	}
	group, err := s.groupNamed(ctx, *d.Group)
	if err != nil && !errors.Is(err, groups.ErrNotFound) {
		return nil, fmt.Errorf("read the group of a schedule: %w", err)
	}
	plan := groups.FanOut{
		ID: o.Key.ID, Spec: ownBody(request.Spec), Members: group.Members,
		Fill: func(spec *job.Spec) { s.fill(d, o.Key.Topic, spec) },
	}
	targets := plan.Plan().Targets
	if len(targets) == 0 {
		return nil, ErrNoMembers
	}
	if err := s.checkFanOut(o.Key.ID, targets); err != nil {
		return nil, err
	}
	regs := make([]store.Registration, len(targets))
	for i, t := range targets {
		regs[i] = o.registration(job.Key{Topic: o.Key.Topic, ID: t.ID}, t.Spec)
	}
	return regs, nil
}

// Members is how many members a group has now: none if it is missing.
func (s *App) Members(ctx context.Context, group string) (int, error) {
	g, err := s.groupNamed(ctx, group)
	if err != nil && !errors.Is(err, groups.ErrNotFound) {
		return 0, fmt.Errorf("read the group of a schedule: %w", err)
	}
	return len(g.Members), nil
}

// HasGroupJob reports whether a job of a fan-out is kept; unfinished: whether one has not ended.
func (s *App) HasGroupJob(ctx context.Context, topic, groupID string, unfinished bool) (bool, error) {
	q := store.Query{Topic: topic, GroupID: groupID, Limit: 1}
	if unfinished {
		q.States = []job.State{job.Waiting, job.Ready, job.Running, job.Retrying}
	}
	for {
		page, err := listing.List(ctx, s.o.Store, q)
		if err != nil || len(page.Jobs) > 0 || page.Next == "" {
			return len(page.Jobs) > 0, err
		}
		q.Cursor = page.Next
	}
}
