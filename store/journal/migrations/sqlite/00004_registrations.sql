-- +goose Up

-- The journal of one process has no rows of flow for registrations: the row of
-- message says all. Journals from before have both.
DROP VIEW history;

-- What waits has no flow, so the logs of what is unfinished are found by message.
DROP INDEX flow_log;

-- For people.
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
