package v1

import (
	"strconv"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler/groups"
)

// maxGroupRequest bounds the body of PUT /v1/groups/{group}: twice what is stored, for
// white space and escapes.
const maxGroupRequest = 2 * groups.MaxBytes

var (
	groupFields = newFieldSet(map[string]func(*groups.Draft, field){
		"members": setMembers,
	})
	memberFields = newFieldSet(map[string]func(*groups.MemberDraft, field){
		"name":         func(m *groups.MemberDraft, f field) { m.Name = f.text() },
		"url":          func(m *groups.MemberDraft, f field) { m.URL = (*job.Destination)(f.text()) },
		"headers":      func(m *groups.MemberDraft, f field) { m.Headers = f.texts() },
		"filter_label": func(m *groups.MemberDraft, f field) { m.FilterLabel = f.text() },
	})
)

// setMembers decodes members. Beyond the largest number, only the number matters.
func setMembers(d *groups.Draft, f field) {
	list := f.list()
	if list == nil {
		return
	}
	d.Members = make([]groups.MemberDraft, len(list))
	for i, raw := range list[:min(len(list), groups.MaxMembers)] {
		memberFields.decode(raw, f.pointer()+"/"+strconv.Itoa(i), &d.Members[i], f.errs)
	}
}

// putGroup answers PUT /v1/groups/{group}.
func (s *API) putGroup(r *request) (view, error) {
	draft, errs, err := read(r, maxGroupRequest, groupFields)
	if err != nil {
		return nil, err
	}
	g, err := draft.Group(r.Param("group"))
	if err := errs.merge(err); err != nil {
		return nil, err
	}
	allow := allowing[groups.Allow](r, groupTag)
	g, isNew, err := s.Groups.Put(r.Context(), g, allow...)
	if err != nil {
		return nil, err
	}
	r.created(isNew)
	return r.showGroup(&g), nil
}

func groupTag(g *groups.Group) string {
	return tagIfAny(g.Version)
}

// getGroup answers GET /v1/groups/{group}.
func (s *API) getGroup(r *request) (view, error) {
	g, err := s.Groups.Get(r.Context(), r.Param("group"))
	if err != nil {
		return nil, err
	}
	return r.showGroup(&g), nil
}

func (r *request) showGroup(g *groups.Group) view {
	r.setVersion(g.Version)
	return shown(writeGroup, g)
}

// listGroups answers GET /v1/groups.
func (s *API) listGroups(r *request) (view, error) {
	page, err := s.Groups.List(r.Context(), r.query.Cursor, r.query.Limit)
	return pageOf(page.Groups, writeGroup, page.Next), err
}

// deleteGroup answers DELETE /v1/groups/{group}.
func (s *API) deleteGroup(r *request) (view, error) {
	allow := allowing[groups.Allow](r, groupTag)
	return resultOf("deleted"), s.Groups.Delete(r.Context(), r.Param("group"), allow...)
}

func writeGroup(w *writer, g *groups.Group) {
	w.text("name", g.Name)
	writeStamp(w, &g.Stamp)
	list(w, "members", g.Members, func(w *writer, m *groups.Member) {
		w.text("name", m.Name)
		w.url("url", string(m.URL))
		w.secretHeaders("headers", m.Headers)
		w.textOrNull("filter_label", m.FilterLabel)
	})
}
