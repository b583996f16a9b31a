package groups

import (
	"cmp"
	"slices"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// FanOut is a registration for a group.
type FanOut struct {
	ID      string               // of the registration: the group id of its jobs
	Spec    job.Spec             // by job.Draft.ForGroup
	Policy  job.OnConflict       // for each job whose key is taken
	Members []Member             // of the present group
	Kept    []job.Job            // jobs that have the group id already
	Fill    func(spec *job.Spec) // sets defaults of the topic
}

// Target is a job to register.
type Target struct {
	ID   string
	Spec job.Spec
}

// Plan is what becomes of a FanOut.
type Plan struct {
	// Refused are kept jobs that refuse the registration. Nothing is to be registered.
	Refused []store.Registered
	// Targets are the jobs to register, in the order of the group.
	Targets []Target
	// Repeats: the targets are the members of an earlier registration, even if the group
	// has changed since.
	Repeats bool
}

// Plan decides which jobs a registration makes.
//
// The first registration of a group id fixes its members, as long as its jobs are kept: a
// repetition is for the same jobs, though members joined, left or changed meanwhile. If
// some of its jobs are missing, as after a crash in the middle, the repetition registers
// them for the members that the group has now. A registration over which a kept job would
// be refused is refused as a whole, so that other content never makes half a fan-out.
// Jobs of former members with other content are left alone.
func (f *FanOut) Plan() Plan {
	var p Plan
	size := 0
	var held, kept []Target // members whose jobs stay; all members
	for _, i := range f.byPosition() {
		old := &f.Kept[i]
		t := f.again(old)
		reg := store.Registration{Key: old.Key, Spec: t.Spec, OnConflict: f.Policy}
		outcome, member := rules.Against(&reg, old), f.has(old)
		switch {
		case outcome.Conflicts():
			if !member && outcome != store.KeyReused {
				continue
			}
			p.Refused = append(p.Refused, store.Registered{Outcome: outcome, Job: *old})
		case outcome == store.Created: // the old job gives way
			if !member && !t.Spec.SameContent(&old.Spec) {
				continue
			}
		default:
			held = append(held, t)
		}
		kept, size = append(kept, t), max(size, old.Spec.Group.Size)
	}
	switch {
	case len(p.Refused) > 0:
	case len(held) > 0 && len(kept) >= size:
		p.Targets, p.Repeats = kept, true
	default:
		p.Targets = f.join(held)
	}
	return p
}

// has reports whether the member of a job is still in the group.
func (f *FanOut) has(j *job.Job) bool {
	name := j.Member()
	return slices.ContainsFunc(f.Members, func(m Member) bool { return m.Name == name })
}

// byPosition are the indexes of the kept jobs in the order of their registration. Jobs
// that were not registered for a group are left out.
func (f *FanOut) byPosition() []int {
	var order []int
	for i := range f.Kept {
		if f.Kept[i].Spec.Group != nil {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &f.Kept[a], &f.Kept[b]
		return cmp.Or(cmp.Compare(x.Spec.Group.Position, y.Spec.Group.Position), cmp.Compare(x.ID, y.ID))
	})
	return order
}

// again is a member's job as the registration would have made it for that member then.
// The member's own part is taken from the job, because the member may have changed.
func (f *FanOut) again(old *job.Job) Target {
	s := f.Spec
	s.Destination, s.Headers = old.Spec.Destination, withHeaders(s.Headers, old.Spec.Headers)
	m := *s.Group
	m.Position, m.Size = old.Spec.Group.Position, old.Spec.Group.Size
	s.Group = &m
	f.Fill(&s)
	return Target{old.ID, s}
}

// join is a job for each member that the group has now, and those held of others.
func (f *FanOut) join(held []Target) []Target {
	members := slices.DeleteFunc(slices.Clone(f.Members), func(m Member) bool {
		label := f.Spec.Group.FilterLabel
		return label != "" && m.FilterLabel != label
	})
	targets := make([]Target, 0, len(members)+len(held))
	for i := range members {
		id := job.MemberID(f.ID, members[i].Name)
		if n := slices.IndexFunc(held, func(t Target) bool { return t.ID == id }); n >= 0 {
			targets, held = append(targets, held[n]), slices.Delete(held, n, n+1)
			continue
		}
		s := f.Spec
		s.Destination, s.Headers = members[i].URL, withHeaders(s.Headers, members[i].Headers)
		m := *s.Group
		m.Position, m.Size = i, len(members)
		s.Group = &m
		f.Fill(&s)
		targets = append(targets, Target{id, s})
	}
	return append(targets, held...)
}

// withHeaders are own, and those of more that own does not name. Sorted by name.
func withHeaders(own, more []job.Header) []job.Header {
	all := slices.Clone(own)
	for _, h := range more {
		if !slices.ContainsFunc(own, func(o job.Header) bool { return o.Name == h.Name }) {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b job.Header) int { return strings.Compare(a.Name, b.Name) })
	return all
}
