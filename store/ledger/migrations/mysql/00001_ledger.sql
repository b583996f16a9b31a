-- +goose Up

-- Each statement may be run again: the server commits one by one.

-- A writer locks this row until its commit, so the transactions of all nodes run one
-- after the other.
CREATE TABLE IF NOT EXISTS writer (
    one      SMALLINT PRIMARY KEY CHECK (one = 1),
    next_seq BIGINT   NOT NULL
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO writer (one, next_seq) VALUES (1, 1);

-- What the numbers in status, from_state and to_state mean. They never change.
CREATE TABLE IF NOT EXISTS state (
    code INTEGER PRIMARY KEY,
    name VARCHAR(128) NOT NULL
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO state (code, name) VALUES
    (0, 'waiting'), (1, 'retrying'), (2, 'ready'), (3, 'running'),
    (4, 'delivered'), (5, 'dead'), (6, 'cancelled'), (7, 'expired');

-- One row for each registration. Instants are milliseconds since 1970, zero
-- for none; durations are milliseconds.
CREATE TABLE IF NOT EXISTS message (
    seq       BIGINT  PRIMARY KEY, -- in the order of the commits
    topic     VARCHAR(128) NOT NULL,
    id        VARCHAR(128) NOT NULL,
    uid       VARCHAR(128) NOT NULL,
    biz_key   VARCHAR(128) NOT NULL,
    endpoint  VARCHAR(512) NOT NULL,
    delay     BIGINT  NOT NULL,
    ttl       BIGINT  NOT NULL,
    created   BIGINT  NOT NULL,
    due       BIGINT  NOT NULL,
    expires   BIGINT  NOT NULL,
    status    BIGINT  NOT NULL,
    attempts  BIGINT  NOT NULL,
    snoozes   BIGINT  NOT NULL,
    expired_leases BIGINT NOT NULL,
    token     BIGINT  NOT NULL,
    version   BIGINT  NOT NULL,
    cancel    BIGINT  NOT NULL, -- 1: a cancel met an attempt in flight
    next_at   BIGINT  NOT NULL,
    reason    VARCHAR(512) NOT NULL,
    ended_at  BIGINT  NOT NULL,
    -- From when the row's age counts; NULL while the job is unfinished or a
    -- dead letter.
    done_at   BIGINT,
    updated   BIGINT  NOT NULL,
    -- Orders the registrations of a key: when the store registered the job, or later.
    place     BIGINT  NOT NULL,
    replaced  BIGINT  NOT NULL, -- 1: the key has a later registration
    -- Twice the count of a counted job, plus 1 once it has fired: it reached its target, or a client ran or
    -- replayed it.
    counted   BIGINT  NOT NULL,
    -- There is no index of a part of the rows; in this column the others are NULL.
    open_id   VARCHAR(128) GENERATED ALWAYS AS (CASE WHEN done_at IS NULL THEN id END) VIRTUAL,
    INDEX message_key (topic, id),
    UNIQUE INDEX message_open (topic, open_id),
    INDEX message_done (done_at)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What the client gave. It stands apart because a change of state rewrites the
-- whole row of message.
CREATE TABLE IF NOT EXISTS payload (
    seq  BIGINT PRIMARY KEY, -- of the message
    body LONGBLOB,
    spec LONGBLOB NOT NULL, -- all but the body, in MessagePack
    -- The dialect of the API that registered the job and what it keeps, as {"name": …}, for people and the
    -- views below; NULL for duehook's own. The spec has it, too.
    dialect LONGBLOB
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The keys that were counted of a counted job.
CREATE TABLE IF NOT EXISTS count_key (
    seq  BIGINT NOT NULL, -- of the message
    name VARCHAR(512) NOT NULL,
    PRIMARY KEY (seq, name)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row for each change of state.
CREATE TABLE IF NOT EXISTS flow (
    seq        BIGINT AUTO_INCREMENT PRIMARY KEY,
    message    BIGINT NOT NULL, -- its seq
    fact       VARCHAR(128) NOT NULL, -- names the row among those of its message
    at         BIGINT NOT NULL,
    from_state BIGINT,          -- NULL: the registration
    to_state   BIGINT NOT NULL,
    attempt    BIGINT NOT NULL, -- its number; 0: none
    actor      VARCHAR(512) NOT NULL, -- the carrier or worker that moved it
    host       VARCHAR(512) NOT NULL,
    reason     VARCHAR(512) NOT NULL,
    log        LONGBLOB,           -- the attempt's log entry, in MessagePack
    UNIQUE INDEX flow_fact (message, fact)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Configuration such as API keys and the settings of topics.
CREATE TABLE IF NOT EXISTS document (
    kind    VARCHAR(128) NOT NULL,
    name    VARCHAR(128) NOT NULL,
    version BIGINT NOT NULL, -- counts the writes, from 1
    data    LONGBLOB  NOT NULL,
    PRIMARY KEY (kind, name)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The history of jobs, for people.
CREATE OR REPLACE VIEW history AS
SELECT m.topic, m.id, m.uid, f.seq, FROM_UNIXTIME(f.at / 1000) AS at,
       s.name AS from_state, t.name AS to_state, f.attempt, f.actor, f.host, f.reason
FROM flow f
JOIN message m ON m.seq = f.message
LEFT JOIN state s ON s.code = f.from_state
JOIN state t ON t.code = f.to_state;

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
