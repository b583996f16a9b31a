package v1

import (
	"cmp"
	"net/http"
	"regexp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/wire"
	"github.com/duehook/duehook/internal/kit/jsonout"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler/topics"
)

// Paths that matter beyond the table.
const (
	jobsPath   = "/v1/jobs"
	batchPath  = "/v1/jobs/batch"
	planPath   = "/v1/jobs/plan" // its POST changes nothing
	eventsPath = "/v1/events"
	groupsPath = "/v1/groups"
	groupPath  = groupsPath + "/{group}"
	pullPath   = "/v1/pull"
)

// route is one call of the API.
type route struct {
	method string
	path   string       // as the OpenAPI document writes it
	scope  access.Scope // docs/access.md has the rule
	body   bodyKind
	query  []parameter
	handle handler
}

// handler answers a call with a view and the status of the request. Nil: it has answered
// itself.
type handler func(*API, *request) (jsonout.View, error)

// routes is every call. The router is built from it; a test holds the OpenAPI
// document against it. A HEAD goes with each GET.
var routes = []route{
	{http.MethodPost, jobsPath, access.Write, bodyJSON, dryRunQuery, (*API).register},
	{http.MethodPost, batchPath, access.Write, bodyJSON, dryRunQuery, (*API).registerBatch},
	{http.MethodPost, planPath, access.Read, bodyJSON, nil, (*API).planJob},
	{http.MethodGet, "/v1/jobs", access.Read, bodyRefused, jobQuery, (*API).listJobs},
	{http.MethodGet, "/v1/jobs/{topic}/{id}", access.Read, bodyRefused, nil, (*API).getJob},
	{http.MethodPatch, "/v1/jobs/{topic}/{id}", access.Write, bodyJSON, nil, (*API).patchJob},
	{http.MethodDelete, "/v1/jobs/{topic}/{id}", access.Write, bodyRefused, nil, (*API).cancelJob},
	{http.MethodGet, "/v1/jobs/{topic}/{id}/attempts", access.Read, bodyRefused, pageQuery, (*API).listAttempts},
	{http.MethodGet, "/v1/jobs/{topic}/{id}/explain", access.Read, bodyRefused, nil, (*API).explainJob},
	{http.MethodGet, "/v1/jobs/{topic}/{id}/registration", access.Write, bodyRefused, nil, (*API).getRegistration}, // shows headers and body
	{http.MethodPost, "/v1/jobs/{topic}/{id}/run", access.Write, bodyEmptyJSON, nil, (*API).runJob},
	{http.MethodPost, "/v1/jobs/{topic}/{id}/finish", access.Write, bodyEmptyJSON, nil, (*API).finishJob},
	{http.MethodPost, "/v1/jobs/{topic}/{id}/count", access.Write, bodyOptionalJSON, nil, (*API).countJob},
	{http.MethodPost, "/v1/jobs/{topic}/{id}/replay", access.Write, bodyOptionalJSON, nil, (*API).replayJob},
	{http.MethodPost, "/v1/operations", access.Read, bodyJSON, dryRunQuery, (*API).createOperation}, // a dry run; the rest needs Write
	{http.MethodGet, "/v1/operations", access.Read, bodyRefused, operationQuery, (*API).listOperations},
	{http.MethodGet, "/v1/operations/{id}", access.Read, bodyRefused, nil, (*API).getOperation},
	{http.MethodPost, "/v1/operations/{id}/stop", access.Write, bodyEmptyJSON, nil, (*API).stopOperation},
	{http.MethodPost, "/v1/operations/{id}/resume", access.Write, bodyEmptyJSON, nil, (*API).resumeOperation},
	{http.MethodPut, schedulePath, access.Write, bodyJSON, nil, (*API).putSchedule},
	{http.MethodPatch, schedulePath, access.Write, bodyJSON, nil, patching(patchableSchedule, (*API).putSchedule)},
	{http.MethodGet, schedulePath, access.Read, bodyRefused, nil, (*API).getSchedule},
	{http.MethodDelete, schedulePath, access.Write, bodyRefused, nil, (*API).deleteSchedule},
	{http.MethodGet, schedulesPath, access.Read, bodyRefused, scheduleQuery, (*API).listSchedules},
	{http.MethodGet, schedulePath + "/registration", access.Write, bodyRefused, nil, (*API).getScheduleRegistration}, // shows headers and body
	{http.MethodGet, schedulePath + "/occurrences", access.Read, bodyRefused, occurrenceQuery, (*API).listOccurrences},
	{http.MethodGet, schedulePath + "/runs", access.Read, bodyRefused, pageQuery, (*API).listRuns},
	{http.MethodPost, schedulePath + "/pause", access.Write, bodyOptionalJSON, nil, (*API).pauseSchedule},
	{http.MethodPost, schedulePath + "/resume", access.Write, bodyEmptyJSON, nil, (*API).resumeSchedule},
	{http.MethodPost, schedulePath + "/run", access.Write, bodyEmptyJSON, nil, (*API).runSchedule},
	{http.MethodPost, schedulePath + "/backfill", access.Write, bodyJSON, dryRunQuery, (*API).backfillSchedule},
	{http.MethodPost, previewPath, access.Read, bodyJSON, nil, (*API).previewSchedule},
	{http.MethodPost, schedulePath + "/skip", access.Write, bodyOptionalJSON, nil, skipping(Schedules.Skip)},
	{http.MethodPost, schedulePath + "/unskip", access.Write, bodyOptionalJSON, nil, skipping(Schedules.Unskip)},
	{http.MethodPut, calendarPath, access.Write, bodyJSON, nil, (*API).putCalendar},
	{http.MethodPatch, calendarPath, access.Write, bodyJSON, nil, patching(patchableCalendar, (*API).putCalendar)},
	{http.MethodGet, calendarPath, access.Read, bodyRefused, nil, (*API).getCalendar},
	{http.MethodDelete, calendarPath, access.Write, bodyRefused, nil, (*API).deleteCalendar},
	{http.MethodGet, calendarsPath, access.Read, bodyRefused, groupQuery, (*API).listCalendars},
	{http.MethodPut, groupPath, access.Write, bodyJSON, nil, (*API).putGroup},
	{http.MethodPatch, groupPath, access.Write, bodyJSON, nil, patching(patchableGroup, (*API).putPatchedGroup)},
	{http.MethodGet, groupPath, access.Read, bodyRefused, nil, (*API).getGroup},
	{http.MethodDelete, groupPath, access.Write, bodyRefused, nil, (*API).deleteGroup},
	{http.MethodGet, groupsPath, access.Read, bodyRefused, groupQuery, (*API).listGroups},
	{http.MethodGet, "/v1/dead", access.Read, bodyRefused, deadQuery, (*API).listDead},
	{http.MethodPost, "/v1/jobs/{topic}/{id}/restore", access.Admin, bodyEmptyJSON, nil, withLedger((*API).restoreJob)},
	{http.MethodPost, "/v1/restore", access.Admin, bodyOptionalJSON, nil, withLedger((*API).startRestore)},
	{http.MethodGet, "/v1/restore", access.Read, bodyRefused, nil, withLedger((*API).restoreStatus)},
	{http.MethodGet, "/v1/overview", access.Read, bodyRefused, nil, (*API).overview},
	{http.MethodGet, "/v1/activity", access.Read, bodyRefused, activityQuery, (*API).activity},
	{http.MethodGet, "/v1/nodes", access.Read, bodyRefused, pageQuery, (*API).listNodes},
	{http.MethodGet, "/v1/endpoints", access.Read, bodyRefused, endpointQuery, (*API).listEndpoints},
	{http.MethodPost, "/v1/endpoints/try", access.Write, bodyJSON, nil, (*API).tryEndpoint},
	{http.MethodPost, "/v1/endpoints/test", access.Write, bodyJSON, nil, (*API).testEndpoint},
	{http.MethodGet, "/v1/topics", access.Read, bodyRefused, topicQuery, (*API).listTopics},
	{http.MethodGet, "/v1/topics/{topic}", access.Read, bodyRefused, nil, (*API).getTopic},
	{http.MethodPut, "/v1/topics/{topic}", access.Write, bodyJSON, nil, (*API).putTopic},
	{http.MethodPatch, "/v1/topics/{topic}", access.Write, bodyJSON, nil, patching(patchableTopic, (*API).putTopic)},
	{http.MethodDelete, "/v1/topics/{topic}", access.Write, bodyRefused, nil, (*API).deleteTopic},
	{http.MethodPost, "/v1/topics/{topic}/pause", access.Write, bodyOptionalJSON, nil, setState(topics.Paused, pauseFields)},
	{http.MethodPost, "/v1/topics/{topic}/drain", access.Write, bodyOptionalJSON, nil, setState(topics.Draining, drainFields)},
	{http.MethodPost, "/v1/topics/{topic}/resume", access.Write, bodyEmptyJSON, nil, setState(topics.Active, wire.FieldSet[job.Pause]{})},
	{http.MethodPost, "/v1/topics/{topic}/pull", access.Consume, bodyOptionalJSON, nil, (*API).pullTopic},
	{http.MethodPost, pullPath, access.Consume, bodyJSON, nil, (*API).pullTopics},
	{http.MethodPost, pullPath + "/ack", access.Consume, bodyJSON, nil, (*API).ackPulled},
	{http.MethodPost, pullPath + "/nack", access.Consume, bodyJSON, nil, (*API).nackPulled},
	{http.MethodPost, pullPath + "/extend", access.Consume, bodyJSON, nil, (*API).extendPulled},
	{http.MethodGet, "/v1/topics/{topic}/signing", access.Admin, bodyRefused, nil, signed((*API).getSecret)},
	{http.MethodPut, "/v1/topics/{topic}/signing", access.Admin, bodyJSON, nil, signed((*API).putSecret)},
	{http.MethodDelete, "/v1/topics/{topic}/signing", access.Admin, bodyRefused, nil, signed((*API).deleteSecret)},
	{http.MethodPost, "/v1/topics/{topic}/signing/rotate", access.Admin, bodyOptionalJSON, nil, signed((*API).rotateSecret)},
	{http.MethodGet, "/v1/signing", access.Admin, bodyRefused, nil, signed((*API).getSecret)},
	{http.MethodPut, "/v1/signing", access.Admin, bodyJSON, nil, signed((*API).putSecret)},
	{http.MethodPost, "/v1/signing/rotate", access.Admin, bodyOptionalJSON, nil, signed((*API).rotateSecret)},
	{http.MethodGet, "/v1/alerts", access.Read, bodyRefused, pageQuery, (*API).listAlerts},
	{http.MethodGet, "/v1/alerts/rules", access.Read, bodyRefused, pageQuery, (*API).listRules},
	{http.MethodGet, "/v1/alerts/rules/{rule}", access.Read, bodyRefused, nil, (*API).getRule},
	{http.MethodPut, "/v1/alerts/rules/{rule}", access.Write, bodyJSON, nil, (*API).putRule},
	{http.MethodPatch, "/v1/alerts/rules/{rule}", access.Write, bodyJSON, nil, patching(patchableRule, (*API).putRule)},
	{http.MethodDelete, "/v1/alerts/rules/{rule}", access.Write, bodyRefused, nil, (*API).deleteRule},
	{http.MethodGet, "/v1/whoami", access.Read, bodyRefused, nil, (*API).whoAmI},
	{http.MethodGet, "/v1/keys", access.Admin, bodyRefused, pageQuery, keyed((*API).listKeys)},
	{http.MethodPost, "/v1/keys", access.Admin, bodyJSON, nil, keyed((*API).createKey)},
	{http.MethodGet, "/v1/keys/{id}", access.Admin, bodyRefused, nil, keyed((*API).getKey)},
	{http.MethodDelete, "/v1/keys/{id}", access.Admin, bodyRefused, nil, keyed((*API).revokeKey)},
	{http.MethodGet, eventsPath, access.Read, bodyRefused, eventQuery, (*API).watchEvents},
}

// needing puts a check in front of calls that need a service which not every server
// has.
func needing(has func(*API) bool, otherwise *httpapi.Error) func(handler) handler {
	return func(h handler) handler {
		return func(s *API, r *request) (jsonout.View, error) {
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
	withLedger = needing(func(s *API) bool { return s.Restoring != nil }, &httpapi.Error{
		Code:   httpapi.CodeLedgerMissing,
		Detail: "This server keeps no ledger of jobs, so there is nothing to restore them from. On Redis, start all servers with the same --ledger-url.",
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
	d := httpapi.Dialect{Prefix: "/v1/", Routes: make([]httpapi.Route, len(routes))}
	for i, rt := range routes {
		var names []string
		for _, m := range pathName.FindAllStringSubmatch(rt.path, -1) {
			names = append(names, m[1])
		}
		d.Routes[i] = httpapi.Route{
			Method: rt.method, Path: rt.path, Scope: rt.scope,
			OwnTopics: ownTopics[rt.method+" "+rt.path],
			Safe:      rt.path == planPath || rt.path == previewPath || rt.scope == access.Consume,
			Registers: rt.method == http.MethodPost && (rt.path == jobsPath || rt.path == batchPath),
			Stream:    rt.path == eventsPath || rt.path == pullPath || rt.path == "/v1/topics/{topic}/pull", // the wait is theirs
			Handle:    func(c *httpapi.Call) error { return s.serve(&request{Call: c, row: &rt}, names) },
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
		if r.HasBody() {
			return wire.Invalid("", "this call takes no body")
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
	return wire.Answer(r.Call, cmp.Or(r.status, http.StatusOK), view)
}
