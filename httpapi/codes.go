package httpapi

import "net/http"

// Code is a kind of error: its stable name for clients, and its status and title in
// application/problem+json. docs/api-errors.md explains each.
type Code struct {
	Name   string
	Status int
	Title  string
}

var codes []Code

// Codes are all codes.
func Codes() []Code { return codes }

func newCode(name string, status int, title string) Code {
	c := Code{name, status, title}
	codes = append(codes, c)
	return c
}

// The codes.
var (
	CodeMalformedJSON        = newCode("malformed_json", http.StatusBadRequest, "The request body is not valid JSON")
	CodeUnauthorized         = newCode("unauthorized", http.StatusUnauthorized, "A valid API key is required")
	CodeForbidden            = newCode("forbidden", http.StatusForbidden, "The request is not allowed")
	CodeNotFound             = newCode("not_found", http.StatusNotFound, "There is no such call")
	CodeJobNotFound          = newCode("job_not_found", http.StatusNotFound, "There is no such job")
	CodeTopicNotFound        = newCode("topic_not_found", http.StatusNotFound, "There is no such topic")
	CodeKeyNotFound          = newCode("key_not_found", http.StatusNotFound, "There is no such API key")
	CodeSecretNotFound       = newCode("secret_not_found", http.StatusNotFound, "There is no such signing secret")
	CodeOperationNotFound    = newCode("operation_not_found", http.StatusNotFound, "There is no such operation")
	CodeScheduleNotFound     = newCode("schedule_not_found", http.StatusNotFound, "There is no such schedule")
	CodeGroupNotFound        = newCode("group_not_found", http.StatusNotFound, "There is no such group")
	CodeInboxNotFound        = newCode("inbox_not_found", http.StatusNotFound, "There is no such inbox")
	CodeAlertRuleNotFound    = newCode("alert_rule_not_found", http.StatusNotFound, "There is no such alert rule")
	CodeMethodNotAllowed     = newCode("method_not_allowed", http.StatusMethodNotAllowed, "The method is not allowed here")
	CodeTopicPlain           = newCode("topic_without_settings", http.StatusNotFound, "The topic has no settings")
	CodeTopicUnlimited       = newCode("topic_without_limits", http.StatusNotFound, "The topic has no limits of operators")
	CodeTopicFull            = newCode("topic_full", http.StatusTooManyRequests, "The topic is full")
	CodeTopicDraining        = newCode("topic_draining", http.StatusConflict, "The topic is draining")
	CodeJobExists            = newCode("job_exists", http.StatusConflict, "Another job has this topic and id")
	CodeJobFinished          = newCode("job_finished", http.StatusConflict, "The job has ended")
	CodeJobDead              = newCode("job_dead", http.StatusConflict, "A dead letter has this topic and id")
	CodeJobInFlight          = newCode("job_in_flight", http.StatusConflict, "The job is in flight")
	CodeJobBusy              = newCode("job_busy", http.StatusConflict, "Others change the job all the time")
	CodeJobNotCounted        = newCode("job_not_counted", http.StatusConflict, "The job has no count")
	CodeTooManyCountKeys     = newCode("too_many_count_keys", http.StatusConflict, "The job has reached its limit of keys")
	CodeVersionChanged       = newCode("version_changed", http.StatusPreconditionFailed, "The version has changed")
	CodeKeyFixed             = newCode("key_fixed", http.StatusConflict, "The API key is in the settings")
	CodeTooManyKeys          = newCode("too_many_keys", http.StatusConflict, "There are too many API keys")
	CodeSecretFixed          = newCode("secret_fixed", http.StatusConflict, "The signing secret is in the settings")
	CodeTooManySecrets       = newCode("too_many_secrets", http.StatusConflict, "Too many signing secrets overlap")
	CodeSecretUnreadable     = newCode("secret_unreadable", http.StatusConflict, "The stored signing secrets cannot be read")
	CodeMasterKeyMissing     = newCode("master_key_missing", http.StatusConflict, "The server has no master key")
	CodeSigningOff           = newCode("signing_off", http.StatusConflict, "The server does not sign deliveries")
	CodeOperationEnded       = newCode("operation_ended", http.StatusConflict, "The operation has ended")
	CodeTooManyOperations    = newCode("too_many_operations", http.StatusConflict, "There are too many operations")
	CodeTooManySchedules     = newCode("too_many_schedules", http.StatusConflict, "There are too many schedules")
	CodeTooManyGroups        = newCode("too_many_groups", http.StatusConflict, "There are too many groups")
	CodeTooManyTopics        = newCode("too_many_topics", http.StatusConflict, "There are too many topics with settings")
	CodeTooManyAlertRules    = newCode("too_many_alert_rules", http.StatusConflict, "There are too many alert rules")
	CodeNewerVersion         = newCode("newer_version", http.StatusConflict, "The stored data is of a newer version")
	CodeBodyTooLarge         = newCode("body_too_large", http.StatusRequestEntityTooLarge, "The body is too large")
	CodeUnsupportedMediaType = newCode("unsupported_media_type", http.StatusUnsupportedMediaType, "The content type is not supported")
	CodeInvalidRequest       = newCode("invalid_request", http.StatusUnprocessableEntity, "The request is not valid")
	CodeKeyReused            = newCode("idempotency_key_reused", http.StatusUnprocessableEntity, "The Idempotency-Key belongs to another request")
	CodeDestinationBlocked   = newCode("destination_blocked", http.StatusUnprocessableEntity, "The destination is blocked")
	CodeRateLimited          = newCode("rate_limited", http.StatusTooManyRequests, "Too many requests")
	CodeServerBusy           = newCode("server_busy", http.StatusServiceUnavailable, "The server is busy")
	CodeTooManyTests         = newCode("too_many_tests", http.StatusServiceUnavailable, "Too many tests are running")
	CodeTooManyPulls         = newCode("too_many_pulls", http.StatusServiceUnavailable, "Too many calls wait for jobs")
	CodeInternalError        = newCode("internal_error", http.StatusInternalServerError, "Internal error")
	CodeInboxUnavailable     = newCode("inbox_unavailable", http.StatusServiceUnavailable, "The inbox is unavailable")
	CodeStoreUnavailable     = newCode("store_unavailable", http.StatusServiceUnavailable, "The store is unavailable")
	CodeShuttingDown         = newCode("shutting_down", http.StatusServiceUnavailable, "The server is shutting down")
)
