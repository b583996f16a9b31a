-- Views for people. Their columns keep their names and meanings; new ones may be added at the end.

CREATE VIEW duehook.jobs AS
SELECT
	topic, id, uid,
	(ARRAY['waiting', 'retrying', 'ready', 'running', 'delivered', 'dead', 'cancelled', 'expired'])[state + 1] AS state,
	nullif(reason, '') AS reason,
	biz_key,
	substr(order_key, length(topic) + 2) AS order_key,
	attempts,
	cancel_requested,
	to_timestamp(created_at / 1000.0) AS created_at,
	to_timestamp(updated_at / 1000.0) AS updated_at,
	to_timestamp(due_at / 1000.0) AS due_at,
	CASE WHEN bucket IS NOT NULL THEN to_timestamp(next_at / 1000.0) END AS next_at,
	CASE WHEN expires_at <> 0 THEN to_timestamp(expires_at / 1000.0) END AS expires_at,
	CASE WHEN ended_at <> 0 THEN to_timestamp(ended_at / 1000.0) END AS ended_at,
	CASE WHEN bucket = 0 THEN to_timestamp(claim_at / 1000.0) END AS claimed_at,
	CASE WHEN bucket = 0 THEN to_timestamp(wake / 1000.0) END AS leased_until,
	CASE WHEN bucket = 0 THEN nullif(claim_by, '') END AS node
FROM duehook.job;

CREATE VIEW duehook.attempts AS
SELECT
	topic, id, uid,
	(attempt ->> 'number')::int AS number,
	to_timestamp((attempt ->> 'started_at')::bigint / 1000.0) AS started_at,
	(attempt ->> 'duration')::bigint / 1000000.0 AS duration_ms,
	(attempt ->> 'status')::int AS status,
	attempt ->> 'error' AS error,
	attempt ->> 'reason' AS reason,
	CASE WHEN attempt ->> 'next_at' <> '0' THEN to_timestamp((attempt ->> 'next_at')::bigint / 1000.0) END AS next_at,
	attempt ->> 'node' AS node
FROM duehook.job, unnest(log) AS entry,
	LATERAL (SELECT regexp_replace(entry, '(?<!\\)((\\\\)*)\\u0000', '\1', 'g')::json AS attempt) AS parsed; -- PostgreSQL has no character 0

COMMENT ON VIEW duehook.jobs IS 'Jobs with their states and times. Do not write to the tables of this schema.';
COMMENT ON VIEW duehook.attempts IS 'The latest attempts of jobs.';
