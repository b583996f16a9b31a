package client

// The codes of refusals. docs/api-errors.md of the server explains each.
const (
	ErrMalformedJSON        Code = "malformed_json"
	ErrUnauthorized         Code = "unauthorized"
	ErrForbidden            Code = "forbidden"
	ErrNotFound             Code = "not_found"
	ErrJobNotFound          Code = "job_not_found"
	ErrTopicNotFound        Code = "topic_not_found"
	ErrTopicWithoutSettings Code = "topic_without_settings"
	ErrTopicWithoutLimits   Code = "topic_without_limits"
	ErrTopicFull            Code = "topic_full"
	ErrTopicDraining        Code = "topic_draining"
	ErrKeyNotFound          Code = "key_not_found"
	ErrSecretNotFound       Code = "secret_not_found"
	ErrOperationNotFound    Code = "operation_not_found"
	ErrScheduleNotFound     Code = "schedule_not_found"
	ErrGroupNotFound        Code = "group_not_found"
	ErrAlertRuleNotFound    Code = "alert_rule_not_found"
	ErrInboxNotFound        Code = "inbox_not_found"
	ErrInboxUnavailable     Code = "inbox_unavailable"
	ErrMethodNotAllowed     Code = "method_not_allowed"
	ErrJobExists            Code = "job_exists"
	ErrJobFinished          Code = "job_finished"
	ErrJobDead              Code = "job_dead"
	ErrJobInFlight          Code = "job_in_flight"
	ErrJobBusy              Code = "job_busy"
	ErrJobNotCounted        Code = "job_not_counted"
	ErrTooManyCountKeys     Code = "too_many_count_keys"
	ErrVersionChanged       Code = "version_changed"
	ErrKeyFixed             Code = "key_fixed"
	ErrTooManyKeys          Code = "too_many_keys"
	ErrSecretFixed          Code = "secret_fixed"
	ErrTooManySecrets       Code = "too_many_secrets"
	ErrSecretUnreadable     Code = "secret_unreadable"
	ErrMasterKeyMissing     Code = "master_key_missing"
	ErrSigningOff           Code = "signing_off"
	ErrNewerVersion         Code = "newer_version"
	ErrOperationEnded       Code = "operation_ended"
	ErrTooManyOperations    Code = "too_many_operations"
	ErrTooManySchedules     Code = "too_many_schedules"
	ErrTooManyGroups        Code = "too_many_groups"
	ErrTooManyTopics        Code = "too_many_topics"
	ErrTooManyAlertRules    Code = "too_many_alert_rules"
	ErrBodyTooLarge         Code = "body_too_large"
	ErrUnsupportedMediaType Code = "unsupported_media_type"
	ErrInvalidRequest       Code = "invalid_request"
	ErrIdempotencyKeyReused Code = "idempotency_key_reused"
	ErrDestinationBlocked   Code = "destination_blocked"
	ErrRateLimited          Code = "rate_limited"
	ErrServerBusy           Code = "server_busy"
	ErrTooManyTests         Code = "too_many_tests"
	ErrTooManyPulls         Code = "too_many_pulls"
	ErrInternalError        Code = "internal_error"
	ErrStoreUnavailable     Code = "store_unavailable"
	ErrShuttingDown         Code = "shutting_down"
)

// Codes are all codes of this version.
var Codes = []Code{
	ErrMalformedJSON,
	ErrUnauthorized,
	ErrForbidden,
	ErrNotFound,
	ErrJobNotFound,
	ErrTopicNotFound,
	ErrTopicWithoutSettings,
	ErrTopicWithoutLimits,
	ErrTopicFull,
	ErrTopicDraining,
	ErrKeyNotFound,
	ErrSecretNotFound,
	ErrOperationNotFound,
	ErrScheduleNotFound,
	ErrGroupNotFound,
	ErrAlertRuleNotFound,
	ErrInboxNotFound,
	ErrInboxUnavailable,
	ErrMethodNotAllowed,
	ErrJobExists,
	ErrJobFinished,
	ErrJobDead,
	ErrJobInFlight,
	ErrJobBusy,
	ErrJobNotCounted,
	ErrTooManyCountKeys,
	ErrVersionChanged,
	ErrKeyFixed,
	ErrTooManyKeys,
	ErrSecretFixed,
	ErrTooManySecrets,
	ErrSecretUnreadable,
	ErrMasterKeyMissing,
	ErrSigningOff,
	ErrNewerVersion,
	ErrOperationEnded,
	ErrTooManyOperations,
	ErrTooManySchedules,
	ErrTooManyGroups,
	ErrTooManyTopics,
	ErrTooManyAlertRules,
	ErrBodyTooLarge,
	ErrUnsupportedMediaType,
	ErrInvalidRequest,
	ErrIdempotencyKeyReused,
	ErrDestinationBlocked,
	ErrRateLimited,
	ErrServerBusy,
	ErrTooManyTests, ErrTooManyPulls,
	ErrInternalError,
	ErrStoreUnavailable,
	ErrShuttingDown,
}
