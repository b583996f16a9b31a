package v1

import (
	"strconv"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

// maxGroupRequest bounds the body of PUT /v1/groups/{group}: twice what is stored, for
// white space and escapes.
const maxGroupRequest = 2 * groups.MaxBytes

var (
	groupFields = decode.NewFieldSet(map[string]func(*groups.Draft, decode.Field){
		"members": setMembers,
	})
	memberFields = decode.NewFieldSet(map[string]func(*groups.MemberDraft, decode.Field){
		"name":         func(m *groups.MemberDraft, f decode.Field) { m.Name = f.Text() },
		"url":          func(m *groups.MemberDraft, f decode.Field) { m.URL = (*job.Destination)(f.Text()) },
		"headers":      func(m *groups.MemberDraft, f decode.Field) { m.Headers = f.Texts() },
		"filter_label": func(m *groups.MemberDraft, f decode.Field) { m.FilterLabel = f.Text() },
	})
)

// setMembers decodes members. Beyond the largest number, only the number matters.
func setMembers(d *groups.Draft, f decode.Field) {
	list := f.List()
	if list == nil {
		return
	}
	d.Members = make([]groups.MemberDraft, len(list))
	for i, raw := range list[:min(len(list), groups.MaxMembers)] {
		memberFields.Decode(raw, f.Pointer()+"/"+strconv.Itoa(i), &d.Members[i], f.Errs)
	}
}

// putGroup answers PUT /v1/groups/{group}.
func (s *API) putGroup(r *request) (jsonio.View, error) {
	draft, errs, err := read(r, maxGroupRequest, groupFields)
	if err != nil {
		return nil, err
	}
	g, err := draft.Group(r.Param("group"))
	if err := errs.Merge(err); err != nil {
		return nil, err
	}
	g, isNew, err := s.Groups.Put(r.Context(), g, r.allow()...)
	if err != nil {
		return nil, err
	}
	r.created(isNew)
	return r.showGroup(&g), nil
}

// getGroup answers GET /v1/groups/{group}.
func (s *API) getGroup(r *request) (jsonio.View, error) {
	g, err := s.Groups.Get(r.Context(), r.Param("group"))
	if err != nil {
		return nil, err
	}
	return r.showGroup(&g), nil
}

func (r *request) showGroup(g *groups.Group) jsonio.View {
	r.setWhole(g.Version)
	return jsonio.Shown(writeGroup, g)
}

// listGroups answers GET /v1/groups.
func (s *API) listGroups(r *request) (jsonio.View, error) {
	page, next, err := s.Groups.List(r.Context(), r.query.Cursor, r.query.Limit)
	return pageOf(page, writeGroup, next), err
}

// listMembers answers GET /v1/groups/{group}/members.
func (s *API) listMembers(r *request) (jsonio.View, error) {
	g, err := s.Groups.Get(r.Context(), r.Param("group"))
	if err != nil {
		return nil, err
	}
	return pageOfAll(r, g.Find(r.query.part), orderOfMember, writeMember)
}

// deleteGroup answers DELETE /v1/groups/{group}.
func (s *API) deleteGroup(r *request) (jsonio.View, error) {
	return resultOf("deleted"), s.Groups.Delete(r.Context(), r.Param("group"), r.allow()...)
}

func writeGroup(w *jsonio.Writer, g *groups.Group) {
	w.Text("name", g.Name)
	writeStamp(w, &g.Stamp)
	jsonio.List(w, "members", g.Members, writeMember)
}

func writeMember(w *jsonio.Writer, m *groups.Member) {
	w.Text("name", m.Name)
	w.Text("url", string(m.URL))
	w.Headers("headers", m.Headers)
	w.TextOrNull("filter_label", m.FilterLabel)
}
