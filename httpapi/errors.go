package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/scheduler/topics"
	"github.com/duehook/duehook/store"
)

// code is the stable name of an error, by which clients decide.
type code string

// The codes. Each is explained in docs/api-errors.md.
const (
	codeMalformedJSON        code = "malformed_json"
	codeUnauthorized         code = "unauthorized"
	codeForbidden            code = "forbidden"
	codeNotFound             code = "not_found"
	codeJobNotFound          code = "job_not_found"
	codeTopicNotFound        code = "topic_not_found"
	codeKeyNotFound          code = "key_not_found"
	codeSecretNotFound       code = "secret_not_found"
	codeOperationNotFound    code = "operation_not_found"
	codeAlertRuleNotFound    code = "alert_rule_not_found"
	codeMethodNotAllowed     code = "method_not_allowed"
	codeTopicPlain           code = "topic_without_settings"
	codeTopicFull            code = "topic_full"
	codeTopicDraining        code = "topic_draining"
	codeJobExists            code = "job_exists"
	codeJobFinished          code = "job_finished"
	codeJobDead              code = "job_dead"
	codeJobInFlight          code = "job_in_flight"
	codeVersionChanged       code = "version_changed"
	codeKeyFixed             code = "key_fixed"
	codeTooManyKeys          code = "too_many_keys"
	codeSecretFixed          code = "secret_fixed"
	codeTooManySecrets       code = "too_many_secrets"
	codeSecretUnreadable     code = "secret_unreadable"
	codeMasterKeyMissing     code = "master_key_missing"
	codeSigningOff           code = "signing_off"
	codeOperationEnded       code = "operation_ended"
	codeTooManyOperations    code = "too_many_operations"
	codeTooManyAlertRules    code = "too_many_alert_rules"
	codeNewerVersion         code = "newer_version"
	codeLedgerMissing        code = "ledger_missing"
	codeRestoreRunning       code = "restore_running"
	codeBodyTooLarge         code = "body_too_large"
	codeUnsupportedMediaType code = "unsupported_media_type"
	codeInvalidRequest       code = "invalid_request"
	codeDestinationBlocked   code = "destination_blocked"
	codeRateLimited          code = "rate_limited"
	codeTooManyStreams       code = "too_many_streams"
	codeTooManyTests         code = "too_many_tests"
	codeInternalError        code = "internal_error"
	codeStoreUnavailable     code = "store_unavailable"
	codeShuttingDown         code = "shutting_down"
)

// codes gives each code its status and title. Nothing else does.
var codes = map[code]struct {
	status int
	title  string
}{
	codeMalformedJSON:        {http.StatusBadRequest, "The request body is not valid JSON"},
	codeUnauthorized:         {http.StatusUnauthorized, "A valid API key is needed"},
	codeForbidden:            {http.StatusForbidden, "The request is not allowed"},
	codeNotFound:             {http.StatusNotFound, "There is no such call"},
	codeJobNotFound:          {http.StatusNotFound, "There is no such job"},
	codeTopicNotFound:        {http.StatusNotFound, "There is no such topic"},
	codeKeyNotFound:          {http.StatusNotFound, "There is no such API key"},
	codeSecretNotFound:       {http.StatusNotFound, "There is no such signing secret"},
	codeOperationNotFound:    {http.StatusNotFound, "There is no such operation"},
	codeAlertRuleNotFound:    {http.StatusNotFound, "There is no such alert rule"},
	codeMethodNotAllowed:     {http.StatusMethodNotAllowed, "The method is not allowed here"},
	codeTopicPlain:           {http.StatusNotFound, "The topic has no settings"},
	codeTopicFull:            {http.StatusTooManyRequests, "The topic is full"},
	codeTopicDraining:        {http.StatusConflict, "The topic takes no jobs in"},
	codeJobExists:            {http.StatusConflict, "Another job has this topic and id"},
	codeJobFinished:          {http.StatusConflict, "The job has ended"},
	codeJobDead:              {http.StatusConflict, "A dead letter has this topic and id"},
	codeJobInFlight:          {http.StatusConflict, "The job is in flight"},
	codeVersionChanged:       {http.StatusPreconditionFailed, "There is another version"},
	codeKeyFixed:             {http.StatusConflict, "The API key is in the settings"},
	codeTooManyKeys:          {http.StatusConflict, "There are too many API keys"},
	codeSecretFixed:          {http.StatusConflict, "The signing secret is in the settings"},
	codeTooManySecrets:       {http.StatusConflict, "Too many signing secrets overlap"},
	codeSecretUnreadable:     {http.StatusConflict, "The stored signing secrets cannot be read"},
	codeMasterKeyMissing:     {http.StatusConflict, "The server has no master key"},
	codeSigningOff:           {http.StatusConflict, "The server does not sign deliveries"},
	codeOperationEnded:       {http.StatusConflict, "The operation has ended"},
	codeTooManyOperations:    {http.StatusConflict, "There are too many operations"},
	codeTooManyAlertRules:    {http.StatusConflict, "There are too many alert rules"},
	codeNewerVersion:         {http.StatusConflict, "A newer version wrote what is stored"},
	codeLedgerMissing:        {http.StatusConflict, "The server has no ledger"},
	codeRestoreRunning:       {http.StatusConflict, "Jobs are being restored"},
	codeBodyTooLarge:         {http.StatusRequestEntityTooLarge, "The body is too large"},
	codeUnsupportedMediaType: {http.StatusUnsupportedMediaType, "The content type is not supported"},
	codeInvalidRequest:       {http.StatusUnprocessableEntity, "The request is not valid"},
	codeDestinationBlocked:   {http.StatusUnprocessableEntity, "The destination is blocked"},
	codeRateLimited:          {http.StatusTooManyRequests, "Too many requests"},
	codeTooManyTests:         {http.StatusServiceUnavailable, "Too many tests are under way"},
	codeTooManyStreams:       {http.StatusServiceUnavailable, "Too many streams are open"},
	codeInternalError:        {http.StatusInternalServerError, "Internal error"},
	codeStoreUnavailable:     {http.StatusServiceUnavailable, "The store is unavailable"},
	codeShuttingDown:         {http.StatusServiceUnavailable, "The server is shutting down"},
}

// typePrefix makes a code a URI, as the type of a problem has to be (RFC 9457).
const typePrefix = "urn:duehook:error:"

// retryAfterSeconds is what answers advise that may succeed later.
const retryAfterSeconds = "1"

// problem is an error as the client sees it: application/problem+json.
type problem struct {
	Type   string         `json:"type"`
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail"`
	Code   code           `json:"code"`
	Errors []problemField `json:"errors"`
}

type problemField struct {
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// apiError is an error that already knows its code.
type apiError struct {
	code   code
	detail string
	fields []problemField
	cause  error
}

func (e *apiError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %v", e.code, e.cause)
	}
	return fmt.Sprintf("%s: %s", e.code, e.detail)
}

func (e *apiError) Unwrap() error { return e.cause }

func malformed(detail string) error { return &apiError{code: codeMalformedJSON, detail: detail} }

// inputError is what is wrong with parts of a request, by their pointers.
type inputError struct{ fields []problemField }

func (e *inputError) Error() string {
	parts := make([]string, len(e.fields))
	for i, f := range e.fields {
		parts[i] = f.Pointer + ": " + f.Message
	}
	return strings.Join(parts, "; ")
}

// pointers maps fields of the domain to pointers into a request; at is the pointer
// to the object that they are in.
func pointers(at string, fields []job.FieldError) []problemField {
	list := make([]problemField, len(fields))
	for i, f := range fields {
		list[i] = problemField{at + pointerTo(f.Field), f.Message}
	}
	return list
}

// pointerTo is the JSON pointer to a field. The API calls all fields as the domain
// does.
func pointerTo(f job.Field) string {
	pointer := ""
	for _, part := range f.Parts() {
		pointer += "/" + escapePointer(part)
	}
	return pointer
}

// invalid is one thing wrong with one part of the request: "/field" in the
// body or in the path, "?name" in the query, "Name" in the headers.
func invalid(pointer, message string) error {
	return &inputError{[]problemField{{pointer, message}}}
}

// asAPIError is the one map from errors to codes. What it does not know is an
// internal error, whose cause the client is not told.
func asAPIError(err error) *apiError {
	var known *apiError
	if errors.As(err, &known) {
		return known
	}
	var input *inputError
	var refused *job.ValidationError
	if errors.As(err, &refused) {
		input = &inputError{pointers("", refused.Fields)}
	}
	if input != nil || errors.As(err, &input) {
		return &apiError{
			code: codeInvalidRequest, fields: input.fields, cause: err,
			detail: "Correct what errors names, or this will be refused again. /name is a field of the body or a part of the path, ?name a query parameter, a bare name a header.",
		}
	}
	var blocked *scheduler.BlockedError
	if errors.As(err, &blocked) {
		return &apiError{
			code: codeDestinationBlocked, cause: err,
			detail: "Deliveries to this address are refused, as they are to private, loopback and link-local ones unless the operator allows them.",
			fields: []problemField{{pointerTo(blocked.Field), "this server does not deliver to this destination"}},
		}
	}
	if access := asRefusal(err); access != nil {
		return access
	}
	if errors.Is(err, store.ErrNewer) {
		return &apiError{
			code: codeNewerVersion, cause: err,
			detail: "What is stored cannot be read by this version of duehook, so it is neither shown nor changed. What follows from it, such as a topic's pause and limits, stays in force. Ask a node of the version that wrote it.",
		}
	}
	if secret := asSigningError(err); secret != nil {
		return secret
	}
	if operation := asOperationError(err); operation != nil {
		return operation
	}
	if alert := asAlertError(err); alert != nil {
		return alert
	}
	switch {
	case errors.Is(err, store.ErrBadCursor):
		return asAPIError(invalid("?cursor", "is not one that this listing handed out; start again without it, and keep the other parameters as they are from page to page"))
	case errors.Is(err, store.ErrBadOrder):
		return asAPIError(invalid("?order", badOrder))
	case errors.Is(err, store.ErrTooManyToSort):
		return asAPIError(invalid("?order", tooManyToSort))
	case errors.Is(err, store.ErrUnreadable):
		return &apiError{
			code: codeJobNotFound, cause: err,
			detail: "What the store holds under this topic and id cannot be read as a job. Register the job anew to replace it.",
		}
	case errors.Is(err, store.ErrNotFound):
		return &apiError{
			code: codeJobNotFound, cause: err,
			detail: "No job has this topic and id, or it ended and is no longer kept. Names are case-sensitive.",
		}
	case errors.Is(err, store.ErrTopicFull):
		return &apiError{code: codeTopicFull, cause: err, detail: fullDetail}
	case errors.Is(err, store.ErrTopicDraining):
		return &apiError{code: codeTopicDraining, cause: err, detail: drainingDetail}
	case errors.Is(err, scheduler.ErrTooManyTests):
		return &apiError{
			code: codeTooManyTests, cause: err,
			detail: fmt.Sprintf("%d tests are under way here. Try again when one of them has ended.", scheduler.MaxTests),
		}
	case errors.Is(err, scheduler.ErrTopicsFixed):
		return &apiError{code: codeNotFound, cause: err, detail: "This server keeps no settings of topics."}
	case errors.Is(err, topics.ErrNotFound):
		return &apiError{code: codeTopicPlain, cause: err, detail: "The topic has no settings of its own, so there is nothing to delete."}
	case errors.Is(err, job.ErrFinished):
		return &apiError{
			code: codeJobFinished, cause: err,
			detail: "The job has ended, so it can no longer be changed or cancelled. Replay it, or register it anew.",
		}
	case errors.Is(err, job.ErrInFlight):
		return &apiError{
			code: codeJobInFlight, cause: err,
			detail: "An attempt of the job is in flight. Try again when it has ended.",
		}
	case errors.Is(err, job.ErrNotEnded):
		return &apiError{
			code: codeJobInFlight, cause: err,
			detail: "The job has not ended, so there is nothing to replay. To have it sent now, use run.",
		}
	case errors.Is(err, store.ErrRestoring):
		return &apiError{
			code: codeRestoreRunning, cause: err,
			detail: "A run that was asked for before has not ended. GET /v1/restore tells how far it is.",
		}
	case errors.Is(err, store.ErrConflict):
		return &apiError{
			code: codeStoreUnavailable, cause: err,
			detail: "What this request wants to change was changed by others again and again meanwhile; nothing was stored. Try again.",
		}
	case errors.Is(err, store.ErrOtherLayout):
		return &apiError{
			code: codeStoreUnavailable, cause: err,
			detail: "This node's settings do not fit what the store holds, such as another number of shards, so it serves nothing. Its log says what to do. Ask another node.",
		}
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &apiError{
			code: codeStoreUnavailable, cause: err,
			detail: "The store cannot be reached or is full. Try again; with the same id or Idempotency-Key a registration is safe to repeat.",
		}
	case errors.Is(err, echo.ErrNotFound):
		return &apiError{code: codeNotFound, detail: "There is no such path. /openapi.json lists every call."}
	case errors.Is(err, echo.ErrMethodNotAllowed):
		return &apiError{code: codeMethodNotAllowed, detail: "This path does not take this method. The Allow header lists those that it takes."}
	}
	return &apiError{code: codeInternalError, cause: err, detail: internalDetail}
}

const (
	fullDetail     = "The topic holds as many unfinished jobs as its capacity allows. Try again when one of them has ended."
	drainingDetail = "The topic is being drained: what it holds is delivered, and nothing is taken in until it is resumed."
)

const internalDetail = "Something went wrong in the server, and was logged under this answer's X-Request-Id."

// withState tells a client whose command the lifecycle refused how the job stands.
func withState(err error, j *job.Job) error {
	known := *asAPIError(err)
	switch known.code {
	case codeJobFinished:
		ended := "ended as " + j.State.String()
		if j.Reason == job.ReasonDiscarded {
			ended = "was discarded as a dead letter"
		}
		known.detail = fmt.Sprintf("%s %s, so it can no longer be changed or cancelled. Replay it, or register it anew.", j.Key, ended)
	case codeJobInFlight:
		known.detail = fmt.Sprintf("%s is %s. ", j.Key, j.State) + known.detail
	}
	return &known
}

// checkName refuses what is no name.
func checkName(pointer, value string) error {
	if err := job.CheckName(value); err != nil {
		return invalid(pointer, err.Error())
	}
	return nil
}
