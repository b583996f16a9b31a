package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/memory"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Bounds of a fan-out.
const (
	// MaxJobs is the most jobs that one call registers.
	MaxJobs = 1000
	// MaxFanOutBytes bounds the jobs of a fan-out together, by store.SizeOfSpec.
	MaxFanOutBytes = 64 << 20
	// maxKept bounds the jobs of one group id that a registration reads. There are more
	// only if the members changed often between registrations with the same id.
	maxKept = 4 * MaxJobs
)

// FanOut is a registration for a group that is valid here.
type FanOut struct {
	Topic, Group, ID string // the id is the group id of its jobs
	// Refused are kept jobs that refuse the registration as a whole.
	Refused []store.Registered
	// Jobs are to be registered, in the order of the group.
	Jobs []Prepared

	own bool // the server made the id, which no other job has
}

// FanOutOf is the fan-out of registrations that the server made for the members of a group.
func FanOutOf(group string, key job.Key, regs []store.Registration) *FanOut {
	f := &FanOut{Topic: key.Topic, Group: group, ID: key.ID, Jobs: make([]Prepared, len(regs))}
	for i := range regs {
		f.Jobs[i] = Prepared{reg: regs[i], fan: f}
	}
	return f
}

// PrepareGroup checks a draft that names a group, and makes a registration for each member,
// with the defaults of the topic. A repeated registration has the same jobs, see
// groups.FanOut. Errors: those of Prepare, and the store's.
func (s *App) PrepareGroup(ctx context.Context, d *job.Draft, from Origin) (*FanOut, error) {
	if err := from.Topics.Allow(""); err != nil { // all topics share the groups
		return nil, err
	}
	request, err := d.ForGroup(s.o.Bounds, job.InstantOf(s.o.Clock.Now()))
	if err == nil {
		err = from.name(&request, d)
	}
	if err != nil {
		return nil, err
	}
	if request.Key.Topic == alerts.Topic {
		return nil, errReservedTopic()
	}
	if err := s.checkCallbacks("", request.Spec.Callbacks); err != nil {
		return nil, err
	}
	request.Spec = ownBody(request.Spec)
	request.Spec.Content = fingerprint(d, &request.Spec)
	from.shorten(&request.Spec.When)
	plan := groups.FanOut{
		ID: request.Key.ID, Spec: request.Spec, Policy: request.OnConflict,
		Fill: func(spec *job.Spec) { s.fill(d, request.Key.Topic, spec) },
	}
	f := &FanOut{Topic: request.Key.Topic, Group: request.Spec.Group.Group, ID: plan.ID}
	if plan.ID == "" { // the uid of a job that is not registered
		if plan.ID, err = s.newUID(job.Key{Topic: f.Topic}, &from); err != nil {
			return nil, err
		}
		f.ID, f.own = plan.ID, true
	} else if plan.Kept, err = s.keptJobs(ctx, f.Topic, f.ID); err != nil {
		return nil, err
	}
	group, err := s.groupNamed(ctx, f.Group)
	if err != nil && !errors.Is(err, groups.ErrNotFound) {
		return nil, err
	}
	plan.Members = group.Members
	made := plan.Plan()
	if f.Refused = made.Refused; len(f.Refused) > 0 {
		return f, nil
	}
	if err != nil && !made.Repeats {
		return nil, job.Invalid("group", "does not exist; create it with PUT")
	}
	if err := s.checkFanOut(f.ID, made.Targets); err != nil {
		return nil, err
	}
	if f.Jobs, err = s.prepareTargets(f, made.Targets, plan.Policy, &from); err != nil {
		return nil, err
	}
	return f, s.refuseTaken(ctx, f, plan.Kept)
}

// groupNamed reads a group. The error is groups.ErrNotFound also without a manager of groups, or the store's.
func (s *App) groupNamed(ctx context.Context, name string) (groups.Group, error) {
	if s.o.Groups == nil {
		return groups.Group{}, groups.ErrNotFound
	}
	return s.o.Groups.Get(ctx, name)
}

// RegisterGroup registers the jobs of a fan-out.
func (s *App) RegisterGroup(ctx context.Context, f *FanOut) (registered []store.Registered, err error) {
	if len(f.Jobs) > 0 {
		registered, err = s.Register(ctx, f.Jobs...)
	}
	if err == nil && len(f.Refused) == 0 && !slices.ContainsFunc(registered, conflicts) {
		s.metrics.fanOuts.Observe(float64(len(f.Jobs)))
	}
	return registered, err
}

// keptJobs are the jobs that have a group id, without their bodies.
func (s *App) keptJobs(ctx context.Context, topic, groupID string) (kept []job.Job, err error) {
	hold := memory.Of(ctx)
	if err := hold.Take(ctx, MaxPage); err != nil {
		return nil, err
	}
	defer hold.Give(MaxPage)
	q := store.Query{Topic: topic, GroupID: groupID, Limit: MaxJobs}
	for {
		page, err := listing.Heads(ctx, s.o.Store, q)
		if err != nil {
			return nil, err
		}
		if err := hold.Add(PageSize(page.Jobs)); err != nil {
			return nil, err
		}
		kept = append(kept, page.Jobs...)
		if q.Cursor = page.Next; q.Cursor == "" || len(kept) >= maxKept {
			return kept, nil
		}
	}
}

// checkFanOut checks what only the members show. id is that of the fan-out.
func (s *App) checkFanOut(id string, targets []groups.Target) error {
	if len(targets) > MaxJobs {
		return job.Invalid("group", fmt.Sprintf("makes %d jobs together with an earlier registration of the id; choose another id", len(targets)))
	}
	bytes := 0
	for i := range targets {
		bytes += store.SizeOfSpec(&targets[i].Spec)
	}
	if n := len(targets); n > 1 && bytes > MaxFanOutBytes {
		return job.Invalid("group", fmt.Sprintf("makes %d jobs, which take %d bytes together with their headers and callbacks; the limit is %d",
			n, bytes, MaxFanOutBytes))
	}
	for i := range targets {
		t := &targets[i]
		if err := job.CheckName(t.ID); err != nil {
			return job.Invalid("id", fmt.Sprintf("with a colon and the name of a member, such as %s, %v", t.ID[len(id)+1:], err))
		}
		if err := job.CheckHeaders(t.Spec.Headers); err != nil {
			return job.Invalid("headers", fmt.Sprintf("together with the headers of member %s: %v", t.ID[len(id)+1:], err))
		}
		if err := s.CheckDestination("group", t.Spec.Destination); err != nil {
			return err
		}
	}
	return nil
}

func (s *App) prepareTargets(f *FanOut, targets []groups.Target, policy job.OnConflict, from *Origin) ([]Prepared, error) {
	jobs := make([]Prepared, len(targets))
	for i, t := range targets {
		key := job.Key{Topic: f.Topic, ID: t.ID}
		uid, err := s.newUID(key, from)
		if err != nil {
			return nil, err
		}
		uid = store.OrderUID(uid, key.Topic, t.Spec.OrderKey)
		t.Spec.Traceparent, t.Spec.Tracestate = from.Trace.Parent, from.Trace.State
		jobs[i] = Prepared{reg: store.Registration{Key: key, UID: uid, Spec: t.Spec, OnConflict: policy}, fan: f}
	}
	return jobs, nil
}
