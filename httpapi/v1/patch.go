package v1

import (
	"bytes"
	"errors"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/store"
)

// patchTries bounds how often a PATCH starts over because what it patches has changed.
const patchTries = 10

// patchable is what a PATCH changes: the body of the PUT that would set it as it is, and its
// version; empty: there is none yet.
type patchable func(*API, *request) (current jsonio.View, tag string, err error)

// patching answers a PATCH (RFC 7396) with the PUT of the patched body. Between reading and
// writing nothing may change; then it starts over.
func patching(read patchable, put handler) handler {
	return func(s *API, r *request) (jsonio.View, error) {
		patch, err := r.body(s.maxPatch())
		if err != nil {
			return nil, err
		}
		if patch = jsonio.Trim(patch); patch[0] != '{' {
			return nil, decode.Invalid("", "must be an object, not "+decode.KindOf(patch))
		}
		for range patchTries {
			current, tag, err := read(s, r)
			if err != nil {
				return nil, err
			}
			var errs decode.Errors
			r.given, r.patched = merged(jsonio.AppendObject(nil, current), patch, "", &errs), &tag
			if err := errs.Err(); err != nil {
				return nil, err
			}
			if view, err := put(s, r); !errors.Is(err, errPatched) {
				return view, err
			}
		}
		return nil, store.ErrConflict
	}
}

// maxPatch bounds the body of a PATCH as that of the largest PUT.
func (s *API) maxPatch() int64 { return max(s.maxRequest(), maxGroupRequest) }

// named is a member of an object, with its name as it stands.
type named struct{ quoted, value []byte }

// merged applies a merge patch to a value, which may be nil. Members keep their order, and
// values their form.
func merged(target, patch []byte, at string, errs *decode.Errors) []byte {
	if patch[0] != '{' {
		return patch
	}
	var members []named
	places, given := map[string]int{}, map[string]bool{}
	if len(target) > 0 && target[0] == '{' {
		for quoted, value := range jsonio.Members(target) {
			name, _ := jsonio.Unquote(quoted)
			places[name] = len(members)
			members = append(members, named{quoted, value})
		}
	}
	for quoted, value := range jsonio.Members(patch) {
		name, _ := jsonio.Unquote(quoted)
		pointer := at + "/" + httpapi.EscapePointer(httpapi.Shorten(name))
		if given[name] {
			errs.Add(pointer, "is given twice")
		}
		given[name] = true
		place, there := places[name]
		switch {
		case decode.KindOf(value) == decode.KindNull && there:
			members[place].value = nil
		case decode.KindOf(value) == decode.KindNull:
		case there:
			members[place].value = merged(members[place].value, value, pointer, errs)
		default:
			places[name] = len(members)
			members = append(members, named{quoted, merged(nil, value, pointer, errs)})
		}
	}
	return joined(members)
}

// joined is the object of members. Those without a value are left out.
func joined(members []named) []byte {
	w := jsonio.Writer{}
	w.Bracket('{')
	for _, m := range members {
		if m.value != nil {
			w.Next()
			w.B = append(append(append(w.B, m.quoted...), ':'), m.value...)
		}
	}
	w.Bracket('}')
	return w.B
}

func patchableTopic(s *API, r *request) (jsonio.View, string, error) {
	t, err := s.App.Topic(r.Context(), r.Param("topic"))
	if err != nil || !t.Exists {
		return func(*jsonio.Writer) {}, "", err
	}
	return jsonio.Shown(writeSettings, &t.Settings), tagOf(t.Version), nil
}

func patchableSchedule(s *API, r *request) (jsonio.View, string, error) {
	found, err := s.Schedules.Get(r.Context(), r.Param("schedule"))
	return jsonio.Shown(writeDefinition, &found.Def), tagIfAny(jobjson.VersionOf(found.UID, found.Version)), err
}

func patchableRule(s *API, r *request) (jsonio.View, string, error) {
	rule, err := s.Alerts.Rule(r.Context(), r.Param("rule"))
	return jsonio.Shown(writeRuleDraft, &rule), tagOf(rule.Version), err
}

// patchableGroup has the members by their names.
func patchableGroup(s *API, r *request) (jsonio.View, string, error) {
	g, err := s.Groups.Get(r.Context(), r.Param("group"))
	return func(w *jsonio.Writer) {
		w.Name("members")
		w.Bracket('{')
		for i := range g.Members {
			m := &g.Members[i]
			w.Next()
			w.Quote(m.Name)
			w.B = append(w.B, ':')
			w.Bracket('{')
			w.Text("url", string(m.URL))
			w.Headers("headers", m.Headers)
			w.TextOrNull("filter_label", m.FilterLabel)
			w.Bracket('}')
		}
		w.Bracket('}')
	}, tagIfAny(g.Version), err
}

// putPatchedGroup puts members that a patch may have by their names.
func (s *API) putPatchedGroup(r *request) (jsonio.View, error) {
	var all []named
	for quoted, value := range jsonio.Members(r.given) {
		if name, _ := jsonio.Unquote(quoted); name == "members" && value[0] == '{' {
			value = arrayOf(value)
		}
		all = append(all, named{quoted, value})
	}
	r.given = joined(all)
	return s.putGroup(r)
}

// arrayOf turns an object of members by their names into the array of them.
func arrayOf(byName []byte) []byte {
	list := []byte{'['}
	for quoted, value := range jsonio.Members(byName) {
		if len(list) > 1 {
			list = append(list, ',')
		}
		if value[0] != '{' {
			list = append(list, value...) // which is refused
			continue
		}
		rest := bytes.TrimLeft(value[1:], " \t\r\n")
		list = append(append(list, `{"name":`...), quoted...)
		if rest[0] != '}' {
			list = append(list, ',')
		}
		list = append(list, rest...)
	}
	return append(list, ']')
}
