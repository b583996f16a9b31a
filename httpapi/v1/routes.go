package v1

import (
	"bytes"
	"cmp"
	"net/http"
	"regexp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/services/access"
)

// Paths that matter beyond the table.
const (
	jobsPath   = "/v1/jobs"
	batchPath  = "/v1/jobs/batch"
	planPath   = "/v1/jobs/plan" // its POST changes nothing
	eventsPath = "/v1/events"
	groupsPath = "/v1/groups"
	groupPath  = groupsPath + "/{group}"
	limitsPath = "/v1/topics/{topic}/limits"
	pullPath   = "/v1/pull"
)

// route is one call of the API.
type route struct {
	method string
	path   string       // as the OpenAPI document writes it
	scope  access.Scope // docs/access.md has the rule
	traits trait
	body   bodyKind
	query  []parameter
	handle handler
}

// trait is what holds for some calls only.
type trait uint8

const (
	// Keys can be restricted to topics. The server checks the topic of a path, and refuses restricted
	// keys all calls without one, except these: they limit themselves to the caller's topics.
	ownTopics trait = 1 << iota
	// Calls that obey If-Match and If-None-Match. All others that change something refuse them, so no
	// call can ignore them.
	obeys
	safe      // see httpapi.Route
	registers // see httpapi.Route
	streams   // the wait is theirs
	operators // refused to restricted keys, although the path names a topic
)

// is reports whether the call has a trait.
func (rt *route) is(t trait) bool { return rt.traits&t != 0 }

// handler answers a call with a view and the status of the request. Nil: it has answered
// itself.
type handler func(*API, *request) (jsonio.View, error)

// routes is every call. The router is built from it; a test holds the OpenAPI
// document against it. A HEAD goes with each GET.
var routes = []route{
	{http.MethodPost, jobsPath, access.Write, ownTopics | registers, bodyJSON, dryRunQuery, (*API).register},
	{http.MethodPost, batchPath, access.Write, ownTopics | registers, bodyJSON, dryRunQuery, (*API).registerBatch},
	{http.MethodPost, planPath, access.Read, ownTopics | safe, bodyJSON, nil, (*API).planJob},
	{http.MethodGet, "/v1/jobs", access.Read, ownTopics, bodyRefused, jobQuery, (*API).listJobs},
	{http.MethodGet, "/v1/jobs/{topic}/{id}", access.Read, 0, bodyRefused, nil, (*API).getJob},
	{http.MethodPatch, "/v1/jobs/{topic}/{id}", access.Write, obeys, bodyJSON, nil, (*API).patchJob},
	{http.MethodDelete, "/v1/jobs/{topic}/{id}", access.Write, obeys, bodyRefused, nil, (*API).cancelJob},
	{http.MethodGet, "/v1/jobs/{topic}/{id}/attempts", access.Read, 0, bodyRefused, pageQuery, (*API).listAttempts},
	{http.MethodGet, "/v1/jobs/{topic}/{id}/explain", access.Read, 0, bodyRefused, nil, (*API).explainJob},
	{http.MethodGet, "/v1/jobs/{topic}/{id}/registration", access.Write, 0, bodyRefused, nil, (*API).getRegistration}, // shows headers and body
	{http.MethodPost, "/v1/jobs/{topic}/{id}/run", access.Write, obeys, bodyEmptyJSON, nil, (*API).runJob},
	{http.MethodPost, "/v1/jobs/{topic}/{id}/finish", access.Write, obeys, bodyEmptyJSON, nil, (*API).finishJob},
	{http.MethodPost, "/v1/jobs/{topic}/{id}/count", access.Write, 0, bodyOptionalJSON, nil, (*API).countJob},
	{http.MethodPost, "/v1/jobs/{topic}/{id}/replay", access.Write, obeys, bodyOptionalJSON, nil, (*API).replayJob},
	{http.MethodPost, "/v1/operations", access.Read, ownTopics, bodyJSON, dryRunQuery, (*API).createOperation}, // a dry run; the rest needs Write
	{http.MethodGet, "/v1/operations", access.Read, ownTopics, bodyRefused, operationQuery, (*API).listOperations},
	{http.MethodGet, "/v1/operations/{id}", access.Read, ownTopics, bodyRefused, nil, (*API).getOperation},
	{http.MethodPost, "/v1/operations/{id}/stop", access.Write, ownTopics | obeys, bodyEmptyJSON, nil, (*API).stopOperation},
	{http.MethodPost, "/v1/operations/{id}/resume", access.Write, ownTopics | obeys, bodyEmptyJSON, nil, (*API).resumeOperation},
	{http.MethodPut, schedulePath, access.Write, ownTopics | obeys, bodyJSON, nil, (*API).putSchedule},
	{http.MethodPatch, schedulePath, access.Write, obeys, bodyMergePatch, nil, patching(patchableSchedule, (*API).putSchedule)},
	{http.MethodGet, schedulePath, access.Read, ownTopics, bodyRefused, nil, (*API).getSchedule},
	{http.MethodDelete, schedulePath, access.Write, ownTopics | obeys, bodyRefused, nil, (*API).deleteSchedule},
	{http.MethodGet, schedulesPath, access.Read, ownTopics, bodyRefused, scheduleQuery, (*API).listSchedules},
	{http.MethodGet, schedulePath + "/registration", access.Write, ownTopics, bodyRefused, nil, (*API).getScheduleRegistration}, // shows headers and body
	{http.MethodGet, schedulePath + "/occurrences", access.Read, ownTopics, bodyRefused, occurrenceQuery, (*API).listOccurrences},
	{http.MethodGet, schedulePath + "/runs", access.Read, ownTopics, bodyRefused, pageQuery, (*API).listRuns},
	{http.MethodPost, schedulePath + "/pause", access.Write, ownTopics, bodyOptionalJSON, nil, (*API).pauseSchedule},
	{http.MethodPost, schedulePath + "/resume", access.Write, ownTopics, bodyEmptyJSON, nil, (*API).resumeSchedule},
	{http.MethodPost, schedulePath + "/run", access.Write, ownTopics, bodyEmptyJSON, nil, (*API).runSchedule},
	{http.MethodPost, previewPath, access.Read, ownTopics | safe, bodyJSON, nil, (*API).previewSchedule},
	{http.MethodPost, schedulePath + "/skip", access.Write, ownTopics | obeys, bodyOptionalJSON, nil, skipping(Schedules.Skip)},
	{http.MethodPost, schedulePath + "/unskip", access.Write, ownTopics | obeys, bodyOptionalJSON, nil, skipping(Schedules.Unskip)},
	{http.MethodPut, groupPath, access.Write, obeys, bodyJSON, nil, (*API).putGroup},
	{http.MethodPatch, groupPath, access.Write, obeys, bodyMergePatch, nil, patching(patchableGroup, (*API).putPatchedGroup)},
	{http.MethodGet, groupPath, access.Read, 0, bodyRefused, nil, (*API).getGroup},
	{http.MethodDelete, groupPath, access.Write, obeys, bodyRefused, nil, (*API).deleteGroup},
	{http.MethodGet, groupPath + "/members", access.Read, 0, bodyRefused, memberQuery, (*API).listMembers},
	{http.MethodGet, groupsPath, access.Read, 0, bodyRefused, groupQuery, (*API).listGroups},
	{http.MethodGet, "/v1/dead", access.Read, ownTopics, bodyRefused, deadQuery, (*API).listDead},
	{http.MethodGet, "/v1/overview", access.Read, 0, bodyRefused, nil, (*API).overview},
	{http.MethodGet, "/v1/activity", access.Read, ownTopics, bodyRefused, activityQuery, (*API).activity},
	{http.MethodGet, "/v1/nodes", access.Read, 0, bodyRefused, pageQuery, (*API).listNodes},
	{http.MethodGet, "/v1/endpoints", access.Read, 0, bodyRefused, endpointQuery, (*API).listEndpoints},
	{http.MethodPost, "/v1/endpoints/try", access.Write, 0, bodyJSON, nil, (*API).tryEndpoint},
	{http.MethodPost, "/v1/endpoints/test", access.Write, ownTopics, bodyJSON, nil, (*API).testEndpoint},
	{http.MethodGet, "/v1/topics", access.Read, ownTopics, bodyRefused, topicQuery, (*API).listTopics},
	{http.MethodGet, "/v1/topics/{topic}", access.Read, 0, bodyRefused, nil, (*API).getTopic},
	{http.MethodPut, "/v1/topics/{topic}", access.Write, obeys, bodyJSON, nil, (*API).putTopic},
	{http.MethodPatch, "/v1/topics/{topic}", access.Write, obeys, bodyMergePatch, nil, patching(patchableTopic, (*API).putTopic)},
	{http.MethodDelete, "/v1/topics/{topic}", access.Write, obeys, bodyRefused, nil, (*API).deleteTopic},
	{http.MethodPut, limitsPath, access.Admin, obeys | operators, bodyJSON, nil, (*API).putLimits},
	{http.MethodGet, limitsPath, access.Read, 0, bodyRefused, nil, (*API).getLimits},
	{http.MethodDelete, limitsPath, access.Admin, obeys | operators, bodyRefused, nil, (*API).deleteLimits},
	{http.MethodPost, "/v1/topics/{topic}/pause", access.Write, obeys, bodyOptionalJSON, nil, setState(topics.Paused, pauseFields)},
	{http.MethodPost, "/v1/topics/{topic}/drain", access.Write, obeys, bodyOptionalJSON, nil, setState(topics.Draining, drainFields)},
	{http.MethodPost, "/v1/topics/{topic}/resume", access.Write, obeys, bodyOptionalJSON, nil, setState(topics.Active, decode.FieldSet[job.Pause]{})},
	{http.MethodPost, "/v1/topics/{topic}/pull", access.Consume, safe | streams, bodyOptionalJSON, nil, (*API).pullTopic},
	{http.MethodPost, pullPath, access.Consume, ownTopics | safe | streams, bodyJSON, nil, (*API).pullTopics},
	{http.MethodPost, pullPath + "/ack", access.Consume, ownTopics | safe, bodyJSON, nil, (*API).ackPulled},
	{http.MethodPost, pullPath + "/nack", access.Consume, ownTopics | safe, bodyJSON, nil, (*API).nackPulled},
	{http.MethodPost, pullPath + "/extend", access.Consume, ownTopics | safe, bodyJSON, nil, (*API).extendPulled},
	{http.MethodGet, "/v1/topics/{topic}/signing", access.Admin, 0, bodyRefused, nil, signed((*API).getSecret)},
	{http.MethodPut, "/v1/topics/{topic}/signing", access.Admin, obeys, bodyJSON, nil, signed((*API).putSecret)},
	{http.MethodDelete, "/v1/topics/{topic}/signing", access.Admin, obeys, bodyRefused, nil, signed((*API).deleteSecret)},
	{http.MethodPost, "/v1/topics/{topic}/signing/rotate", access.Admin, obeys, bodyOptionalJSON, nil, signed((*API).rotateSecret)},
	{http.MethodGet, "/v1/signing", access.Admin, 0, bodyRefused, nil, signed((*API).getSecret)},
	{http.MethodPut, "/v1/signing", access.Admin, obeys, bodyJSON, nil, signed((*API).putSecret)},
	{http.MethodPost, "/v1/signing/rotate", access.Admin, obeys, bodyOptionalJSON, nil, signed((*API).rotateSecret)},
	{http.MethodGet, "/v1/alerts", access.Read, 0, bodyRefused, pageQuery, (*API).listAlerts},
	{http.MethodGet, "/v1/alerts/rules", access.Read, 0, bodyRefused, pageQuery, (*API).listRules},
	{http.MethodGet, "/v1/alerts/rules/{rule}", access.Read, 0, bodyRefused, nil, (*API).getRule},
	{http.MethodPut, "/v1/alerts/rules/{rule}", access.Write, obeys, bodyJSON, nil, (*API).putRule},
	{http.MethodPatch, "/v1/alerts/rules/{rule}", access.Write, obeys, bodyMergePatch, nil, patching(patchableRule, (*API).putRule)},
	{http.MethodDelete, "/v1/alerts/rules/{rule}", access.Write, obeys, bodyRefused, nil, (*API).deleteRule},
	{http.MethodGet, "/v1/inboxes", access.Read, 0, bodyRefused, pageQuery, (*API).listInboxes},
	{http.MethodGet, "/v1/inboxes/{inbox}/rows", access.Write, 0, bodyRefused, rowsQuery, (*API).listRows}, // shows headers and bodies
	{http.MethodPost, "/v1/inboxes/{inbox}/retry", access.Write, 0, bodyJSON, nil, changingRows(Inboxes.Retry)},
	{http.MethodPost, "/v1/inboxes/{inbox}/drop", access.Write, 0, bodyJSON, nil, changingRows(Inboxes.Drop)},
	{http.MethodGet, "/v1/whoami", access.Read, ownTopics, bodyRefused, nil, (*API).whoAmI},
	{http.MethodGet, "/v1/keys", access.Admin, 0, bodyRefused, pageQuery, keyed((*API).listKeys)},
	{http.MethodPost, "/v1/keys", access.Admin, 0, bodyJSON, nil, keyed((*API).createKey)},
	{http.MethodGet, "/v1/keys/{id}", access.Admin, 0, bodyRefused, nil, keyed((*API).getKey)},
	{http.MethodDelete, "/v1/keys/{id}", access.Admin, obeys, bodyRefused, nil, keyed((*API).revokeKey)},
	{http.MethodGet, eventsPath, access.Read, ownTopics | streams, bodyRefused, eventQuery, (*API).watchEvents},
}

// needing puts a check in front of calls that need a service which not every server
// has.
func needing(has func(*API) bool, otherwise *httpapi.Error) func(handler) handler {
	return func(h handler) handler {
		return func(s *API, r *request) (jsonio.View, error) {
			if !has(s) {
				return nil, otherwise
			}
			return h(s, r)
		}
	}
}

var (
	signed = needing(func(s *API) bool { return s.Signing != nil }, &httpapi.Error{
		Code:   httpapi.CodeSigningOff,
		Detail: "This server runs with --signing off. Start all servers without that setting to sign deliveries.",
	})
	// On a server without keys, anybody could create a key that stays valid when the
	// operator turns keys on.
	keyed = needing(func(s *API) bool { return s.Access != nil }, &httpapi.Error{
		Code:   httpapi.CodeForbidden,
		Detail: "This server requires no API keys, so it manages none. Start it with a key in --api-keys first.",
	})
)

var pathName = regexp.MustCompile(`\{([a-z]+)\}`)

// dialect is the API as the server takes it. What every call needs is put around
// its handler here, in one place.
func (s *API) dialect() httpapi.Dialect {
	d := httpapi.Dialect{Prefix: "/v1/", Missing: missing, Routes: make([]httpapi.Route, len(routes))}
	for i, rt := range routes {
		var names []string
		for _, m := range pathName.FindAllStringSubmatch(rt.path, -1) {
			names = append(names, m[1])
		}
		d.Routes[i] = httpapi.Route{
			Method: rt.method, Path: rt.path, Scope: rt.scope,
			OwnTopics: rt.is(ownTopics), AllTopics: rt.is(operators), Safe: rt.is(safe), Registers: rt.is(registers), Stream: rt.is(streams),
			Handle: func(c *httpapi.Call) error { return s.serve(&request{Call: c, row: &rt}, names) },
		}
	}
	return d
}

// serve checks the conditions of the call's row, then calls its handler.
func (s *API) serve(r *request, names []string) error {
	defer r.release()
	if err := r.readQuery(); err != nil {
		return err
	}
	if err := r.checkNames(names); err != nil {
		return err
	}
	if err := r.readConditions(); err != nil {
		return err
	}
	switch r.row.body {
	case bodyRefused:
		if !r.HasBody() {
			break
		}
		if r.Request.Method != http.MethodDelete {
			return decode.Invalid("", "this call takes no body")
		}
		var err error
		if r.buffer, err = r.ReadBody(maxEmpty); err != nil || string(bytes.TrimSpace(r.buffer.Bytes())) != "{}" { // some clients send it with each DELETE
			return decode.Invalid("", "this call takes no body, or {}")
		}
	case bodyEmptyJSON:
		if _, err := readAll(r, maxEmpty, noFields); err != nil {
			return err
		}
	}
	if err := s.checkOwn(r); err != nil {
		return err
	}
	view, err := r.row.handle(s, r)
	if err != nil || view == nil {
		return err
	}
	if r.unchanged {
		r.Writer.WriteHeader(http.StatusNotModified)
		return nil
	}
	return decode.Answer(r.Call, cmp.Or(r.status, http.StatusOK), view)
}
