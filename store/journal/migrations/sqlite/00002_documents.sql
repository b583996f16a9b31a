-- +goose Up

-- Configuration such as API keys and the settings of topics.
CREATE TABLE document (
    kind    TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    version INTEGER NOT NULL, -- counts the writes, from 1
    data    BLOB    NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
