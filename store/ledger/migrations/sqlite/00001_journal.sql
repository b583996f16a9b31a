-- +goose Up

-- What the numbers in status, from_state and to_state mean. They never change.
CREATE TABLE state (
    code INTEGER PRIMARY KEY,
    name TEXT NOT NULL
) STRICT;
INSERT INTO state (code, name) VALUES
    (0, 'waiting'), (1, 'retrying'), (2, 'ready'), (3, 'running'),
    (4, 'delivered'), (5, 'dead'), (6, 'cancelled'), (7, 'expired');

-- One row for each registration. Instants are milliseconds since 1970, zero
-- for none; durations are milliseconds.
CREATE TABLE message (
    seq      INTEGER PRIMARY KEY, -- in the order of registration
    topic    TEXT    NOT NULL,
    id       TEXT    NOT NULL,
    uid      TEXT    NOT NULL,
    biz_key  TEXT    NOT NULL,
    endpoint TEXT    NOT NULL,
    delay    INTEGER NOT NULL,
    ttl      INTEGER NOT NULL,
    created  INTEGER NOT NULL,
    due      INTEGER NOT NULL,
    expires  INTEGER NOT NULL,
    status   INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    snoozes  INTEGER NOT NULL,
    expired_leases INTEGER NOT NULL,
    token    INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    cancel   INTEGER NOT NULL, -- 1: a cancel met an attempt in flight
    next_at  INTEGER NOT NULL,
    reason   TEXT    NOT NULL,
    ended_at INTEGER NOT NULL,
    -- From when the row's age counts; NULL while the job is unfinished or a
    -- dead letter. At most one row of a topic and id has NULL.
    done_at  INTEGER,
    updated  INTEGER NOT NULL,
    -- 0: the store may not have it, and its times are the node's. 1: its times are the
    -- store's. 2: the store had another registration of the key later.
    confirmed INTEGER NOT NULL
) STRICT;
CREATE INDEX message_key ON message (topic, id);
CREATE INDEX message_done ON message (done_at);

-- What the client gave. It stands apart because a change of state rewrites the
-- whole row of message.
CREATE TABLE payload (
    seq  INTEGER PRIMARY KEY, -- of the message
    body BLOB,
    spec BLOB NOT NULL        -- all but the body, in MessagePack
) STRICT;

-- The count of a counted job, and the keys that were counted of it.
CREATE TABLE tally (
    seq     INTEGER PRIMARY KEY, -- of the message
    counted INTEGER NOT NULL,
    fired   INTEGER NOT NULL     -- 1: it reached its target, or a client ran or replayed the job
) STRICT;
CREATE TABLE tally_key (
    seq  INTEGER NOT NULL, -- of the message
    name TEXT    NOT NULL,
    PRIMARY KEY (seq, name)
) STRICT, WITHOUT ROWID;

-- One row for each change of state.
CREATE TABLE flow (
    seq        INTEGER PRIMARY KEY,
    message    INTEGER NOT NULL, -- its seq
    at         INTEGER NOT NULL,
    from_state INTEGER,          -- NULL: the registration
    to_state   INTEGER NOT NULL,
    attempt    INTEGER NOT NULL, -- its number; 0: none
    actor      TEXT    NOT NULL, -- the carrier or worker that moved it
    host       TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    log        BLOB              -- the attempt's log entry, in MessagePack
) STRICT;
CREATE INDEX flow_message ON flow (message);

-- Configuration such as API keys and the settings of topics.
CREATE TABLE document (
    kind    TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    version INTEGER NOT NULL, -- counts the writes, from 1
    data    BLOB    NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- For people. In the ledger of one process, the row of message stands for the
-- registration.
CREATE VIEW history AS
SELECT m.topic, m.id, m.uid, f.seq, strftime('%Y-%m-%dT%H:%M:%fZ', f.at / 1000.0, 'unixepoch') AS at,
       s.name AS from_state, t.name AS to_state, f.attempt, f.actor, f.host, f.reason
FROM flow f
JOIN message m ON m.seq = f.message
LEFT JOIN state s ON s.code = f.from_state
JOIN state t ON t.code = f.to_state
UNION ALL
SELECT m.topic, m.id, m.uid, 0, strftime('%Y-%m-%dT%H:%M:%fZ', m.created / 1000.0, 'unixepoch'), NULL, 'waiting', 0, '', '', ''
FROM message m
WHERE NOT EXISTS (SELECT 1 FROM flow f WHERE f.message = m.seq AND f.from_state IS NULL);
