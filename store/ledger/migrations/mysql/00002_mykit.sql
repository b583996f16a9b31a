-- +goose Up

-- The dialect of the API that registered the job and what it keeps, as {"name": …}, for people and the
-- views below; NULL for duehook's own. The spec has it, too. A second run must not fail: the server commits
-- one statement by one.
-- +goose StatementBegin
SET @add_dialect = IF((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'payload' AND column_name = 'dialect') = 0,
    'ALTER TABLE payload ADD COLUMN dialect LONGBLOB', 'DO 0');
-- +goose StatementEnd
PREPARE add_dialect FROM @add_dialect;
EXECUTE add_dialect;
DEALLOCATE PREPARE add_dialect;

-- The tables of mykit-delay, for its users: the last registration of each job of its dialect, and the
-- changes of its jobs. The state running is not one of its statuses.
CREATE OR REPLACE VIEW mykit_delay_queue_job AS
SELECT coalesce(JSON_UNQUOTE(JSON_EXTRACT(CONVERT(p.dialect USING utf8mb4), '$.mykit.id')), m.id) AS id,
       JSON_UNQUOTE(JSON_EXTRACT(CONVERT(p.dialect USING utf8mb4), '$.mykit.bizkey')) AS bizkey, m.topic,
       JSON_UNQUOTE(JSON_EXTRACT(CONVERT(p.dialect USING utf8mb4), '$.mykit.subtopic')) AS subtopic,
       CAST(JSON_EXTRACT(CONVERT(p.dialect USING utf8mb4), '$.mykit.delay') AS SIGNED) AS delay,
       CAST(JSON_EXTRACT(CONVERT(p.dialect USING utf8mb4), '$.mykit.create_time') AS SIGNED) AS create_time,
       CONVERT(p.body USING utf8mb4) AS body,
       CASE m.status WHEN 2 THEN 2 WHEN 3 THEN 2 WHEN 4 THEN 3 WHEN 5 THEN 6 WHEN 6 THEN 4 WHEN 7 THEN 4 ELSE 1 END AS status,
       CAST(JSON_EXTRACT(CONVERT(p.dialect USING utf8mb4), '$.mykit.ttl') AS SIGNED) AS ttl, FROM_UNIXTIME(m.updated / 1000) AS update_time
FROM message m
JOIN payload p ON p.seq = m.seq
WHERE p.dialect LIKE '{"mykit":{%'
  AND NOT EXISTS (SELECT 1 FROM message n WHERE n.topic = m.topic AND n.id = m.id AND (n.created, n.uid) > (m.created, m.uid));

CREATE OR REPLACE VIEW mykit_delay_queue_job_log AS
SELECT coalesce(JSON_UNQUOTE(JSON_EXTRACT(CONVERT(p.dialect USING utf8mb4), '$.mykit.id')), m.id) AS id,
       CASE WHEN f.from_state IS NULL THEN 0 WHEN f.from_state > 3 AND f.to_state < 4 THEN 5
            ELSE CASE f.to_state WHEN 2 THEN 2 WHEN 4 THEN 3 WHEN 5 THEN 6 WHEN 6 THEN 4 WHEN 7 THEN 4 ELSE 1 END END AS status,
       f.actor AS thread, FROM_UNIXTIME(f.at / 1000) AS update_time, f.host
FROM flow f
JOIN message m ON m.seq = f.message
JOIN payload p ON p.seq = m.seq
WHERE p.dialect LIKE '{"mykit":{%' AND f.to_state <> 3;
