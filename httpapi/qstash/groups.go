package qstash

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
)

// unnamed begins the names of members whose endpoints have none: it is no character of a name.
const unnamed = "@"

// memberName is the name of an endpoint's member.
func memberName(name, url string) string {
	if name != "" {
		return name
	}
	const bytes = 8
	digest := sha256.Sum256([]byte(url))
	return unnamed + hex.EncodeToString(digest[:bytes])
}

// endpointName is the name of a member's endpoint, or empty.
func endpointName(member string) string {
	if strings.HasPrefix(member, unnamed) {
		return ""
	}
	return member
}

type endpoint struct {
	Name string `json:"name,omitempty"`
	URL  string `json:"url"`
}

type groupView struct {
	Name      string     `json:"name"`
	CreatedAt int64      `json:"createdAt"`
	UpdatedAt int64      `json:"updatedAt"`
	Endpoints []endpoint `json:"endpoints"`
}

func groupViewOf(g *groups.Group) groupView {
	v := groupView{Name: g.Name, CreatedAt: int64(g.CreatedAt), UpdatedAt: int64(g.UpdatedAt), Endpoints: make([]endpoint, len(g.Members))}
	for i, m := range g.Members {
		v.Endpoints[i] = endpoint{endpointName(m.Name), string(m.URL)}
	}
	return v
}

func (a *api) urlGroups(c *httpapi.Call) error {
	var all []groups.Group
	for after := ""; ; {
		page, next, err := a.Groups.List(c.Context(), after, groups.MaxGroups)
		if err != nil {
			return err
		}
		all = append(all, page...)
		if after = next; after == "" {
			return viewsOf(c, all, groupViewOf)
		}
	}
}

func (a *api) urlGroup(c *httpapi.Call) error {
	g, err := a.Groups.Get(c.Context(), c.Param("name"))
	if errors.Is(err, groups.ErrNotFound) {
		return notFound("url group", c.Param("name"))
	}
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, groupViewOf(&g))
}

func (a *api) deleteURLGroup(c *httpapi.Call) error {
	if err := a.Groups.Delete(c.Context(), c.Param("name")); err != nil && !errors.Is(err, groups.ErrNotFound) {
		return err
	}
	return done(c)
}

const groupTries = 10

// changeGroup changes the members of a group, which may not exist yet.
func (a *api) changeGroup(c *httpapi.Call, change func(members []groups.Member, exists bool) ([]groups.Member, error)) error {
	name := c.Param("name")
	if err := checkName("url group", name); err != nil {
		return err
	}
	for range groupTries {
		g, err := a.Groups.Get(c.Context(), name)
		exists := err == nil
		if err != nil && !errors.Is(err, groups.ErrNotFound) {
			return err
		}
		unchanged := documents.Unchanged(g.Version)
		members, err := change(slices.Clone(g.Members), exists)
		if err != nil {
			return err
		}
		if len(members) == 0 {
			err = a.Groups.Delete(c.Context(), name, unchanged)
		} else {
			_, _, err = a.Groups.Put(c.Context(), groups.Group{Name: name, Members: members}, unchanged)
		}
		if !errors.Is(err, documents.ErrChanged) {
			if err == nil {
				return done(c)
			}
			return err
		}
	}
	return refused("the url group %s is being changed by others; try again", name)
}

func endpointsOf(c *httpapi.Call) ([]endpoint, error) {
	var d struct{ Endpoints []endpoint }
	if err := jsonOf(c, maxRequest, &d); err != nil {
		return nil, err
	}
	if len(d.Endpoints) == 0 {
		return nil, refused("endpoints must have at least one {url, name}")
	}
	return d.Endpoints, nil
}

func (a *api) addEndpoints(c *httpapi.Call) error {
	added, err := endpointsOf(c)
	if err != nil {
		return err
	}
	return a.changeGroup(c, func(members []groups.Member, _ bool) ([]groups.Member, error) {
		for _, e := range added {
			url, ok := webURL(e.URL)
			if !ok {
				return nil, refused(badScheme)
			}
			if e.Name != "" {
				if err := checkName("endpoint", e.Name); err != nil {
					return nil, err
				}
			}
			name := memberName(e.Name, url)
			draft := groups.Draft{Members: []groups.MemberDraft{{Name: &name, URL: new(job.Destination(url))}}}
			one, err := draft.Group(c.Param("name"))
			if err != nil {
				return nil, err
			}
			at := slices.IndexFunc(members, func(m groups.Member) bool { return m.Name == name })
			if at < 0 && len(members) == groups.MaxMembers {
				return nil, refused("a url group has at most %d endpoints", groups.MaxMembers)
			}
			if at < 0 {
				members = append(members, one.Members[0])
			} else {
				members[at] = one.Members[0]
			}
		}
		return members, nil
	})
}

func (a *api) removeEndpoints(c *httpapi.Call) error {
	removed, err := endpointsOf(c)
	if err != nil {
		return err
	}
	return a.changeGroup(c, func(members []groups.Member, exists bool) ([]groups.Member, error) {
		if !exists {
			return nil, notFound("url group", c.Param("name"))
		}
		return slices.DeleteFunc(members, func(m groups.Member) bool {
			return slices.ContainsFunc(removed, func(e endpoint) bool {
				return e.Name != "" && e.Name == m.Name || e.Name == "" && e.URL == string(m.URL)
			})
		}), nil
	})
}
