package groups

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/duehook/duehook/job"
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
	Name    string   `json:"-"`
	Version uint64   `json:"-"` // counts the changes, from 1; 0: there is no such group
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
	f := findings{names: map[string]int{}}
	if err := job.CheckName(name); err != nil {
		f.add("group", err.Error())
	}
	switch {
	case d.Members == nil:
		f.add("members", "is required; [] is a group without members")
	case len(d.Members) > MaxMembers:
		f.add("members", fmt.Sprintf("must have at most %d members, not %d", MaxMembers, len(d.Members)))
		return Group{}, f.err()
	}
	g := Group{Name: name, Members: make([]Member, len(d.Members))}
	for i := range d.Members {
		g.Members[i] = f.member(i, &d.Members[i])
	}
	return g, f.err()
}

// findings gathers what is wrong with a draft.
type findings struct {
	fields []job.FieldError
	names  map[string]int // of members, with their places
}

func (f *findings) add(field job.Field, message string) {
	f.fields = append(f.fields, job.FieldError{Field: field, Message: message})
}

func (f *findings) err() error {
	if len(f.fields) == 0 {
		return nil
	}
	return &job.ValidationError{Fields: f.fields}
}

func (f *findings) member(i int, d *MemberDraft) Member {
	at := job.Field("members").In(strconv.Itoa(i))
	var m Member
	if d.Name == nil {
		f.add(at.In("name"), "is required")
	} else {
		m.Name = *d.Name
		f.name(at.In("name"), i, m.Name)
	}
	// Its jobs obey the rules of all jobs.
	request, err := (&job.Draft{Destination: d.URL, Headers: d.Headers}).Registration(job.Limits{}, 0)
	var wrong *job.ValidationError
	if errors.As(err, &wrong) {
		for _, e := range wrong.Fields {
			f.add(e.Field.Within(at), e.Message)
		}
	}
	m.URL, m.Headers = request.Spec.Destination, request.Spec.Headers
	if d.FilterLabel != nil {
		m.FilterLabel = *d.FilterLabel
		if err := job.CheckFilterLabel(m.FilterLabel); err != nil {
			f.add(at.In("filter_label"), err.Error())
		}
	}
	return m
}

func (f *findings) name(at job.Field, i int, name string) {
	if err := job.CheckMember(name); err != nil {
		f.add(at, err.Error())
	} else if first, taken := f.names[name]; taken {
		f.add(at, fmt.Sprintf("is the name of member %d, too", first))
	} else {
		f.names[name] = i
	}
}
