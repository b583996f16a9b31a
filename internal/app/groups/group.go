package groups

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

// Bounds of groups.
const (
	MaxGroups  = 1000
	MaxMembers = 1000 // of one group
	// MaxBytes bounds the stored JSON of one group, MaxAllBytes of all groups together.
	MaxBytes    = 512 << 10
	MaxAllBytes = 32 << 20
)

// Group is a group and its members, in the order of the client.
type Group struct {
	Name string `json:"-"`
	documents.Stamp
	Members []Member `json:"members"`
}

// Member is one receiver of the group's jobs.
type Member struct {
	Name string          `json:"name"`
	URL  job.Destination `json:"url"`
	// Headers are for its jobs, unless the registration sets them. Sorted by name.
	Headers []job.Header `json:"headers,omitempty"`
	// FilterLabel selects the member in registrations with this label; empty: none does.
	FilterLabel string `json:"filter_label,omitempty"`
}

// show leaves what a caller may see. The members are the group's own.
func (g *Group) show(to access.Sight) {
	for i := range g.Members {
		m := &g.Members[i]
		m.URL, m.Headers = to.URL(m.URL), to.Headers(m.Headers)
	}
}

// Find returns the members that have a text in their name, endpoint or filter label. Other parts of
// their URLs may be secret.
func (g *Group) Find(part string) []Member {
	return slices.DeleteFunc(slices.Clone(g.Members), func(m Member) bool {
		endpoint, _ := m.URL.Endpoint() // of a checked URL
		return !strings.Contains(m.Name, part) && !strings.Contains(endpoint, part) && !strings.Contains(m.FilterLabel, part)
	})
}

// Draft is a group as a client asks for it. Members is nil if it was not given.
type Draft struct{ Members []MemberDraft }

// MemberDraft is a member as a client asks for it. A nil field was not given.
type MemberDraft struct {
	Name, FilterLabel *string
	URL               *job.Destination
	Headers           map[string]string
}

// Group validates the draft. The error is a *job.ValidationError.
func (d *Draft) Group(name string) (Group, error) {
	var f job.Findings
	f.Check("group", job.CheckName(name))
	switch {
	case d.Members == nil:
		f.Add("members", "is required; [] is a group without members")
	case len(d.Members) > MaxMembers:
		f.Add("members", fmt.Sprintf("must have at most %d members", MaxMembers))
		return Group{}, f.Err()
	}
	g, places := Group{Name: name, Members: make([]Member, len(d.Members))}, map[string]int{}
	for i := range d.Members {
		at := job.Field("members").In(strconv.Itoa(i))
		m := d.Members[i].member(&f, at)
		if first, taken := places[m.Name]; taken {
			f.Add(at.In("name"), fmt.Sprintf("is the name of member %d, too", first))
		} else if m.Name != "" {
			places[m.Name] = i
		}
		g.Members[i] = m
	}
	return g, f.Err()
}

func (d *MemberDraft) member(f *job.Findings, at job.Field) Member {
	var m Member
	if d.Name == nil {
		f.Add(at.In("name"), "is required")
	} else if f.Check(at.In("name"), job.CheckMember(*d.Name)) {
		m.Name = *d.Name
	}
	// Its jobs obey the rules of all jobs, but consumers fetch none of them.
	draft := job.Draft{Destination: d.URL, Headers: d.Headers}
	if d.URL == nil {
		f.Add(at.In("url"), "is required: the jobs of a group are delivered, not pulled")
		draft.Pull = new(true) // to check the headers
	}
	request, err := draft.Registration(job.Bounds{}, 0)
	_ = f.Take(at, err) // there is no body that could be too large
	m.URL, m.Headers = request.Spec.Destination, request.Spec.Headers
	if d.FilterLabel != nil {
		m.FilterLabel = *d.FilterLabel
		f.Check(at.In("filter_label"), job.CheckFilterLabel(m.FilterLabel))
	}
	return m
}
