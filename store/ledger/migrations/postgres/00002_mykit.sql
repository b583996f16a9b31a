-- +goose Up

-- The dialect of the API that registered the job and what it keeps, as {"name": …}, for people and the
-- views below; NULL for duehook's own. The spec has it, too.
ALTER TABLE payload ADD COLUMN dialect BYTEA;

-- The text of bytes, escaped if they are not text.
-- +goose StatementBegin
CREATE FUNCTION text_of(bytes BYTEA) RETURNS TEXT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN convert_from(bytes, 'UTF8');
EXCEPTION WHEN OTHERS THEN
    RETURN encode(bytes, 'escape');
END $$;
-- +goose StatementEnd

-- What a dialect keeps of a job; NULL if it is another one's.
-- +goose StatementBegin
CREATE FUNCTION kept_by(name TEXT, dialect BYTEA) RETURNS JSONB LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN convert_from(dialect, 'UTF8')::JSONB -> name;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- The tables of mykit-delay, for its users: the last registration of each job of its dialect, and the
-- changes of its jobs. The state running is not one of its statuses.
CREATE VIEW mykit_delay_queue_job AS
SELECT coalesce(k.kept ->> 'id', m.id) AS id, k.kept ->> 'bizkey' AS bizkey, m.topic, k.kept ->> 'subtopic' AS subtopic,
       (k.kept ->> 'delay')::BIGINT AS delay, (k.kept ->> 'create_time')::BIGINT AS create_time, text_of(p.body) AS body,
       CASE m.status WHEN 2 THEN 2 WHEN 3 THEN 2 WHEN 4 THEN 3 WHEN 5 THEN 6 WHEN 6 THEN 4 WHEN 7 THEN 4 ELSE 1 END AS status,
       (k.kept ->> 'ttl')::BIGINT AS ttl, to_timestamp(m.updated / 1000.0) AS update_time
FROM message m
JOIN payload p ON p.seq = m.seq
CROSS JOIN LATERAL (SELECT kept_by('mykit', p.dialect) AS kept) k
WHERE p.dialect IS NOT NULL AND k.kept IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM message n WHERE n.topic = m.topic AND n.id = m.id AND (n.created, n.uid) > (m.created, m.uid));

CREATE VIEW mykit_delay_queue_job_log AS
SELECT coalesce(k.kept ->> 'id', m.id) AS id,
       CASE WHEN f.from_state IS NULL THEN 0 WHEN f.from_state > 3 AND f.to_state < 4 THEN 5
            ELSE CASE f.to_state WHEN 2 THEN 2 WHEN 4 THEN 3 WHEN 5 THEN 6 WHEN 6 THEN 4 WHEN 7 THEN 4 ELSE 1 END END AS status,
       f.actor AS thread, to_timestamp(f.at / 1000.0) AS update_time, f.host
FROM flow f
JOIN message m ON m.seq = f.message
JOIN payload p ON p.seq = m.seq
CROSS JOIN LATERAL (SELECT kept_by('mykit', p.dialect) AS kept) k
WHERE p.dialect IS NOT NULL AND k.kept IS NOT NULL AND f.to_state <> 3;
