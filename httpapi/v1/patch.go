package v1

import (
	"bytes"
	"errors"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/kit/strictjson"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/scheduler/schedules"
	"github.com/duehook/duehook/store"
)

// patchTries bounds how often a PATCH starts over because what it patches has changed.
const patchTries = 10

// patchable is what a PATCH changes: the body of the PUT that would set it as it is, and its
// version; empty: there is none yet.
type patchable func(*API, *request) (current view, tag string, err error)

// patching answers a PATCH (RFC 7396) with the PUT of the patched body. Between reading and
// writing nothing may change; then it starts over.
func patching(read patchable, put handler) handler {
	return func(s *API, r *request) (view, error) {
		patch, err := r.body(s.maxPatch())
		if err != nil {
			return nil, err
		}
		if patch = strictjson.Trim(patch); patch[0] != '{' {
			return nil, invalid("", "must be an object, not "+kindOf(patch))
		}
		for range patchTries {
			current, tag, err := read(s, r)
			if err != nil {
				return nil, err
			}
			var errs fieldErrors
			r.given, r.patched = merged(appendObject(nil, current), patch, "", &errs), &tag
			if err := errs.err(); err != nil {
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
func merged(target, patch []byte, at string, errs *fieldErrors) []byte {
	if patch[0] != '{' {
		return patch
	}
	var members []named
	places, given := map[string]int{}, map[string]bool{}
	if len(target) > 0 && target[0] == '{' {
		for quoted, value := range strictjson.Members(target) {
			name, _ := strictjson.Unquote(quoted)
			places[name] = len(members)
			members = append(members, named{quoted, value})
		}
	}
	for quoted, value := range strictjson.Members(patch) {
		name, _ := strictjson.Unquote(quoted)
		pointer := at + "/" + httpapi.EscapePointer(httpapi.Shorten(name))
		if given[name] {
			errs.add(pointer, "is given twice")
		}
		given[name] = true
		place, there := places[name]
		switch {
		case kindOf(value) == kindNull && there:
			members[place].value = nil
		case kindOf(value) == kindNull:
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
	w := writer{}
	w.bracket('{')
	for _, m := range members {
		if m.value != nil {
			w.next()
			w.b = append(append(append(w.b, m.quoted...), ':'), m.value...)
		}
	}
	w.bracket('}')
	return w.b
}

func patchableTopic(s *API, r *request) (view, string, error) {
	t, err := s.Scheduler.Topic(r.Context(), r.Param("topic"))
	if err != nil || !t.Exists {
		return func(*writer) {}, "", err
	}
	return shown(writeSettings, &t.Settings), tagOf(t.Version), nil
}

func patchableSchedule(s *API, r *request) (view, string, error) {
	found, err := s.Schedules.Get(r.Context(), r.Param("schedule"))
	return shown(writeDefinition, &found.Def), scheduleTag(schedules.Version{UID: found.UID, Number: found.Version}), err
}

func patchableRule(s *API, r *request) (view, string, error) {
	rule, err := s.Alerts.Rule(r.Context(), r.Param("rule"))
	return shown(writeRuleDraft, &rule), ruleTag(&rule), err
}

// writeRuleDraft writes what PUT takes.
func writeRuleDraft(w *writer, r *alerts.Rule) {
	w.text("metric", string(r.Metric))
	w.text("by", string(r.By))
	w.textOrNull("topic", r.Topic)
	w.textOrNull("endpoint", r.Endpoint)
	w.float("above", r.Above)
	writeTerms(w, termsOf(r))
}

// patchableGroup has the members by their names.
func patchableGroup(s *API, r *request) (view, string, error) {
	g, err := s.Groups.Get(r.Context(), r.Param("group"))
	return func(w *writer) {
		w.name("members")
		w.bracket('{')
		for i := range g.Members {
			m := &g.Members[i]
			w.next()
			w.quote(m.Name)
			w.b = append(w.b, ':')
			w.bracket('{')
			w.text("url", string(m.URL))
			w.headers("headers", m.Headers)
			w.textOrNull("filter_label", m.FilterLabel)
			w.bracket('}')
		}
		w.bracket('}')
	}, groupTag(&g), err
}

// putPatchedGroup puts members that a patch may have by their names.
func (s *API) putPatchedGroup(r *request) (view, error) {
	var all []named
	for quoted, value := range strictjson.Members(r.given) {
		if name, _ := strictjson.Unquote(quoted); name == "members" && value[0] == '{' {
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
	for quoted, value := range strictjson.Members(byName) {
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
