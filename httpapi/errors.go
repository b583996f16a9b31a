package httpapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/app/pulls"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/memory"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Error is an error with its code. Dialects return it, or an error that AsError
// knows.
type Error struct {
	Code   Code
	Detail string
	Fields []FieldError
	Cause  error // never shown to the client
	// Job is the job whose state or content refuses the call, or nil.
	Job *job.Job
	// Accept are the media types that the call takes in place of the one that it refused.
	Accept string
	// More is an object whose members the answer has as well, or nil.
	More any
}

// FieldError is an error in one part of a request: "/name" in the body or in the path,
// "?name" in the query, "Name" in the headers.
type FieldError struct {
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

func (e *Error) Error() string {
	switch {
	case len(e.Fields) > 0:
		parts := make([]string, len(e.Fields))
		for i, f := range e.Fields {
			parts[i] = f.Pointer + ": " + f.Message
		}
		return strings.Join(parts, "; ")
	case e.Cause != nil:
		return fmt.Sprintf("%s: %v", e.Code.Name, e.Cause)
	}
	return e.Code.Name + ": " + e.Detail
}

func (e *Error) Unwrap() error { return e.Cause }

// ClientsFault reports whether the client must correct its request.
func (e *Error) ClientsFault() bool { return e.Code.Status < 500 }

// Invalid is an error with parts of a request.
func Invalid(fields ...FieldError) *Error {
	return &Error{
		Code: CodeInvalidRequest, Fields: fields,
		Detail: "Correct the fields in errors. A pointer /name is a field of the body or a part of the path, ?name a query parameter, a bare name a header.",
	}
}

// Pointers maps fields of the domain to pointers into a request. at is the pointer
// to the object that contains them.
func Pointers(at string, fields []job.FieldError) []FieldError {
	list := make([]FieldError, len(fields))
	for i, f := range fields {
		list[i] = FieldError{at + pointerTo(f.Field), f.Message}
	}
	return list
}

// pointerTo is the JSON pointer to a field. The API calls all fields as the domain
// does.
func pointerTo(f job.Field) string {
	pointer := ""
	for _, part := range f.Parts() {
		pointer += "/" + EscapePointer(part)
	}
	return pointer
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// EscapePointer writes a name as a part of a JSON pointer (RFC 6901).
func EscapePointer(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return pointerEscaper.Replace(name)
}

// known maps errors of other packages to codes. The first match counts.
var known = []struct {
	is     error
	code   Code
	detail string
}{
	{store.ErrNewer, CodeNewerVersion, "A newer version of duehook wrote this entry, and this version can neither show nor change it. The entry stays in force, for example a topic's pause and limits. Send the request to a node of the newer version."},

	{access.ErrMissing, CodeUnauthorized, "The request has no API key. Send one as Authorization: Bearer and the key's token."},
	{documents.ErrUnread, CodeStoreUnavailable, "This server has just started and has not read the stored API keys yet. Try again."},
	{access.ErrUnknown, CodeUnauthorized, "The API key is unknown: it was revoked or belongs to other servers."},
	{access.ErrExpired, CodeUnauthorized, "The API key has expired. Create a new one."},
	{access.ErrNoKey, CodeKeyNotFound, "No API key has this id, or it was revoked before."},
	{access.ErrFixedKey, CodeKeyFixed, "The API key is in the servers' settings. Remove it there and restart them."},
	{access.ErrTooManyKeys, CodeTooManyKeys, "There are " + strconv.Itoa(access.MaxKeys) + " API keys, the limit. Revoke unused and expired ones."},

	{signing.ErrNoSecret, CodeSecretNotFound, "The topic has no signing secret of its own, or there is no default secret yet. Set one with PUT. Names are case-sensitive."},
	{signing.ErrConfigured, CodeSecretFixed, "The default signing secret is in the servers' settings. Change --signing-secret there (new,old signs with both) and restart them. Topics can still have their own secrets."},
	{signing.ErrTooManySecrets, CodeTooManySecrets, "At most " + strconv.Itoa(signing.MaxSecrets) + " secrets can sign at the same time. Wait until one of them ends, or set a secret with PUT, which ends the others at once."},
	{signing.ErrTooManyTopics, CodeTooManySecrets, strconv.Itoa(signing.MaxTopics) + " topics have signing secrets of their own, the limit. Delete those of one."},
	{documents.ErrNoMasterKey, CodeMasterKeyMissing, "This server has no master key to encrypt stored secrets with. Start all servers with the same --master-key."},
	{documents.ErrMasterKey, CodeSecretUnreadable, "The secrets were encrypted with a master key that this server does not have. Add that key to --master-key. The secrets of a topic can also be deleted and set again."},
	{documents.ErrDamaged, CodeSecretUnreadable, "The stored secrets are damaged. Restore them from a backup. The secrets of a topic can also be deleted and set again."},

	{operations.ErrNotFound, CodeOperationNotFound, "No operation has this id, or it ended more than a day ago."},
	{operations.ErrEnded, CodeOperationEnded, "The operation has ended, so it can be neither stopped nor resumed. Start another one; no job is changed twice."},
	{operations.ErrKeyReused, CodeKeyReused, "The Idempotency-Key began an operation with another request, which is still kept. Repeat a call unchanged, or choose another key."},
	{operations.ErrTooMany, CodeTooManyOperations, fmt.Sprintf("There are %d operations that have not ended, or they take %d MiB together, the limits. Wait until some of them end.", operations.MaxKept, operations.MaxAllBytes>>20)},

	{schedules.ErrNotFound, CodeScheduleNotFound, "No schedule has this name. Create one with PUT. Names are case-sensitive."},
	{schedules.ErrTooMany, CodeTooManySchedules, fmt.Sprintf("There are %d schedules, or they take %d MiB together, the limits. Delete one.", schedules.MaxSchedules, schedules.MaxAllBytes>>20)},

	{groups.ErrNotFound, CodeGroupNotFound, "No group has this name. Create one with PUT. Names are case-sensitive."},
	{groups.ErrTooMany, CodeTooManyGroups, fmt.Sprintf("There are %d groups, or their members take %d MiB together, the limits. Delete one.", groups.MaxGroups, groups.MaxAllBytes>>20)},

	{topics.ErrTooMany, CodeTooManyTopics, fmt.Sprintf("%d topics have settings or limits, are paused or draining, or they take %d MiB together, the limits. Delete the settings and limits of one, or resume one.", topics.MaxTopics, topics.MaxAllBytes>>20)},

	{inbox.ErrNotFound, CodeInboxNotFound, "No inbox has this name. Inboxes are in the setting --inbox-url of the servers."},
	{inbox.ErrUnavailable, CodeInboxUnavailable, "The database of the inbox does not answer as it should. GET /v1/inboxes has its error. Try again."},
	{alerts.ErrNotFound, CodeAlertRuleNotFound, "No alert rule has this name. Create one with PUT. Names are case-sensitive."},
	{alerts.ErrTooMany, CodeTooManyAlertRules, "There are " + strconv.Itoa(alerts.MaxRules) + " alert rules, the limit. Delete one, or let one rule cover all topics or endpoints with by."},

	{memory.ErrNoRoom, CodeServerBusy, "Other requests take the memory that the server has for them, or that of this connection or key. Read the answers of earlier requests, and try again."},
	{memory.ErrTooLarge, CodeBodyTooLarge, "The call takes more memory than one connection may have, an eighth of --memory-budget. Register or ask for less at a time."},

	{store.ErrUnreadable, CodeJobNotFound, "The stored data of this topic and id is not a readable job. Register the job again to replace it."},
	{store.ErrNotFound, CodeJobNotFound, "No job has this topic and id, or it ended and is no longer kept. Names are case-sensitive."},
	{store.ErrTopicFull, CodeTopicFull, "The topic has as many unfinished jobs as its capacity allows. Try again when one of them has ended."},
	{store.ErrTopicDraining, CodeTopicDraining, "The topic is draining: its jobs are delivered, and new ones are refused until the topic is resumed."},
	{app.ErrTooManyTests, CodeTooManyTests, strconv.Itoa(app.MaxTests) + " tests are running on this server, the limit. Try again when one of them has ended."},
	{topics.ErrNoLimits, CodeTopicUnlimited, "Operators set no limits for this topic. Create them with PUT. Its own limits are in its settings."},
	{topics.ErrNotFound, CodeTopicPlain, "The topic has no settings of its own, so none can be deleted."},

	{job.ErrNotCounted, CodeJobNotCounted, "The job was registered without count, so nothing can be added to it."},
	{job.ErrCountKeys, CodeTooManyCountKeys, "The job remembers " + strconv.Itoa(job.MaxCountKeys) + " keys, the limit. Count without a key, or add several at once."},
	{job.ErrFinished, CodeJobFinished, "The job has ended, so it can no longer be changed or cancelled. Replay it, or register it again."},
	{job.ErrStripped, CodeJobFinished, "The callback of a failed attempt keeps no content after its end, so it cannot be replayed. Replay the job that it reports."},
	{app.ErrBusy, CodeJobBusy, busyDetail},
	{job.ErrInFlight, CodeJobInFlight, "An attempt of the job is in flight. Try again when it has ended."},
	{job.ErrNotEnded, CodeJobInFlight, "The job has not ended, so it cannot be replayed. Use run to send it now."},

	{store.ErrConflict, CodeStoreUnavailable, "Other requests kept modifying the same entry at the same time; nothing was stored. Try again."},
	{store.ErrOtherLayout, CodeStoreUnavailable, "This node's settings do not match the store, for example the number of shards. It serves no requests; its log says what to do. Send the request to another node."},
	{store.ErrFull, CodeStoreUnavailable, "The store takes no jobs: its memory or disk is full, or it cannot save. GET /readyz has the reason. " + repeat},
	{store.ErrUnavailable, CodeStoreUnavailable, unavailable},
	{context.DeadlineExceeded, CodeStoreUnavailable, unavailable},
	{context.Canceled, CodeStoreUnavailable, unavailable},

	{echo.ErrNotFound, CodeNotFound, "There is no such path. /openapi.json lists every call."},
	{echo.ErrMethodNotAllowed, CodeMethodNotAllowed, "This path does not support the method. The Allow header lists the supported methods."},
}

const (
	busyDetail     = "Other requests change this job all the time; nothing was stored. Send the request again."
	unavailable    = "The store cannot be reached or is full. " + repeat
	repeat         = "Try again; with the same id or Idempotency-Key a registration is safe to repeat."
	internalDetail = "The server failed. Its log has the cause under the X-Request-Id of this answer."
)

// refusedParameters are errors of listings with one query parameter.
var refusedParameters = []struct {
	is    error
	field FieldError
}{
	{store.ErrBadCursor, FieldError{"?cursor", "was not issued by this listing; start without it, and keep the other parameters the same on every page"}},
	{store.ErrBadOrder, BadOrder},
	{store.ErrTooManyToSort, FieldError{"?order", fmt.Sprintf("needs a smaller listing: jobs of at most %d lanes, groups of dead letters and topics "+
		"can be sorted. Narrow it with ?topic= or ?endpoint=, or leave out the order", listing.MaxSortedGroups)}},
}

// BadOrder is the error for an order that the store does not have.
var BadOrder = FieldError{"?order", "must be due or -due, with ?state=waiting or retrying, or -ended, with each ?state= that of ended jobs"}

// AsError is the one map from errors to codes. An error that it does not know is
// internal; the client does not learn its cause.
func AsError(err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if e := withDetails(err); e != nil {
		e.Cause = err
		return e
	}
	for _, k := range known {
		if errors.Is(err, k.is) {
			return &Error{Code: k.code, Cause: err, Detail: k.detail}
		}
	}
	return &Error{Code: CodeInternalError, Cause: err, Detail: internalDetail}
}

// ofTopics refuses a caller who is restricted to topics.
func ofTopics(e *job.TopicError) *Error {
	what := "The call concerns all topics"
	if e.Topic != "" {
		what = "The topic " + Shorten(e.Topic) + " is none of them"
	}
	return &Error{Code: CodeForbidden, Cause: e, Detail: fmt.Sprintf("The API key is restricted to the topics %s. %s.", strings.Join(e.Allowed, ", "), what)}
}

// withDetails is the part of AsError for errors with details.
func withDetails(err error) *Error {
	var (
		refused   *job.ValidationError
		tooLarge  *job.BodyTooLargeError
		blocked   *app.BlockedError
		conflict  *app.ConflictError
		state     *app.StateError
		namespace *access.NamespaceError
		scope     *access.ScopeError
		topic     *job.TopicError
		waiting   *pulls.BusyError
	)
	switch {
	case errors.As(err, &refused):
		return Invalid(Pointers("", refused.Fields)...)
	case errors.As(err, &tooLarge):
		return &Error{
			Code:   CodeBodyTooLarge,
			Detail: fmt.Sprintf("The job's body is larger than %d bytes. Store a large payload elsewhere and send its URL.", tooLarge.Max),
		}
	case errors.As(err, &conflict):
		return ofConflict(conflict)
	case errors.As(err, &waiting):
		return &Error{Code: CodeTooManyPulls, Detail: waiting.Error() + ". Use another server, call without wait, or try again later."}
	case errors.As(err, &state):
		return ofState(state)
	case errors.As(err, &blocked):
		return &Error{
			Code:   CodeDestinationBlocked,
			Detail: "This server does not deliver to this address. Private, loopback and link-local addresses are refused unless the operator allows them.",
			Fields: []FieldError{{pointerTo(blocked.Field), "this server does not deliver to this destination"}},
		}
	case errors.Is(err, access.ErrMalformed):
		return &Error{Code: CodeUnauthorized, Detail: "The request has a " + err.Error() + ". Send Authorization: Bearer and the key's token, once."}
	case errors.As(err, &namespace):
		return &Error{
			Code:   CodeForbidden,
			Detail: fmt.Sprintf("The API key is for servers of namespace %s, but this server is of namespace %s.", namespace.Key, namespace.Server),
		}
	case errors.As(err, &topic):
		return ofTopics(topic)
	case errors.As(err, &scope):
		return &Error{
			Code:   CodeForbidden,
			Detail: fmt.Sprintf("The call needs an API key of scope %s; this key has scope %s.", scope.Need, scope.Have),
		}
	}
	for _, p := range refusedParameters {
		if errors.Is(err, p.is) {
			return Invalid(p.field)
		}
	}
	return nil
}

// ofConflict is the error of a registration whose key another job has.
func ofConflict(e *app.ConflictError) *Error {
	j := &e.Job
	switch e.Outcome {
	case store.InFlight:
		return &Error{Code: CodeJobInFlight, Job: j, Detail: fmt.Sprintf(
			"An attempt of %s (uid %s) is in flight, so the job can be neither replaced nor moved. Try again when the attempt has ended.", j.Key, j.UID)}
	case store.Busy:
		return &Error{Code: CodeJobBusy, Detail: busyDetail}
	case store.DeadLetter:
		return &Error{Code: CodeJobDead, Job: j, Detail: fmt.Sprintf(
			"%s (uid %s) is a dead letter. Replay or discard it, choose another id, or replace it with on_conflict replace.", j.Key, j.UID)}
	case store.KeyReused:
		return &Error{Code: CodeKeyReused, Job: j, Detail: fmt.Sprintf(
			"The Idempotency-Key named another registration before, whose job %s (uid %s) is %s. Repeat a call unchanged, or choose another key.", j.Key, j.UID, j.State)}
	case store.OtherOrderKey:
		if j.State == job.Dead {
			return &Error{Code: CodeJobDead, Job: j, Detail: fmt.Sprintf(
				"%s (uid %s) is a dead letter with another order_key, so it cannot be replaced. Discard it first, or choose another id.", j.Key, j.UID)}
		}
		return &Error{Code: CodeJobExists, Job: j, Detail: fmt.Sprintf(
			"%s (uid %s) is %s with another order_key, so it cannot be replaced. Cancel it first, or choose another id.", j.Key, j.UID, j.State)}
	}
	return &Error{Code: CodeJobExists, Job: j, Detail: fmt.Sprintf(
		"%s was registered with other content (uid %s) and is %s. Choose another id, change that job with PATCH, or set on_conflict.", j.Key, j.UID, j.State)}
}

// ofState is the error of a call that the state of the job does not allow.
func ofState(e *app.StateError) *Error {
	j, known := &e.Job, AsError(e.Cause)
	if known.Code != CodeJobFinished {
		return &Error{Code: known.Code, Job: j, Detail: fmt.Sprintf("%s is %s. %s", j.Key, j.State, known.Detail)}
	}
	ended := "ended as " + j.State.String()
	if j.Reason == job.ReasonDiscarded {
		ended = "was discarded as a dead letter"
	}
	return &Error{Code: known.Code, Job: j, Detail: fmt.Sprintf("%s %s, so it can no longer be changed or cancelled. Replay it, or register it again.", j.Key, ended)}
}
